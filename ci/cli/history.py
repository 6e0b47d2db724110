"""`spyre-ci history`: what past runs took, in and out of the store, and how much of it there is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ci.core.errors import UsageError
from ci.core.text import counted
from ci.hud.runs import ReportedRun, read_run, record_run, ways_of
from ci.report.history import (
    DAY_S,
    DeviceHistory,
    export_durations,
    forget_imports,
    import_classes,
    import_durations,
    overview,
)
from ci.report.op_maps import export_op_map
from ci.report.store import open_kept
from ci.steps import options
from test_selection.durations import (
    Durations,
    choose_class_times,
    parse_class_times,
    read_durations,
    write_durations,
)
from test_selection.files import document_text, load_json
from test_selection.op_map import FILE as OP_MAP
from test_selection.op_map import write_op_map

app = typer.Typer(no_args_is_help=True)
NAME = Path("durations.json.gz")


@app.command()
def export(
    ctx: typer.Context,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"File to write, .json or .json.gz; default: {NAME}.")
    ] = None,
    op_map: Annotated[
        bool, typer.Option("--op-map", help=f"Write what each test calls, to {OP_MAP}, instead of durations.")
    ] = False,
    device: options.Device = None,
    json_output: options.Json = False,
) -> None:
    """Write median and 95th percentile of the last runs on a device, for `spyre-ci plan --durations`.

    Example: spyre-ci history export --out durations.json --device spyre

    Example: spyre-ci history export --op-map
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    name = context.settings.model.device.name
    if op_map:
        traced = export_op_map(context.history, device=name)
        out = out or Path(OP_MAP)
        write_op_map(out, traced)
        tests, files = len(traced.of), 0
        context.say(f"{counted(tests, 'test')}, {counted(len(traced.ops), 'op')} on {name}: {out}")
    else:
        found = export_durations(context.history, device=name)
        out = out or NAME
        write_durations(out, found)
        tests, files = len(found.tests), len(found.files)
        context.say(f"{_counts(found)} on {name}: {out}")
    if json_output:
        content = {"file": out, "device": name, "tests": tests, "files": files}
        typer.echo(document_text("history-export", content))


@app.command(name="import")
def import_(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|RUN…",
            help="Exported durations, PyTorch's public class times, or the folder of a reported run.",
        ),
    ],
    device: options.Device = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="JOB/CONFIG",
            help="Configuration of class times to take; given again: the median over them.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Forget all durations that were imported before.")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Import durations measured elsewhere; runs in the history take precedence.

    The folder of a run reported elsewhere, with its summary and results, becomes a run of the history.

    Example: spyre-ci history import test-class-times.json --config linux-jammy-py3.10-gcc11/default
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=json_output)
    name = context.settings.model.device.name
    # All are read before the first is kept: a broken one leaves the history as it was.
    now = context.clock()
    read = [read_run(path, now=now) if path.is_dir() else _read(path, config or ()) for path in files]
    rows: list[dict[str, object]] = []
    if replace:
        context.say(f"{forget_imports(context.history):,} imported names forgotten")
    for path, found in zip(files, read, strict=True):
        if isinstance(found, ReportedRun):
            who = found.summary["identity"]
            repository, ways = context.settings.model.report.repository, ways_of(path, now=now)
            with open_kept(context.settings, context.environ, warn=context.say) as kept:
                record_run(kept, found, repository=repository, at=now, ways=ways)
            context.say(f"{path}: run {who['run']}, attempt {who['run_attempt']}, on {who['device']}")
            rows.append({"path": path, "kind": "run", "run": who["run"], "device": who["device"]})
        elif isinstance(found, Durations):
            import_durations(context.history, found, device=name)
            context.say(f"{path}: {_counts(found)} on {name}")
            rows.append({"path": path, "kind": "durations", "tests": len(found.tests), "device": name})
        else:
            import_classes(context.history, found)
            context.say(f"{path}: {_classes(len(found))}")
            rows.append({"path": path, "kind": "classes", "classes": len(found)})
    if json_output:
        typer.echo(document_text("history-import", {"imported": rows}))


@app.command()
def show(ctx: typer.Context, json_output: options.Json = False) -> None:
    """Show how many runs and tests there are by device, and how old they are.

    Example: spyre-ci history show
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    rows, classes = overview(context.history)
    if json_output:
        content = {"devices": [asdict(row) for row in rows], "classes": classes}
        typer.echo(document_text("history", content))
        return
    table = Table()
    for column in ("device", "runs", "tests", "imported", "oldest", "newest"):
        table.add_column(column, justify="left" if column == "device" else "right")
    for row in rows:
        table.add_row(*_cells(row, context.clock()))
    if rows or not classes:
        context.console.print(table)
    if classes:
        context.say(f"{_classes(classes)} with imported times")


def _read(path: Path, configs: list[str] | tuple[str, ...]) -> Durations | dict[str, float]:
    """A file of either kind."""
    content = load_json(path, "durations")
    if isinstance(content, dict) and "schema" not in content:
        return choose_class_times(parse_class_times(content, path), configs, path)
    if configs:
        raise UsageError(
            f"--config is {configs[0]!r}, but there are no configurations to choose from",
            where=path,
            remedy="leave --config out, or import this file by itself",
        )
    return read_durations(path)


def _classes(number: int) -> str:
    return counted(number, "class", "classes")


def _counts(found: Durations) -> str:
    classes = f", {_classes(len(found.classes))}" if found.classes else ""
    return f"{counted(len(found.tests), 'test')}, {counted(len(found.files), 'file')}{classes}"


def _cells(row: DeviceHistory, now: float) -> list[Text]:
    ages = ["-" if when is None else f"{(now - when) / DAY_S:,.0f} days" for when in (row.oldest, row.newest)]
    # Text, because a device's name is no markup.
    return [
        Text(one) for one in (row.device, *(f"{n:,}" for n in (row.runs, row.tests, row.imported)), *ages)
    ]
