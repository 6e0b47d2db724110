"""What a nox session makes of its words, and whether spyre-ci has such a verb with such options."""

from __future__ import annotations

import collections
import copy
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import nox
import nox.registry
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from ci.cli.app import app

ROOT = Path(__file__).parent.parent


@cache
def noxfile() -> ModuleType:
    """The noxfile, as nox loads it: into a registry of its own."""
    with (
        mock.patch.object(nox.registry, "_REGISTRY", collections.OrderedDict()),
        mock.patch.object(nox, "options", copy.copy(nox.options)),
    ):
        spec = importlib.util.spec_from_file_location("the_called_noxfile", ROOT / "noxfile.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def commands_of(session: str, words: Sequence[str]) -> list[list[str]]:
    """The words behind `spyre-ci` of each command that a session runs with these behind `--`."""
    ran: list[list[str]] = []
    # Sessions that begin with settings or folders of their own end in this one as well.
    with mock.patch.object(noxfile(), "spyre_ci", lambda _, *said, **__: ran.append(list(said))):
        fake = mock.MagicMock(spec=nox.Session, posargs=list(words), invoked_from=str(ROOT))
        fake.venv_backend = "none"
        getattr(noxfile(), session)(fake)
    return ran


def resolve(words: Sequence[str]) -> str:
    """The verb of a command line, whose options are all its own.

    Raises:
        Exception: typer's; there is no such verb, or it has no such option.
    """
    command: Any = get_command(app)
    context = Context(command)
    rest, path = list(words), []
    while isinstance(command, TyperGroup):
        name, command, rest = command.resolve_command(context, rest)
        path.append(str(name))
        context = Context(command, parent=context, info_name=name)
    command.make_parser(context).parse_args(rest)
    return " ".join(path)
