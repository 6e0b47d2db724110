"""Write a man page of each verb to a folder, from what the code says.

usage: man_pages.py DIR. Names are those of the command line; types, defaults and help are those of the
function's annotations, so that they are the same with every typer. The tests of the verbs use them too.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ci.cli.app import app  # noqa: E402  # of this checkout
from test_selection.files import write_text  # noqa: E402

PROGRAM = "spyre-ci"
_EXAMPLE = re.compile(r"^Example: (.+)$", re.MULTILINE)
_KINDS = {int: "INTEGER", float: "FLOAT", str: "TEXT", Path: "PATH"}
EXIT_CODES: Mapping[str, str] = {
    "0": "all is well; of a run: everything that ran passed, was skipped or failed as declared",
    "1": "what was asked about is not so: a test failed, a check did not hold, files differ",
    "2": "a flag, a setting or a file cannot be taken; nothing was changed",
    "3": "incomplete: something was not run, not reached or not delivered, and may be another time",
    "70": "a fault of spyre-ci; what it prints belongs into a report",
    "130": "interrupted",
}
FILES: Mapping[str, str] = {
    "spyre-ci.yaml": "settings of the checkout",
    "runs/": "a folder for each run (setting `runs`)",
    ".spyre-ci/": "what is kept between runs: history, HUD, caches (setting `state`)",
}
ENVIRONMENT: Mapping[str, str] = {
    "SPYRE_CI__SECTION__KEY": "any setting, such as `SPYRE_CI__RUN__CARDS=4`; a flag goes before it",
    "NO_COLOR": "no colours",
}
ALSO = "docs/json.md, docs/completion.md, docs/renamed.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An option or an argument.

    Attributes:
        names: as they are typed, such as `-f` and `--follow`; of an argument its metavar.
        negative: the names that take it back, where it has any.
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


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[Facts]:
    """Every verb and group below a command, as typer makes it, in the order of the help."""
    for name, one in getattr(command, "commands", {}).items():
        yield facts_of(one, (*path, name))
        yield from walk(one, (*path, name))


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


def man_pages(facts: Iterable[Facts], version: str) -> dict[str, str]:
    """A man page of each verb and group, by file name.

    Args:
        facts: every verb and group.
        version: of spyre-ci.
    """
    return {f"{PROGRAM}-{'-'.join(one.path)}.1": _man(one, version) for one in facts}


def synopsis(verb: Facts) -> str:
    """A verb in a line: its required options, what else there is, its arguments."""
    words = [PROGRAM, *verb.path]
    words += [f"{one.names[0]} {one.kind}".strip() for one in verb.shown if one.required]
    if any(not one.required for one in verb.shown):
        words.append("[OPTIONS]")
    words += [_argument(one) for one in verb.arguments]
    return " ".join(words if verb.runs else [*words, "VERB …"])


def _argument(one: Parameter) -> str:
    name = one.names[0]
    more = "..." if one.repeated and not name.endswith(("...", "…", "...]", "…]")) else ""
    return f"{name}{more}" if one.required or name.startswith("[") else f"[{name}]{more}"


def _option(one: Parameter) -> str:
    names = ", ".join((*one.names, *one.negative))
    return f"{names} {one.kind}".rstrip()


def _told(one: Parameter) -> str:
    notes = [
        *(["required"] if one.required and not one.names[0][:1].isalpha() else []),
        *(
            ["may be given again"]
            if one.repeated and "again" not in one.help and "repeat" not in one.help
            else []
        ),
        *([f"default: {one.default}"] if one.default is not None and "default" not in one.help else []),
    ]
    return one.help + (f" ({'; '.join(notes)})" if notes else "")


def _man(one: Facts, version: str) -> str:
    title = f"{PROGRAM}-{'-'.join(one.path)}"
    lines = [f'.TH "{title.upper()}" "1" "" "{PROGRAM} {version}" "{PROGRAM}"', ".SH NAME"]
    lines += [
        f"{_roff(title)} \\- {_roff(one.help[0])}",
        ".SH SYNOPSIS",
        _roff(synopsis(one)),
        ".SH DESCRIPTION",
    ]
    for paragraph in one.help:
        lines += [".PP", _roff(paragraph)]
    if one.verbs:
        lines += [".SH VERBS", *(f".TP\n.B {_roff(f'{PROGRAM} {one.name} {name}')}" for name in one.verbs)]
    options = [(_argument(each), _told(each)) for each in one.arguments]
    options += [(_option(each), _told(each)) for each in one.shown]
    for heading, rows in (
        ("OPTIONS", options),
        ("EXIT STATUS", list(EXIT_CODES.items())),
        ("FILES", list(FILES.items())),
        ("ENVIRONMENT", list(ENVIRONMENT.items())),
    ):
        lines += [f".SH {heading}"] if rows else []
        lines += [f".TP\n.B {_roff(left)}\n{_roff(right)}" for left, right in rows]
    if one.examples:
        lines += [".SH EXAMPLES", ".nf", *(_roff(text) for text in one.examples), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", _roff(ALSO), ""])


def _roff(text: str) -> str:
    """Text that roff takes as it is."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    # A line that begins with one of these is a command.
    return re.sub(r"^([.'])", r"\\&\1", escaped)


def facts() -> list[Facts]:
    """Every verb and group of this checkout."""
    return list(walk(typer.main.get_command(app)))


def main() -> int:
    """Write the pages; 2 where no folder is named."""
    if len(sys.argv) <= 1:
        sys.stderr.write("usage: man_pages.py DIR\n")
        return 2
    for name, text in man_pages(facts(), version("spyre-ci")).items():
        write_text(Path(sys.argv[1]) / name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
