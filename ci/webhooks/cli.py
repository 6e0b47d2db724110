"""`spyre-ci webhooks`: webhooks as the file has them, and a poller where none can reach Jenkins."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.errors import CommandError
from ci.webhooks.file import DEFAULT_FILE, chosen, read_webhooks

if TYPE_CHECKING:
    from ci.webhooks.model import Repository
    from ci.webhooks.setting_up import Compared, SetUp

app = typer.Typer(help="Webhooks of a list of repositories, and polling where none can reach Jenkins.")

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[REPOSITORY]...", help="Only these; default: all of the file.")
]
File = Annotated[Path, typer.Option("--file", help="The file of webhooks.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Delete duplicates, and hooks on our hosts that the file does not name."),
]


@app.command()
def show(names: Names = None, file: File = DEFAULT_FILE, as_json: Json = False) -> None:
    """Say which webhooks each repository has."""
    from ci.webhooks import text  # noqa: PLC0415  # with PyGithub, an extra

    task, repositories = _task(file, names)
    _compare(task, repositories, lines=text.seen_lines, as_json=as_json)


@app.command()
def check(names: Names = None, file: File = DEFAULT_FILE, as_json: Json = False) -> None:
    """Compare them with the file; ends with 1 where something differs."""
    from ci.webhooks import text  # noqa: PLC0415  # as above

    task, repositories = _task(file, names)
    _compare(task, repositories, lines=text.change_lines, as_json=as_json, differing=True)


@app.command()
def apply(  # noqa: PLR0917  # typer makes options of them
    names: Names = None,
    file: File = DEFAULT_FILE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    prune: Prune = False,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Set every hook's secret anew: GitHub shows none to compare.")
    ] = False,
    ping: Annotated[
        bool, typer.Option("--ping", help="Ping what was changed, and say what Jenkins answered.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what differs, then make it as the file has it."""
    from ci.webhooks import text  # noqa: PLC0415  # as above
    from ci.webhooks.setting_up import apply as set_up  # noqa: PLC0415
    from ci.webhooks.setting_up import compare, exit_code  # noqa: PLC0415

    task, repositories = _task(file, names, prune=prune, rotate=rotate, ping=ping)
    compared = compare(task, repositories)
    if not as_json:
        _print(text.change_lines, compared)
    if not dry_run:
        able = [one for one in compared if one.error is None]
        set_up(task, able, say=lambda one: None if as_json else _print(text.done_lines, [one]))
    if as_json:
        typer.echo(json.dumps({"repositories": [text.as_json(one) for one in compared]}, indent=1))
    raise typer.Exit(exit_code(compared))


def _compare(
    task: SetUp,
    repositories: Iterable[Repository],
    *,
    lines: Callable[[Compared], Iterator[str]],
    as_json: bool,
    differing: bool = False,
) -> None:
    from ci.webhooks import text  # noqa: PLC0415  # as above
    from ci.webhooks.setting_up import compare, exit_code  # noqa: PLC0415

    compared = compare(task, repositories)
    if as_json:
        typer.echo(json.dumps({"repositories": [text.as_json(one) for one in compared]}, indent=1))
    else:
        _print(lines, compared)
    raise typer.Exit(exit_code(compared, differing=differing))


def _task(
    file: Path, names: list[str] | None, *, prune: bool = False, rotate: bool = False, ping: bool = False
) -> tuple[SetUp, tuple[Repository, ...]]:
    """What is asked for, of the file and the environment."""
    found = read_webhooks(file)
    repositories = chosen(found, names or (), file)
    try:
        from ci.webhooks.hubs import Hubs  # noqa: PLC0415  # as above
        from ci.webhooks.setting_up import SetUp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandError(
            f"webhooks want a library that is not installed: {error.name}",
            remedy="install it: pip install 'spyre-ci[github]'",
        ) from error
    task = SetUp(
        found=found,
        hubs=Hubs(found, os.environ),
        environ=os.environ,
        sleep=time.sleep,
        prune=prune,
        rotate=rotate,
        ping=ping,
    )
    return task, repositories


def _print(lines: Callable[[Compared], Iterator[str]], compared: Iterable[Compared]) -> None:
    for one in compared:
        for line in lines(one):
            typer.echo(line)
