"""The root of the verbs, which imports only the verb that is called: help and completion are quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ci.cli.verbs import PANELS, VERBS, Verb
from ci.core import interrupts

# The design's table of exit codes, on each verb's help.
EXIT_CODES = (
    "Exit codes: 0 success, 1 a test or check failed, 2 bad input, 3 incomplete (may be retried), "
    "130 interrupted."
)


class Loaded(Mapping[str, Any]):
    """The verbs as commands, each made when it is asked for."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            with interrupts.deferred():
                self._made[name] = _made(name, self._verbs[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)

    def get(self, key: str, default: Any = None) -> Any:
        """A verb's command; a KeyError of its import is no missing verb."""
        return self[key] if key in self._verbs else default

    def __contains__(self, key: object) -> bool:
        return key in self._verbs


class Root(TyperGroup):
    """The group of all verbs; where it only names them, none is imported."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = Loaded(VERBS)  # type: ignore[assignment]  # nothing adds to it
        self._naming = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # of the group's interface
        """The verbs by their names; typer's own asks for each command."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb's command, or while they are only named, one that has its help."""
        if self._naming and cmd_name in VERBS:
            panel = next(panel for panel, verbs in PANELS.items() if cmd_name in verbs)
            return TyperCommand(cmd_name, help=VERBS[cmd_name].help, rich_help_panel=panel)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the list of verbs."""
        self._while_naming(lambda: super(Root, self).format_help(ctx, formatter))

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The verbs and options that begin with `incomplete`."""
        found: list[Any] = self._while_naming(lambda: super(Root, self).shell_complete(ctx, incomplete))
        return found

    def _while_naming(self, do: Callable[[], Any]) -> Any:
        self._naming = True
        try:
            return do()
        finally:
            self._naming = False


def _made(name: str, verb: Verb) -> Any:
    found = _object(verb.at)
    if not isinstance(found, typer.Typer):
        return _leaf(name, found)
    group = typer.main.get_group(found)
    group.name, group.help, group.epilog = name, group.help or verb.help, EXIT_CODES
    for one, at in verb.more.items():
        group.add_command(_leaf(one, _object(at)), one)
    shown = verb.shown or tuple(group.commands)
    group.commands = {one: group.commands[one] for one in dict.fromkeys([*shown, *group.commands])}
    for one, command in group.commands.items():
        command.epilog = EXIT_CODES
        command.hidden = one not in shown
    return group


def _leaf(name: str, function: Callable[..., Any]) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(name, epilog=EXIT_CODES)(function)
    return typer.main.get_command(alone)


def _object(at: str) -> Any:
    module, _, name = at.partition(":")
    return getattr(import_module(module), name)
