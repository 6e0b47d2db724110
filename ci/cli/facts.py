"""What each verb says of itself: its help, options, arguments and examples, read from the code.

The reference, its checks and the tests of the verbs are made of these. Names are those of the command line;
types, defaults and help are those of the function's annotations, so that they are the same with every typer.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

PROGRAM = "spyre-ci"
_EXAMPLE = re.compile(r"^Example: (.+)$", re.MULTILINE)
_KINDS = {int: "INTEGER", float: "FLOAT", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An option or an argument.

    Attributes:
        names: as they are typed, such as `-f` and `--follow`; of an argument its metavar.
        negative: the names that take it back, such as `--no-tests`.
        kind: what it takes, such as `PATH`; empty for a flag.
        help: its help.
        default: what is shown of it; None where there is none to show.
        required: it has to be given.
        repeated: it may be given several times.
        hidden: it is no part of the help.
        annotation: the Python type.
    """

    names: tuple[str, ...]
    negative: tuple[str, ...]
    kind: str
    help: str
    default: str | None
    required: bool
    repeated: bool
    hidden: bool
    annotation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A verb, or a group of verbs.

    Attributes:
        path: its words behind `spyre-ci`.
        help: the paragraphs of its help, without examples.
        examples: what is typed.
        arguments: in their order.
        options: in their order, without `--help`.
        verbs: of a group, the names of those in it.
        runs: it does something by itself, as every verb does, and some groups.
    """

    path: tuple[str, ...]
    help: tuple[str, ...]
    examples: tuple[str, ...]
    arguments: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    verbs: tuple[str, ...]
    runs: bool

    @property
    def name(self) -> str:
        """As it is typed behind `spyre-ci`."""
        return " ".join(self.path)

    @property
    def shown(self) -> tuple[Parameter, ...]:
        """The options that help shows."""
        return tuple(one for one in self.options if not one.hidden)


def walk(root: Any) -> Iterator[Facts]:
    """Every verb and group below a root command, in the order of the help.

    Args:
        root: the command, as `typer.main.get_command` gives it.
    """
    for name, command in root.commands.items():
        yield from _walk(command, (name,))


def facts_of(command: Any, path: tuple[str, ...]) -> Facts:
    """What one command says of itself."""
    verbs = tuple(getattr(command, "commands", ()))
    text = command.help or ""
    about = _hints(command)
    given = [_parameter(one, about) for one in command.params if one.name != "help"]
    paragraphs = [
        " ".join(one.split()) for one in re.split(r"\n\s*\n", _EXAMPLE.sub("", text.partition("\f")[0]))
    ]
    return Facts(
        path=path,
        help=tuple(one for one in paragraphs if one),
        examples=tuple(_EXAMPLE.findall(text)),
        arguments=tuple(one for kind, one in given if kind == "argument"),
        options=tuple(one for kind, one in given if kind != "argument"),
        verbs=verbs,
        runs=not verbs or bool(command.invoke_without_command),
    )


def _walk(command: Any, path: tuple[str, ...]) -> Iterator[Facts]:
    yield facts_of(command, path)
    for name, one in getattr(command, "commands", {}).items():
        yield from _walk(one, (*path, name))


def _hints(command: Any) -> dict[str, tuple[Any, ParameterInfo, Any]]:
    """By parameter: its type, what typer is told of it, and its default."""
    if command.callback is None:
        return {}
    function = inspect.unwrap(command.callback)
    hints = get_type_hints(function, include_extras=True)
    found = {}
    for name, one in inspect.signature(function).parameters.items():
        annotation = hints.get(name)
        if get_origin(annotation) is not Annotated:
            continue
        kind, *notes = get_args(annotation)
        info = next((note for note in notes if isinstance(note, ParameterInfo)), None)
        if info is not None:
            found[name] = (kind, info, one.default)
    return found


def _parameter(one: Any, about: dict[str, tuple[Any, ParameterInfo, Any]]) -> tuple[str, Parameter]:
    kind, info, default = about.get(one.name, (str, typer.Option(), None))
    repeated, plain = _plain_type(kind)
    argument = isinstance(info, ArgumentInfo)
    metavar = info.metavar or (one.name.upper() if argument else _kind_of(plain, info))
    names = (metavar,) if argument else tuple(one.opts)
    return str(one.param_type_name), Parameter(
        names=names,
        negative=() if argument else tuple(one.secondary_opts),
        kind="" if plain is bool or argument else metavar,
        help=" ".join((info.help or "").split()),
        default=_default_of(default, info),
        required=default in (inspect.Parameter.empty, ...),
        repeated=repeated,
        hidden=bool(info.hidden),
        annotation=getattr(plain, "__name__", str(plain)),
    )


def _plain_type(kind: Any) -> tuple[bool, Any]:
    """Whether it is a list, and the type of one, without None."""
    while get_origin(kind) in (Union, types.UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is list:
        return True, _plain_type(get_args(kind)[0])[1]
    return False, kind


def _kind_of(plain: Any, info: ParameterInfo) -> str:
    if get_origin(plain) is Literal:
        return f"[{'|'.join(map(str, get_args(plain)))}]"
    if isinstance(plain, type) and issubclass(plain, Enum):
        return f"[{'|'.join(str(one.value) for one in plain)}]"
    if plain in _KINDS:
        low, high = info.min, info.max
        bounds = [f">={low}" if low is not None else "", f"<={high}" if high is not None else ""]
        limits = ", ".join(filter(None, bounds))
        return f"{_KINDS[plain]} ({limits})" if limits else _KINDS[plain]
    return str(getattr(plain, "__name__", plain)).upper()


def _default_of(default: Any, info: ParameterInfo) -> str | None:
    """A default that is worth telling; paths as they are, whatever the system."""
    if not info.show_default or default in (None, inspect.Parameter.empty, ..., False, [], (), ""):
        return None
    if isinstance(info.show_default, str):
        return info.show_default
    if default is True:
        return "yes" if isinstance(info, OptionInfo) else "True"
    return default.as_posix() if isinstance(default, Path) else str(getattr(default, "value", default))
