"""Options that several verbs share: declared once, the same name and meaning everywhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from rich.console import Console

from ci.config import completing, flags, load_settings
from ci.config.context import settings_from_context
from ci.core.errors import UsageError
from ci.core.provider import detect, in_log
from ci.core.resources import available_cores
from ci.core.workflow_commands import Defused
from ci.report.live.events import STDOUT
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, RunFolder, find_run

RunDir = Annotated[
    Path | None, typer.Option("--run-dir", help="Run folder the files are in; default: the last run's.")
]
Source = Annotated[
    str | None,
    typer.Option(
        "--pytorch-src",
        metavar="WHERE",
        help="PyTorch's source: a folder, an archive or git+URL@ref; default: the embedded op suite.",
    ),
]
Device = Annotated[str | None, typer.Option("--device", help="Device under test: spyre, cpu, …")]
Stage = Annotated[
    int | None,
    typer.Option("--stage", help="Stage, 0 to 5.", autocompletion=completing.stages),
]
Percent = Annotated[
    float | None, typer.Option("--percent", help="Percentage of the tests, 0 to 100, instead of a stage.")
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Percentage of what: count or seconds; default: the stage's."),
]
Relock = Annotated[
    bool,
    typer.Option(
        "--relock", help="Rewrite the lock of the selection order; print which tests move in and out."
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--files", help="Globs of test files, separated by commas (repeatable)."),
]
Keyword = Annotated[str | None, typer.Option("-k", help="Expression over test names, as pytest has it.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="A test id; only these run (repeatable).", autocompletion=completing.tests),
]
Tests = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TEST]...",
        help="Only these: test ids, pytest's node ids, FILE::CLASS or FILE.",
        autocompletion=completing.tests,
    ),
]
Tier = Annotated[
    str | None,
    typer.Option("--tier", help="Tier whose limits hold: pr, nightly or weekly; default: the stage's."),
]
Changed = Annotated[
    str | None,
    typer.Option(
        "--changed",
        metavar="BASE..HEAD",
        help="Order tests by what changed between two commits; BASE alone: up to your files.",
    ),
]
ChangedDiff = Annotated[
    Path | None, typer.Option("--diff", metavar="FILE", help="Order tests by the change of a diff.")
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="evidence|N%",
        help="Keep only tests that the change can break; N%: at most this share of the tests.",
    ),
]
BudgetSeconds = Annotated[
    float | None,
    typer.Option(
        "--seconds", min=0, help="Keep at most this many seconds of tests that the change can break."
    ),
]
Cards = Annotated[int | None, typer.Option("--cards", help="Cards to use here, one worker each; 0: all.")]
Static = Annotated[bool | None, typer.Option("--static", help="Each card runs its own shard; no stealing.")]
Retries = Annotated[
    int | None, typer.Option("--retries", help="How often a failed test is retried, on another card.")
]
MaxFail = Annotated[
    int | None,
    typer.Option("--max-fail", min=1, help="Stop after this many failed tests, without retries; -x: 1."),
]
FirstFail = Annotated[bool, typer.Option("-x", "--exitfirst", help="Stop after the first failed test.")]
Quiet = Annotated[int, typer.Option("-q", "--quiet", count=True, help="Print outcomes only.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="Print each test as it ends.")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", help="Seed of the run, from which each test's follows; default: random, and recorded."
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Finish an interrupted run: its folder, id or `latest`.",
        autocompletion=completing.runs,
    ),
]
Control = Annotated[
    str | None,
    typer.Option("--control", metavar="DEVICE", help="Rerun what failed once on DEVICE: cpu, or none."),
]
In = Annotated[Path | None, typer.Option(help="File to read; default: the run folder's.")]
Out = Annotated[Path | None, typer.Option("--out", help="File to write; default: the run folder's.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; default: spyre-ci.yaml here, if it exists."),
]
Json = flags.Json
Events = Annotated[
    str | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="File or pipe for events, one JSON object a line; `-`: standard output.",
    ),
]


def make_context(
    ctx: typer.Context,
    flags: Mapping[str, Any],
    *,
    json_output: bool = False,
    config: Path | None = None,
    verbosity: int = 0,
) -> Context:
    """The context of a verb: the settings the root resolved, with this verb's flags on top.

    Args:
        ctx: the verb's context.
        flags: dotted setting to value; None for a flag that was not given.
        json_output: standard output is for a machine.
        verbosity: how often -v was given, less how often -q was.
        config: the settings file, where it is named behind the verb: `nox -s pytorch -- --config F`.
    """
    # Where a file is named, that of this folder is nobody's business.
    settings = None if config is not None else settings_from_context(ctx)
    if settings is None or any(value is not None for value in flags.values()):
        path = config if settings is None else settings.path
        settings = load_settings(path=path, environ=os.environ, flags=flags, cwd=Path.cwd())
    return Context(
        settings=settings,
        environ=os.environ,
        clock=time.time,
        monotonic=time.monotonic,
        console=make_console(os.environ, stderr=json_output),
        cores=available_cores(),
        verbosity=verbosity,
    )


def make_console(environ: Mapping[str, str], *, stderr: bool) -> Console:
    """Where words go; in a log that GitHub's runner reads, no word of a test is a command to it.

    Args:
        environ: the environment.
        stderr: standard output is for a machine.
    """
    terminal = False if in_log(environ) else None
    if detect(environ, epoch_s=0).name != "github":
        return Console(stderr=stderr, force_terminal=terminal)
    stream = Defused(sys.stderr if stderr else sys.stdout)
    return Console(file=cast("TextIO", stream), force_terminal=terminal)


def split_files(files: list[str] | None) -> tuple[str, ...]:
    """The globs of `--files a,b --files c`.

    Raises:
        UsageError: the flag is given and names nothing, as an empty variable does; that is not every file.
    """
    found = tuple(one.strip() for text in files or [] for one in text.split(",") if one.strip())
    if files and not found:
        raise UsageError("--files is empty", remedy="name globs such as 'test_*.py', or leave --files out")
    return found


def to_stdout(events: str | None, *, json_output: bool = False) -> bool:
    """Whether standard output is for a machine, so that words go to standard error.

    Raises:
        UsageError: two machines want it.
    """
    if events == STDOUT and json_output:
        raise UsageError(
            "--events - and --json both write to standard output", remedy="name a file for --events"
        )
    return json_output or events == STDOUT


def most_failures(max_fail: int | None, *, first: bool) -> int | None:
    """`--max-fail N` and `-x` as one number; None where neither is given.

    Raises:
        UsageError: both are given, and do not say the same.
    """
    if first and max_fail not in (None, 1):
        raise UsageError(f"-x and --max-fail {max_fail} are given", remedy="give one of them")
    return 1 if first else max_fail


def run_folder(
    context: Context, run_dir: Path | None, *beside: Path | None, holding: str, writes: bool = False
) -> RunFolder:
    """The run folder: the one named, else that of the first file that was named, else the last run's.

    Args:
        context: the outside world.
        run_dir: as it was named.
        beside: files that were named, or not.
        holding: what the last run has to hold.
        writes: whether files of the folder are written; of a run that has run they are not, unasked.

    Raises:
        MissingInputError: nothing is named, and no run holds it.
        UsageError: nothing is named, and what would be written is of a run that has run.
    """
    named = run_dir or next((path.parent for path in beside if path is not None), None)
    if named is not None:
        return RunFolder(path=named.resolve())
    last = find_run(context.runs, "latest", holding=holding)
    if writes and (last.path / JOURNALS).exists():
        raise UsageError(
            f"the last run, {last.run}, has already run, and its files are its record",
            remedy="name a folder with --run-dir, or start a new one with `spyre-ci collect`",
        )
    context.say(f"run: {last.path}")
    return last


def refuse_beside(option: str, others: Mapping[str, Any], *, why: str = "the run already decides it") -> None:
    """Refuse options that cannot be given with another one.

    Args:
        option: the one that was given, with its value.
        others: by option; None, False and empty lists for those that were not given.
        why: they cannot.

    Raises:
        UsageError: with each of `others` that was given.
    """
    if given := _given(others):
        raise UsageError(
            f"{option} and {', '.join(given)} are given", remedy=f"leave {', '.join(given)} out: {why}"
        )


def typed(ctx: typer.Context, *names: str) -> dict[str, Any]:
    """The values of a verb's options by what people type; of those that are named, or of all."""
    typed = {max(one.opts, key=len): one for one in ctx.command.params if not names or one.name in names}
    return {
        name if name.startswith("-") else f"names of {name}": ctx.params.get(one.name or "")
        for name, one in typed.items()
    }


def _given(options: Mapping[str, Any]) -> list[str]:
    return [name for name, value in options.items() if value not in (None, False, [], ())]


def refuse_before_verb(ctx: typer.Context) -> None:
    """Refuse options between a group and its verb, which the group would take and drop in silence.

    Raises:
        UsageError: with each option as it was named.
    """
    if given := _given(typed(ctx)):
        verb = f"{ctx.command_path} {ctx.invoked_subcommand}"
        raise UsageError(
            f"{', '.join(sorted(given))} given before `{ctx.invoked_subcommand}`",
            where=ctx.command_path,
            remedy=f"write options after the verb: {verb} … {given[0]} …",
        )
