"""What integration tests share: a small PyTorch-like tree, and skips that name what is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ci.cli.app import run

# The small tree is input, some of it made to crash whoever imports it.
collect_ignore = ["tree"]
TREE = Path(__file__).parent / "tree"
Called = Callable[..., tuple[int, str, str]]


def need(present: bool, what: str) -> None:
    """Skip with the reason where something real is not to be had."""
    if not present:
        pytest.skip(f"{what} is not found")


@pytest.fixture
def torch_installed() -> None:
    """The test runs real torch in processes of its own."""
    need(importlib.util.find_spec("torch") is not None, "torch")


@pytest.fixture
def tree(tmp_path: Path, torch_installed: None) -> Path:  # noqa: ARG001  # asks for torch
    """A writable copy of the small tree."""
    return Path(shutil.copytree(TREE, tmp_path / "pytorch"))


@pytest.fixture(scope="session")
def pytorch_tree() -> Path:
    """A real PyTorch source tree, named by PYTORCH_TREE."""
    named = os.environ.get("PYTORCH_TREE", "")
    need(bool(named) and Path(named, "test").is_dir(), "a PyTorch source tree (PYTORCH_TREE)")
    return Path(named)


@pytest.fixture(autouse=True)
def _own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a host of its own: no run waits for the cards of another test's."""
    monkeypatch.setenv("SPYRE_CI__RUN__LEASES", str(tmp_path / "leases"))


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Calls `spyre-ci` in this process, for what it says: its exit code, and both outputs.

    Takes the folder it is called in, the whole environment and the words.
    """

    def call(folder: Path, environ: Mapping[str, str], *words: str) -> tuple[int, str, str]:
        with monkeypatch.context() as here:
            here.chdir(folder)
            for name in os.environ.keys() - environ.keys():
                here.delenv(name)
            for name, value in environ.items():
                here.setenv(name, value)
            code = run(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return call
