"""`spyre-ci webhooks`: webhooks as the file has them, and a poller where none can reach Jenkins."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.config.flags import Json
from ci.core.errors import UsageError
from ci.webhooks.file import DEFAULT_FILE, chosen, read_webhooks
from ci.webhooks.flags import File, Names, Prune, extra
from ci.webhooks.poll_cli import poll
from test_selection.files import document_text

if TYPE_CHECKING:
    from ci.webhooks.model import Repository
    from ci.webhooks.setting_up import Compared, SetUp

app = typer.Typer(
    help="Webhooks of a list of repositories, and polling where none can reach Jenkins.", no_args_is_help=True
)


@app.command()
def show(file: File = DEFAULT_FILE, only: Names = None, as_json: Json = False) -> None:
    """Say which webhooks each repository has.

    Example: spyre-ci webhooks show
    """
    task, repositories = _task(file, only)
    from ci.webhooks import setting_up, text  # noqa: PLC0415  # with PyGithub, an extra

    _tell(setting_up.look(task, repositories), text.seen_lines, as_json=as_json)


@app.command()
def check(file: File = DEFAULT_FILE, only: Names = None, as_json: Json = False) -> None:
    """Compare them with the file; ends with 1 where something differs.

    Example: spyre-ci webhooks check jenkins/webhooks.yaml
    """
    task, repositories = _task(file, only)
    from ci.webhooks import setting_up, text  # noqa: PLC0415  # as above

    _tell(setting_up.compare(task, repositories), text.change_lines, as_json=as_json, differing=True)


@app.command()
def apply(  # noqa: PLR0917  # typer makes options of them
    file: File = DEFAULT_FILE,
    only: Names = None,
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
    """Show what differs, then make it as the file has it.

    Example: spyre-ci webhooks apply --dry-run
    """
    task, repositories = _task(file, only, prune=prune, rotate=rotate, ping=ping)
    from ci.webhooks import text  # noqa: PLC0415  # as above
    from ci.webhooks.setting_up import apply as set_up  # noqa: PLC0415
    from ci.webhooks.setting_up import compare, exit_code  # noqa: PLC0415

    compared = compare(task, repositories)
    if not as_json:
        _print(text.change_lines, compared)
    if not dry_run:
        able = [one for one in compared if one.error is None]
        set_up(task, able, say=lambda one: None if as_json else _print(text.done_lines, [one]))
    if as_json:
        typer.echo(document_text("webhooks", {"repositories": [text.as_json(one) for one in compared]}))
    raise typer.Exit(exit_code(compared))


def _tell(
    compared: Sequence[Compared],
    lines: Callable[[Compared], Iterator[str]],
    *,
    as_json: bool,
    differing: bool = False,
) -> None:
    from ci.webhooks import text  # noqa: PLC0415  # as above
    from ci.webhooks.setting_up import exit_code  # noqa: PLC0415

    if as_json:
        typer.echo(document_text("webhooks", {"repositories": [text.as_json(one) for one in compared]}))
    else:
        _print(lines, compared)
        if differing and any(one.seen for one in compared):
            typer.echo(text.UNSEEN)
    raise typer.Exit(exit_code(compared, differing=differing))


def _task(
    file: Path, only: list[str] | None, *, prune: bool = False, rotate: bool = False, ping: bool = False
) -> tuple[SetUp, tuple[Repository, ...]]:
    """What is asked for, of the file and the environment."""
    found = read_webhooks(file)
    repositories = tuple(one for one in chosen(found, only or (), file) if one.hooks is not None)
    if not repositories:
        raise UsageError(
            "no repository of it has `hooks`", where=file, remedy="give one `hooks`, or [] for none"
        )
    with extra():
        from ci.webhooks.hubs import Hubs  # noqa: PLC0415  # as above
        from ci.webhooks.setting_up import SetUp  # noqa: PLC0415

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


app.command()(poll)
