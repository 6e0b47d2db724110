"""`spyre-ci changes`: measure what a choice of tests by a change catches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ci.bisect.repository import Trees, remove
from ci.changes.evidence import find_evidence
from ci.changes.measure import Measured, recall_of, run_faults, sample_faults, weigh
from ci.changes.mutants import Fault
from ci.changes.source_change import change_of_commits
from ci.core.commands import LAST_LINES, finish_command
from ci.core.errors import CommandError, NothingToRunError
from ci.core.locks import run_lock
from ci.core.text import counted, span
from ci.core.withheld import without_job_secrets
from ci.record.identity import read_identity
from ci.record.verdict import GOOD, Verdict
from ci.report.results import RESULTS_FILE, read_results, read_summary
from ci.runner.child import HOME, module_words
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import RunFolder, find_run
from test_selection.catalog import Catalog, read_catalog
from test_selection.change import rank_tests
from test_selection.files import document_text
from test_selection.op_map import FILE as OP_MAP
from test_selection.op_map import OpMap, read_op_map
from test_selection.recall import write_recall
from test_selection.selection import read_selection

app = typer.Typer(no_args_is_help=True)
# What starting and collecting may take besides the tests.
_BESIDE_S = 900
# A run with a fault tells nobody, shares with nobody and runs every test.
_ALONE = {"STORE__CLICKHOUSE": "null", "REPORT__ENDPOINT": "none", "RUN__SHARE": "null", "RUN__MAX_FAIL": "0"}


@app.callback()
def changes() -> None:
    """Measure what a choice of tests by a change catches."""


@app.command()
def measure(
    ctx: typer.Context,
    sources: Annotated[list[Path], typer.Option(help="Files and folders whose Python faults are put into.")],
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="Reported run without the faults.")] = "latest",
    mutants: Annotated[int, typer.Option("--mutants", min=1, help="How many faults to put in.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Seed by which faults are drawn.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: plan.recall.")] = None,
    json_output: options.Json = False,
) -> None:
    """Put faults into source, one at a time, and compare what a full run finds with what each budget keeps.

    Each fault is a real change of the commit that is checked out, and every run is of RUN's tests. The same
    command continues a measurement that was ended. The result, `recall.json`, is the expected recall that a
    choice by a change states.

    Example: spyre-ci changes measure latest --sources torch_spyre --mutants 200 --seed 1
    """
    context = options.make_context(ctx, {}, json_output=json_output)
    before = find_run(context.runs, run, holding=RESULTS_FILE)
    base, state = context.settings.base.resolve(), context.state("changes")
    catalog, op_map = read_catalog(before.catalog), read_op_map(before.path / OP_MAP)
    commit = change_of_commits(base, "HEAD..HEAD")
    below = [os.path.relpath((base / source).resolve(), commit.folder) for source in sources]
    found = [commit.python_files("HEAD", one) for one in below]
    files = {name: content for one in found for name, content in one.items()}
    faults = sample_faults(files, number=mutants, seed=seed)
    if not faults or not all(found):
        what, remedy = "no Python function in the commit that is checked out", "name the back end's package"
        raise NothingToRunError(what, where=f"--sources {' '.join(map(str, sources))}", remedy=remedy)
    seconds = len(faults) * read_summary(before.summary).wall_s
    context.say(f"{counted(len(faults), 'fault')}: about {span(seconds)} of full runs")
    # Git's name of the tree begins with the commit's SHA.
    log = state / f"{commit.head[:16]}-{before.run}-{seed}.jsonl"
    with run_lock(state, alone=True):
        trees = Trees(state / "work", commit.folder)
        trial = _Trial(context=context, run=before, trees=trees, top=commit.folder)
        passing = [name for name, verdict in trial.run_tests().items() if verdict in GOOD]
        truth = run_faults(faults, lambda fault: trial.failing(fault, passing), log, say=context.detail)
        measured = list(trial.weighed(zip(faults, truth, strict=True), catalog, op_map))
        remove(state / "work")
    left_out = f"{sum(one.everything for one in measured):,} left out, as any test may break with them"
    count = f"{counted(len(measured), 'fault')} of {len(faults):,} found by a full run ({left_out})"
    if not (recall := recall_of(measured)):
        remedy = "name source that the tests run with --sources, or more --mutants"
        raise NothingToRunError(f"nothing is measured: {count}", where=log, remedy=remedy)
    out = out or context.settings.resolve(context.settings.model.plan.recall)
    write_recall(out, recall, pytorch=catalog.pytorch, device=catalog.device)
    for budget, one in recall.items():
        share = f"{100 * one.median_share:.1f} % of the tests (median; mean {100 * one.mean_share:.1f} %)"
        context.say(f"{budget}: {one.words}; keeps {share}")
    context.say(f"{count}: {out}")
    if json_output:
        content = {"recall": out, "faults": len(faults), "found": len(measured), "log": log}
        typer.echo(document_text("changes-measure", content))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Runs of a past run's tests, with the files of the commit that is checked out and one fault in them.

    Attributes:
        context: the outside world.
        run: the past run.
        trees: makes the files.
        top: of the repository.
    """

    context: Context
    run: RunFolder
    trees: Trees
    top: Path

    def failing(self, fault: Fault, passing: Collection[str]) -> list[str]:
        """Those of the passing tests that fail with a fault; all where it keeps them from running."""
        verdicts: dict[str, Verdict] = {}
        with suppress(CommandError, NothingToRunError):
            verdicts = self.run_tests(fault)
        # A test that a card or the machine failed is no matter of the fault.
        bad = {Verdict.FAILED, Verdict.NOT_RUN}
        return [name for name in passing if verdicts.get(name, Verdict.NOT_RUN) in bad]

    def weighed(
        self, truth: Iterable[tuple[Fault, Collection[str]]], catalog: Catalog, op_map: OpMap
    ) -> Iterator[Measured]:
        """What each budget keeps of the tests that fail with a fault, for each that is found."""
        chosen = set(read_selection(self.run.selection).ids)
        tests = [test for test in catalog.tests if test.id in chosen]
        docs = self.context.settings.model.pipeline.docs
        for fault, failed in truth:
            if failed:
                change = change_of_commits(self._tree(fault), "HEAD")
                evidence = find_evidence(change, op_map, tests="", test_files=(), docs=docs)
                yield weigh(rank_tests(tests, evidence, op_map), failed)

    def run_tests(self, fault: Fault | None = None) -> dict[str, Verdict]:
        """What becomes of each test.

        Raises:
            CommandError: the run took too long.
            NothingToRunError: no test passes; with what the run said last.
        """
        run, settings, tree = self.run, self.context.settings, self._tree(fault)
        here, state = tree / settings.base.resolve().relative_to(self.top), tree / ".spyre-ci"
        folder = RunFolder(path=state / "runs" / run.run)
        folder.path.mkdir(parents=True)
        # With these and no journal it is a run that was cut off at its start: its plan has the very tests.
        for file in (run.identity, run.source, run.catalog, run.selection, run.durations, run.plan):
            shutil.copy(file, folder.path)
        words = [*module_words("ci.cli", here=here), "pytorch", "--resume", str(folder.path)]
        words += [*read_identity(run.path).reproduce[2:], "--retries", "0", "--control", "none"]
        words += [] if settings.path is None else ["--config", str(settings.path.resolve())]
        ours = {"RUNS": f"{state}/runs", "STATE": f"{state}", "STORE__PATH": f"{state}/store.sqlite"}
        environ = without_job_secrets(self.context.environ)
        environ |= {f"SPYRE_CI__{name}": one for name, one in {**_ALONE, **ours}.items()}
        path = [here, here / "src", tree, tree / "src", HOME, environ.get("PYTHONPATH")]
        environ["PYTHONPATH"] = os.pathsep.join(map(str, filter(None, path)))
        timeout_s = _BESIDE_S + 10 * read_summary(run.summary).wall_s
        ended = finish_command(words, timeout_s=timeout_s, cwd=here, env=environ)
        results = read_results(folder.results) if folder.results.exists() else ()
        verdicts = {one.id: one.verdict for one in results}
        if GOOD.isdisjoint(verdicts.values()):
            said = (ended.stdout + ended.stderr).decode(errors="replace").splitlines()[-LAST_LINES:]
            what = "\n  | ".join(["none of its tests passes in a clone of this checkout:", *said])
            raise NothingToRunError(what, where=run.path, remedy="commit what they need, and run them anew")
        return verdicts

    def _tree(self, fault: Fault | None) -> Path:
        """The files, made anew so that nothing is left of another run; with a fault if one is given."""
        tree = self.trees.make("HEAD")
        if fault is not None:
            (tree / fault.file).write_text(fault.text, encoding="utf-8")
        return tree
