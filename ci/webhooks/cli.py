"""`spyre-ci webhooks`: webhooks as the file has them, and a poller where none can reach Jenkins."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.core.errors import UsageError
from ci.core.extras import wanted
from ci.core.text import escaped
from ci.webhooks.model import DEFAULT_FILE, chosen, read_webhooks
from test_selection.files import document_text

if TYPE_CHECKING:
    from ci.webhooks.model import Repository
    from ci.webhooks.polling import Passed, Polling
    from ci.webhooks.setting_up import Compared, SetUp

app = typer.Typer(
    help="Webhooks of a list of repositories, and polling where none can reach Jenkins.", no_args_is_help=True
)

STATE = "polls.json"
# One call to GitHub waits no longer for a limit: the next pass comes anyway.
PATIENCE_S = 20.0
File = Annotated[Path, typer.Argument(help="The file of webhooks.")]
Names = Annotated[
    list[str] | None, typer.Option("--only", help="Only this repository; may stand several times.")
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Delete duplicates, and hooks with a URL of `hooks` that the repository is not to have.",
    ),
]


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
def apply(  # typer makes options of them
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
    with wanted("webhooks want", extra="github"):
        from ci.webhooks.hub import Hubs  # noqa: PLC0415  # as above
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


@app.command()
def poll(  # typer makes options of them
    ctx: typer.Context,
    file: File = DEFAULT_FILE,
    only: Names = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="What is known of the last pass; default: below `state`.")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option("--every", min=1, max=86_400, help="Seconds between passes; default: one pass."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Start what a first pass finds, instead of noting it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be started, and note nothing.")
    ] = False,
) -> None:
    """Start Jenkins once for each new head; ends with 3 where some are kept for the next pass.

    Example: spyre-ci webhooks poll --dry-run
    """
    with wanted("webhooks want", extra="github"):
        from ci.webhooks.poll_state import StateFile, working_alone  # noqa: PLC0415  # with PyGithub
        from ci.webhooks.polling import one_pass, repeat  # noqa: PLC0415

    polling = _polling(file, only, everything=everything, dry_run=dry_run)
    path = state or settings_from_context(ctx).state_dir / STATE
    with working_alone(path):
        if every is None:
            passed = one_pass(polling, StateFile(path))
            _tell_pass(passed, None)
            raise typer.Exit(passed.exit_code)
        repeat(
            lambda: one_pass(polling, StateFile(path)),
            every_s=every,
            sleep=time.sleep,
            rng=random.SystemRandom().random,
            tell=_tell_pass,
        )


def _polling(file: Path, only: list[str] | None, *, everything: bool, dry_run: bool) -> Polling:
    with wanted("webhooks want", extra="github"):
        from ci.webhooks.hub import Hubs  # noqa: PLC0415  # with PyGithub
        from ci.webhooks.polling import Polling  # noqa: PLC0415

    found = read_webhooks(file)
    polled = tuple(one for one in chosen(found, only or (), file) if one.poll is not None)
    if not polled:
        raise UsageError(
            "nothing of it is polled", where=file, remedy="give a repository `poll`, or name another one"
        )
    return Polling(
        found=found,
        repositories=polled,
        environ=os.environ,
        clock=time.time,
        say=lambda line: typer.echo(escaped(line)),
        hubs=lambda: Hubs(found, os.environ, patience_s=PATIENCE_S),
        everything=everything,
        dry_run=dry_run,
    )


def _tell_pass(passed: Passed, wait_s: float | None) -> None:
    """Say what went wrong, and what came of a pass."""
    for name, error in passed.errors:
        typer.echo(escaped(f"{name}: FAILED: {error.placed}"), err=True)
        if error.remedy:
            typer.echo(escaped(f"  remedy: {error.remedy}"), err=True)
    waiting = f", {passed.waiting} kept for the next pass" if passed.waiting else ""
    again = f"; next pass in {wait_s:.0f} s" if wait_s is not None else ""
    typer.echo(f"{passed.started} started{waiting}{again}")
