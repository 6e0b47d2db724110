"""A world that is made up: settings, environment, clock, and processes that say what they are told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.core.errors import CommandError
from ci.core.process import Ended
from ci.doctor.world import Processes, World

NOW = 1_785_000_000.0
MakeWorld = Callable[..., World]


def says(*answers: str | int | CommandError) -> Callable[..., Ended]:
    """What runs commands, and answers each in turn: its output, the code it ends with, or why it did not."""
    left = list(answers)

    def run(argv: Sequence[str | Path], **_: Any) -> Ended:
        answer = left.pop(0)
        if isinstance(answer, CommandError):
            raise answer
        if isinstance(answer, int):
            return Ended(code=answer, stdout=b"", stderr=f"code {answer} of {argv[0]}".encode())
        return Ended(code=0, stdout=answer.encode(), stderr=b"")

    return run


@pytest.fixture
def make_world(tmp_path: Path) -> MakeWorld:
    def make(
        environ: dict[str, str] | None = None,
        *answers: str | int | CommandError,
        cores: int = 2,
        **flags: Any,
    ) -> World:
        dotted = {key.replace("__", "."): value for key, value in flags.items()}
        return World(
            settings=load_settings(path=None, environ=environ or {}, flags=dotted, cwd=tmp_path),
            environ=environ or {},
            clock=lambda: NOW,
            monotonic=lambda: 0.0,
            cwd=tmp_path,
            cores=cores,
            processes=Processes(says(*answers)),
        )

    return make
