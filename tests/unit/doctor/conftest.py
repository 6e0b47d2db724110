"""A machine that is made up: settings, environment, clock, and commands that answer as they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.core.commands import Ended
from ci.core.errors import CommandError
from ci.doctor.finding import Finding
from ci.doctor.machine import Machine

NOW = 1_785_000_000.0
# What a command prints, the code it fails with, or why it did not end.
Answer = str | int | dict[str, Any] | CommandError
MakeMachine = Callable[..., Machine]
LATE = CommandError("took longer than 9 s: python")


def answering(*answers: Answer) -> Callable[..., Ended]:
    """What runs commands and answers each in turn."""
    left = list(answers)

    def run(argv: Sequence[str], **_: Any) -> Ended:
        answer = left.pop(0)
        if isinstance(answer, CommandError):
            raise answer
        if isinstance(answer, int):
            return Ended(code=answer, stdout=b"", stderr=f"code {answer} of {argv[0]}".encode())
        text = answer if isinstance(answer, str) else f"noise of a library\n{json.dumps(answer)}\n"
        return Ended(code=0, stdout=text.encode(), stderr=b"")

    return run


@pytest.fixture
def make_machine(tmp_path: Path) -> MakeMachine:
    def make(
        environ: dict[str, str] | None = None, *answers: Answer, cores: int = 2, **flags: Any
    ) -> Machine:
        own = {key: flags.pop(key) for key in ("root", "open_cards", "system") if key in flags}
        dotted = {key.replace("__", "."): value for key, value in flags.items()}
        return Machine(
            settings=load_settings(path=None, environ=environ or {}, flags=dotted, cwd=tmp_path),
            environ=environ or {},
            cwd=tmp_path,
            cores=cores,
            clock=lambda: NOW,
            run=answering(*answers),
            **own,
        )

    return make


def short(found: Sequence[Finding]) -> list[tuple[str, str]]:
    """Level and message of each finding."""
    return [(str(one.level), one.message) for one in found]
