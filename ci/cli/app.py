"""The root command, its settings, and the one boundary between a user's error, an interrupt and a bug."""

from __future__ import annotations

import platform
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ci.cli.completion import use_bash_script
from ci.cli.lazily import Root
from ci.config.context import SettingsSource
from ci.core import interrupts
from ci.core.errors import EXIT_INTERRUPTED, SpyreCiError, UsageError, file_system_error
from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.steps.options import Config

# sysexits.h: an internal software error. Not 1 to 3, which say something of the tests.
EXIT_BUG = 70

use_bash_script()
# Its verbs stand in ci/cli/verbs.py.
app = typer.Typer(
    cls=Root,
    help="Run a staged share of PyTorch's tests on IBM Spyre cards and lose none of them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spyre-ci {version('spyre-ci')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config_file: Config = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Note where the settings of the verb are."""
    ctx.obj = SettingsSource(path=config_file, here=_here())


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the working directory no longer exists",
            remedy="cd to a folder that exists, and call again",
        ) from error


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; see the design's table of codes."""
    try:
        with interrupts.raised() as heard:
            code = app(arguments, prog_name="spyre-ci", standalone_mode=False)
    except SpyreCiError as error:
        _tell(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort) as error:
        return _aborted(error)
    except Exception as error:  # noqa: BLE001  # the boundary: everything else is a bug of ours
        if (usage := _usage_error(error)) is not None:
            return usage
        if isinstance(error, OSError) and (told := file_system_error(error)) is not None:
            _tell(told)
            return told.exit_code
        typer.echo(_bug_report(), err=True)
        return EXIT_BUG
    if heard:  # typer makes an exit code of it and says nothing
        typer.echo("spyre-ci: interrupted", err=True)
    return code if isinstance(code, int) else 0


def _tell(error: SpyreCiError) -> None:
    """Show an error; what it quotes of files, tests and servers commands neither a terminal nor a CI."""
    typer.echo("\n".join(map(defused, f"spyre-ci: {plain(str(error))}".splitlines())), err=True)


def _aborted(error: BaseException) -> int:
    """Tell an interrupt from an end of file, which typer makes the same of; its exit code."""
    # Whoever leaves a prompt aborts without a cause; an end of file that is one came out of a file cut short.
    if isinstance(error.__cause__, EOFError):
        typer.echo(_bug_report(), err=True)
        return EXIT_BUG
    typer.echo("spyre-ci: interrupted", err=True)
    return EXIT_INTERRUPTED


def _usage_error(error: Exception) -> int | None:
    """Show a mistake on the command line as click does, and its exit code; None for anything else."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        show()
        return code
    return None


def _bug_report() -> str:
    return (
        "spyre-ci: this is a bug; please report it with the lines below\n"
        f"spyre-ci {version('spyre-ci')}, Python {platform.python_version()}, {platform.platform()}\n"
        f"{traceback.format_exc()}"
    )
