"""`spyre-ci changes`: measure what a choice of tests by a change catches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ci.changes.evidence import find_evidence
from ci.changes.measure import Measured, recall_of, run_faults, sample_faults, weigh
from ci.changes.mutants import Fault
from ci.changes.source_change import change_of_commits
from ci.core.errors import MissingInputError, UsageError
from ci.core.git import git
from ci.core.process import finish_command
from ci.core.text import counted, span
from ci.core.withheld import without_job_secrets
from ci.record.verdict import Verdict
from ci.report.results import RESULTS_FILE, read_results, read_summary
from ci.runner.child import HOME, module_words
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import RunFolder, find_run, noted_where
from test_selection.catalog import CatalogTest, read_catalog
from test_selection.change import rank_tests
from test_selection.files import document_text
from test_selection.op_map import FILE as OP_MAP
from test_selection.op_map import OpMap, read_op_map
from test_selection.recall import write_recall
from test_selection.selection import Selection, read_selection

app = typer.Typer(no_args_is_help=True)
# What starting and collecting may take besides the tests.
_BESIDE_S = 900


@app.callback()
def changes() -> None:
    """Measure what a choice of tests by a change catches."""


@app.command()
def measure(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="Reported run without the faults.")] = "latest",
    sources: Annotated[
        list[Path] | None,
        typer.Option("--sources", metavar="FILE|FOLDER", help="Python source that faults are put into."),
    ] = None,
    mutants: Annotated[int, typer.Option("--mutants", min=1, help="How many faults to put in.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Seed by which faults are drawn.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: plan.recall.")] = None,
    json_output: options.Json = False,
) -> None:
    """Put faults into source, one at a time, and compare what a full run finds with what each budget keeps.

    Each fault is a real change in a clone of this checkout, whose tests are those of RUN. The same command
    continues a measurement that was ended. The result, `recall.json`, is the expected recall that a choice by
    a change states.

    Example: spyre-ci changes measure latest --sources torch_spyre --mutants 200 --seed 1
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    folder = find_run(context.runs, run, holding=RESULTS_FILE)
    top, selection = context.settings.base, read_selection(folder.selection)
    catalog, op_map = read_catalog(folder.catalog), read_op_map(folder.path / OP_MAP)
    texts = _python_files(top, sources or [])
    faults = sample_faults(texts, number=mutants, seed=seed)
    head = git(top, "rev-parse", "HEAD").strip()
    log = context.state("changes", f"{head[:16]}-{folder.run}-{seed}.jsonl")
    log.parent.mkdir(parents=True, exist_ok=True)
    wall_s = read_summary(folder.summary).wall_s
    context.say(
        f"{counted(len(faults), 'fault')}, {span(wall_s)} a full run: about {span(len(faults) * wall_s)}"
    )
    with TemporaryDirectory(dir=log.parent) as scratch:
        clone = Path(scratch, "clone")
        git(top, "clone", "-q", "--no-hardlinks", "--", str(top), str(clone))
        before = _failed(folder)
        truth = run_faults(
            faults,
            lambda fault: _run_with(context, clone, fault, folder, selection) - before,
            log,
            say=context.detail,
        )
        chosen = set(selection.ids)
        tests = [test for test in catalog.tests if test.id in chosen]
        found = [
            _weighed(clone, fault, failed, tests, op_map, docs=context.settings.model.pipeline.docs)
            for fault, failed in zip(faults, truth, strict=True)
            if failed
        ]
    recall = recall_of(found)
    out = out or context.settings.resolve(context.settings.model.plan.recall)
    write_recall(out, recall, pytorch=catalog.pytorch, device=catalog.device)
    for budget, one in recall.items():
        share = f"{100 * one.median_share:.1f} % of the tests (median; mean {100 * one.mean_share:.1f} %)"
        context.say(f"{budget}: {one.words}; keeps {share}")
    context.say(f"{counted(len(found), 'fault')} of {len(faults):,} found by a full run: {out}")
    if json_output:
        content = {"recall": out, "faults": len(faults), "found": len(found), "log": log}
        typer.echo(document_text("changes-measure", content))


def _python_files(top: Path, sources: Collection[Path]) -> dict[str, bytes]:
    """The content of each file, by its path from the repository's top.

    Raises:
        UsageError: no source is named, or one lies elsewhere.
        MissingInputError: there is no Python file in it.
    """
    if not sources:
        raise UsageError("no source is named", remedy="name the back end's package with --sources")
    found: dict[str, bytes] = {}
    for source in sources:
        path = (top / source).resolve()
        if not path.is_relative_to(top.resolve()):
            raise UsageError("is not in this checkout", where=source, remedy=f"name a folder below {top}")
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []
        if not files:
            raise MissingInputError("contains no Python file", where=source, remedy="check the path")
        for file in files:
            found[file.relative_to(top.resolve()).as_posix()] = file.read_bytes()
    return found


def _failed(folder: RunFolder) -> frozenset[str]:
    return frozenset(one.id for one in read_results(folder.results) if one.verdict is Verdict.FAILED)


def _run_with(
    context: Context, clone: Path, fault: Fault, before: RunFolder, selection: Selection
) -> frozenset[str]:
    """The tests that fail in a run of all with a fault; every one where the run comes to no results."""
    runs = clone.parent / "runs"
    words = [
        *module_words("ci.cli", here=clone),
        "pytorch",
        "--retries",
        "0",
        "--percent",
        f"{selection.percent:g}",
    ]
    if (where := noted_where(before)) is not None:
        words += ["--pytorch-src", where]
    ours = {"RUNS": str(runs), "STATE": str(clone.parent / "state"), "REPORT__ENDPOINT": "none"}
    environ = without_job_secrets(context.environ) | {f"SPYRE_CI__{name}": one for name, one in ours.items()}
    path = [str(clone), str(clone / "src"), str(HOME), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(path)
    timeout_s = _BESIDE_S + 10 * read_summary(before.summary).wall_s
    with _changed(clone, fault):
        finish_command(words, timeout_s=timeout_s, cwd=clone, env=environ)
    try:
        folders = [RunFolder(path=one.parent) for one in runs.glob(f"*/{RESULTS_FILE}")]
        return _failed(folders[0]) if folders else frozenset(selection.ids)
    finally:
        shutil.rmtree(runs, ignore_errors=True)


@contextmanager
def _changed(clone: Path, fault: Fault) -> Iterator[None]:
    """A file of a clone has a fault within the block."""
    path = clone / fault.file
    before = path.read_text(encoding="utf-8")
    path.write_text(fault.text, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def _weighed(
    clone: Path,
    fault: Fault,
    failed: Collection[str],
    tests: Sequence[CatalogTest],
    op_map: OpMap,
    *,
    docs: Sequence[str],
) -> Measured:
    """What each budget keeps of the tests that fail with a fault."""
    with _changed(clone, fault):
        change = change_of_commits(clone, "HEAD")
        evidence = find_evidence(change, op_map, tests="", test_files=(), docs=docs)
    return weigh(rank_tests(tests, evidence, op_map), failed)
