"""A project with a run, in which every example of every verb is typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from ci.cli.app import run
from tests.repositories import git

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120
# Where whoever runs the tests is does not matter to what an example does.
FOREIGN = ("GITHUB_", "JENKINS", "CHANGE_", "BUILD_", "GIT_", "AWS_", "SPYRE_CI_", "CI", "KUBE", "NEEDS")
SETTINGS = """\
stage: 1
stages: {1: {cards: 2}}
device: {name: cpu}
report: {repository: o/r}
run: {cards: 2, lease_timeout_s: 60}
"""
TESTS = '''\
"""Stands for a file of PyTorch's."""

import unittest


class TestViewOps(unittest.TestCase):
    def test_contiguous(self):
        pass

    def test_fails(self):
        self.assertEqual(1, 2)

    @unittest.skip("not today")
    def test_skips(self):
        pass
'''
MORE = "".join(f"\n    def test_view_{n}(self):\n        pass\n" for n in range(17))
# What bash makes of an example's words is handed on, and nothing is run by it.
SHIM = """\
spyre-ci() { printf '%s\\0' "$@" > "$ASKED"; env -0 > "$ASKED.environ"; }
set -eu
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a verb ended with and printed."""

    code: int
    out: str
    err: str


@dataclass(slots=True, kw_only=True)
class World:
    """A folder in which somebody types, and their home.

    Attributes:
        base: holds both.
        patch: changes the environment for a test.
        request: gives fixtures by their names: stand-ins are begun where a verb wants one.
        said: gives what was printed since it was asked before.
    """

    base: Path
    patch: pytest.MonkeyPatch
    request: pytest.FixtureRequest
    said: Callable[[], tuple[str, str]]

    @property
    def folder(self) -> Path:
        """The project."""
        return self.base / "project"

    def write(self, name: str, content: Any) -> Path:
        """Write a file of the project; what is no text, as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def settings(self, text: str) -> None:
        """Add to the settings."""
        with (self.folder / "spyre-ci.yaml").open("a", encoding="utf-8") as stream:
            stream.write(text)

    def git(self, *words: str) -> str:
        """What git says in the project."""
        return git(self.folder, *words)

    def words(self, example: str) -> tuple[list[str], dict[str, str]]:
        """What a shell makes of an example: the words behind `spyre-ci`, and the environment."""
        asked = self.base / "asked"
        subprocess.run(
            ["bash", "-c", SHIM + example],
            cwd=self.folder,
            env={**os.environ, "ASKED": str(asked)},
            check=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        lines = Path(f"{asked}.environ").read_text(encoding="utf-8").split("\0")
        environ = dict(line.split("=", 1) for line in lines if "=" in line)
        words = asked.read_text(encoding="utf-8").split("\0")[:-1]
        return words, {
            key: one
            for key, one in environ.items()
            if os.environ.get(key) != one and key not in {"_", "ASKED", "SHLVL", "PWD", "OLDPWD"}
        }

    def call(self, *words: str) -> Said:
        """Call `spyre-ci` in this process."""
        self.said()
        code = run(list(words))
        out, err = self.said()
        assert "this is a bug" not in err, err
        return Said(code=code, out=out, err=err)

    def type(self, example: str, *more: str) -> Said:
        """Type an example, with more words behind it."""
        words, environ = self.words(example)
        for key, one in environ.items():
            self.patch.setenv(key, one)
        end = words.index("--") if "--" in words else len(words)
        return self.call(*words[:end], *more, *words[end:])

    def interrupt(self, example: str, shown: str) -> Said:
        """Run an example as a process of its own, and press Ctrl-C when it has shown something."""
        words, _ = self.words(example)
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "ci.cli", *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            # It says so just before it listens, and is interrupted when it serves.
            if (address := re.search(r"http://\S+/", line)) is not None:
                requests.get(f"{address[0]}healthz", timeout=TIMEOUT_S)
            process.send_signal(signal.SIGINT if shown in line else signal.SIGKILL)
            out, err = process.communicate(timeout=TIMEOUT_S)
        assert shown in line, line + out + err
        return Said(code=process.returncode, out=line + out, err=err)


def at_home(base: Path, patch: pytest.MonkeyPatch) -> None:
    """Put this process into a world: its home, its project, and nothing of a CI around."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        patch.delenv(name)
    patch.setenv("HOME", str(base / "home"))
    patch.setenv("COLUMNS", "100")
    patch.setenv("PYTHONPATH", str(ROOT))
    patch.setenv("SPYRE_CI__RUN__LEASES", str(base / "leases"))
    patch.chdir(base / "project")


def make_base(base: Path) -> None:
    """A project beside a small tree of PyTorch's."""
    test = base / "home" / "pytorch" / "test"
    test.mkdir(parents=True)
    (test / "test_view_ops.py").write_text(TESTS + MORE, encoding="utf-8")
    shutil.copy(ROOT / "tests" / "integration" / "tree" / "version.txt", base / "home" / "pytorch")
    (base / "project").mkdir()
    (base / "project" / "spyre-ci.yaml").write_text(SETTINGS, encoding="utf-8")


def make_run(base: Path) -> None:
    """A run of these tests, reported: `nightly`, and the same as of two other days."""
    words = ["pytorch", "--pytorch-src", str(base / "home" / "pytorch"), "--percent", "100"]
    with pytest.MonkeyPatch.context() as patch:
        at_home(base, patch)
        assert run(words) == 1, "a test of it fails"
    runs = base / "project" / "runs"
    (made,) = runs.iterdir()
    made.rename(runs / "nightly")
    for name in ("monday", "friday"):
        (runs / name).mkdir()
        shutil.copy(runs / "nightly" / "catalog.jsonl.gz", runs / name)
