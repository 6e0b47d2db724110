"""docs/first-hour.md, done as written: each block of commands in turn, in a clean clone."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .clean_clone import ROOT, TIMEOUT_S, clean_environment

DOCUMENT = ROOT / "docs" / "first-hour.md"
# A block of commands, what it prints where the document shows it, and the code it says it ends with.
STEP = re.compile(r"```sh\n(?P<commands>.*?)```\n(?P<said>.*?)(?=```sh|\Z)", re.DOTALL)
ENDS = re.compile(r"ends with \*\*(\d+)\*\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A block of commands.

    Attributes:
        commands: as a shell takes them.
        shown: lines that its output holds in this order; `…` stands for anything.
        code: what it ends with.
    """

    commands: str
    shown: tuple[str, ...]
    code: int


def steps() -> list[Step]:
    """The document's blocks, in order."""
    found = []
    for one in STEP.finditer(DOCUMENT.read_text(encoding="utf-8")):
        shown = [
            line.strip()
            for block in re.findall(r"```text\n(.*?)```", one["said"], re.DOTALL)
            for line in block.splitlines()
            if line.strip() not in {"", "…"}
        ]
        code = ENDS.search(one["said"])
        found.append(
            Step(commands=one["commands"], shown=tuple(shown), code=int(code[1]) if code is not None else 0)
        )
    return found


def missing(shown: tuple[str, ...], out: str) -> str | None:
    """The first line of `shown` that `out` does not hold behind the ones before it."""
    at = 0
    for line in shown:
        pattern = ".*?".join(re.escape(part.strip()) for part in line.split("…"))
        found = re.compile(pattern).search(out, at)
        if found is None:
            return line
        at = found.end()
    return None


def test_the_first_hour_goes_as_it_is_written(clone: Path) -> None:
    environ = clean_environment()
    environ["PATH"] = f"{clone}/.venv/bin{os.pathsep}{environ['PATH']}"
    done = steps()
    assert len(done) >= 7
    for step in done:
        result = subprocess.run(
            ["bash", "-uo", "pipefail", "-c", f"export PATH=$PWD/.nox/pytorch/bin:$PATH\n{step.commands}"],
            cwd=clone,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert result.returncode == step.code, f"{step.commands}\n{result.stdout[-5000:]}"
        assert missing(step.shown, result.stdout) is None, f"{step.commands}\n{result.stdout[-5000:]}"
    status = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"],
        cwd=clone,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert status.stdout == ""


def test_a_line_that_is_not_printed_would_be_found() -> None:
    assert missing(("4 failed", "exit 1"), "exit 1\n4 failed in 2 s\n") == "exit 1"
    assert missing(("… 4 failed", "exit 1"), "23 passed, 4 failed\nexit 1\n") is None
