"""A failure is brought back inside an image: by the line of its report, in the shell that is opened there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import docker
import pytest

ROOT = Path(__file__).parent.parent.parent
RUN_S = 900
TESTS = """
import random
import unittest


class TestDrawn(unittest.TestCase):
    def test_drawn(self):
        self.fail(f"drew {random.getrandbits(60)}")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A checkout of Git with a secret that Git ignores, a tree of tests, and a run in which one failed."""
    folder, tests = tmp_path / "shop", tmp_path / "tree" / "test"
    tests.mkdir(parents=True)
    (tests / "test_drawn.py").write_text(TESTS)
    folder.mkdir()
    (folder / ".gitignore").write_text("runs\n.spyre-ci\n.env\n")
    (folder / ".env").write_text("SECRET=hush\n")
    (folder / "kept.txt").write_text("kept\n")
    for words in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    (folder / ".netrc").write_text("hush\n")
    words = ["pytorch", "--pytorch-src", str(tests.parent), "--device", "cpu", "--percent", "100"]
    done = call(folder, *words, "--retries", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    return folder


def call(folder: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    environ = {
        "PYTHONPATH": str(ROOT),
        "SPYRE_CI__REPORT__ENDPOINT": "none",
        "SPYRE_CI__RUN__LEASES": str(folder),
    }
    return subprocess.run(
        [sys.executable, "-m", "ci.cli", *words],
        cwd=folder,
        env={**os.environ, **environ},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )


def test_the_line_of_a_report_brings_it_back_inside_the_image(
    client: docker.DockerClient, op_suite_image: str, shop: Path
) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker's command is not found")
    assert client.ping()
    run = next((shop / "runs").iterdir())
    page = (run / "summary.md").read_text() if (run / "summary.md").is_file() else ""
    line = re.search(r"^spyre-ci reproduce .*$", page, re.MULTILINE)
    assert line is not None, list(run.iterdir())
    drew = re.search(r"drew \d+", page)
    assert drew is not None
    typed = "\n".join(
        [
            "echo at=$PWD kept=$(cat kept.txt) secret=$(cat .env .netrc 2>/dev/null)",
            "touch kept.txt new.txt && echo copy=written",
            f"touch runs/{shlex.quote(run.name)}/evil || echo run=read-only",
            line[0],
            "echo code=$?",
            "exit",
        ]
    )
    done = call(
        shop, "reproduce", "--shell", "--image", op_suite_image, "--", "test_drawn", run.name, typed=typed
    )
    said = done.stdout + done.stderr
    assert "at=/workspace kept=kept secret=\n" in said, said[-3000:]
    assert "copy=written" in said
    assert "run=read-only" in said
    assert "reproduced: the same failure" in said, said[-3000:]
    assert drew[0] in said.partition("try 1")[2]
    assert "code=1" in said
    assert not (shop / "new.txt").exists()
    assert not (run / "evil").exists()
