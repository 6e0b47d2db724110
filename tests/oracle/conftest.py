"""What the oracle's tests share: the command line, called as users call it, in a folder of their own.

The oracle holds what users have while the code below it moves: commands, files and pages, nothing from
inside. It may import the stand-ins of `tests/`, and neither `ci` nor `test_selection`.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TREE = ROOT / "tests" / "integration" / "tree"
# Tests of the small tree that use nothing of torch run on it: a second instead of three.
STAND_IN = ROOT / "tests" / "torch_stand_in"
TIMEOUT_S = 300
# What the machine says of itself decides nothing: no CI, no tokens, no settings of whoever runs the tests.
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "DOCKER_HOST", "TEST_REGISTRY", "TEST_BASE_IMAGE", "PYTORCH_TREE")
KEPT_BEGINS = ("PIP_", "SSL_", "REQUESTS_", "CURL_", "OPENBLAS", "UV_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command ended with and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as the JSON it is."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A folder in which somebody types `spyre-ci`, and the environment of their shell."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str | Path, **environ: str) -> subprocess.Popen[str]:
        """Begin a command, for a test that interrupts it or looks at it while it runs."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "ci.cli", *map(str, words)],
            cwd=self.folder,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, *words: str | Path, code: int | None = 0, **environ: str) -> Said:
        """Call a command, which ends with this code (None: whatever) and without a traceback."""
        with self.start(*words, **environ) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                raise
        said = Said(code=process.returncode, out=out, err=err)
        assert "Traceback" not in out + err, out + err
        assert code is None or said.code == code, f"{words} ended with {said.code}, not {code}\n{out}\n{err}"
        return said

    def write(self, name: str, content: Any) -> Path:
        """Write a file: a text as it is, anything else as JSON, packed where the name ends with .gz."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode())
        return path

    def read(self, path: str | Path) -> Any:
        """A file of JSON, or of lines of JSON, packed or not."""
        file = self.folder / path
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        if ".jsonl" in file.name:
            return [json.loads(line) for line in data.splitlines()]
        return json.loads(data)

    def runs(self) -> list[Path]:
        """The folders of its runs, the oldest first."""
        return sorted(path for path in (self.folder / "runs").iterdir() if path.is_dir())


def make_desk(base: Path, settings: str = "", *, stand_in: bool = False) -> Desk:
    """A desk in a new folder below `base`, with settings; `stand_in`: torch is a stand-in."""
    folder, home = base / "desk", base / "home"
    folder.mkdir(parents=True)
    home.mkdir()
    environ = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith(KEPT_BEGINS)}
    path = [str(ROOT), *([str(STAND_IN)] if stand_in else [])]
    environ |= {
        "HOME": str(home),
        "COLUMNS": "100",
        "PYTHONPATH": os.pathsep.join(path),
        "SPYRE_CI__RUN__LEASES": str(base / "leases"),
        "SPYRE_CI__DEVICE__NAME": "cpu",
        "SPYRE_CI__REPORT__ENDPOINT": "none",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "tests", "GIT_AUTHOR_EMAIL": "tests@localhost",
        "GIT_COMMITTER_NAME": "tests", "GIT_COMMITTER_EMAIL": "tests@localhost",
    }  # fmt: skip
    desk = Desk(folder=folder, environ=environ)
    if settings:
        desk.write("spyre-ci.yaml", settings)
    return desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder without settings, on the CPU, with torch."""
    return make_desk(tmp_path)


@pytest.fixture
def quick_desk(tmp_path: Path) -> Desk:
    """The same with a stand-in for torch, for tests that use nothing of it."""
    return make_desk(tmp_path, stand_in=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the small tree of tests, some of which crash, hang or leave."""
    return Path(shutil.copytree(TREE, tmp_path / "pytorch"))
