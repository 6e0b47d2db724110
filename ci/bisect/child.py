"""A process that tries one test of one tree some times, by the runner, and prints an answer a line.

It is started for each commit with what was built of it, so nothing of one commit is left for the next.
Nothing is reported: a try of an old commit is no result of any lane.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ci.bisect.answers import Answer, Said, said_by
from ci.config import load_settings
from ci.core import interrupts
from ci.core.errors import EXIT_INTERRUPTED, SpyreCiError
from ci.core.resources import available_cores
from ci.core.text import one_line
from ci.main_job.run import start_run
from ci.record.journal import read_journals
from ci.report.reconcile import reconcile
from ci.runner.source import Source
from ci.steps.collect import collect_step, resolve_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.plan import ShardSubset, plan_step
from ci.steps.run import run_step
from ci.steps.select import select_step
from ci.steps.share import Share
from test_selection.catalog import Catalog
from test_selection.durations import Durations
from test_selection.files import read_json
from test_selection.ids import file_of

KIND = "bisect-job"
# What a try needs otherwise than a run: one card, no second chance, nobody to share with.
FLAGS: Mapping[str, Any] = {
    "run.cards": 1, "run.retries": 0, "run.static": True, "run.control": "none", "collect.workers": 1,
}  # fmt: skip


def main(path: Path) -> int:
    """Do what a job says.

    Args:
        path: the job's file: test, tree, folder, tries, and which settings.
    """
    job = read_json(path, KIND)
    flags = {**FLAGS, **job["flags"]}
    named = job["settings"]
    settings = load_settings(
        path=None if named is None else Path(named), environ=os.environ, flags=flags, cwd=Path(job["base"])
    )
    context = Context(
        settings=settings,
        environ=os.environ,
        clock=time.time,
        monotonic=time.monotonic,
        console=Console(file=sys.stderr, force_terminal=False),
        cores=available_cores(),
    )
    try:
        with interrupts.raised():
            for answer in answers(
                context, job["test"], Path(job["tree"]), Path(job["folder"]), int(job["tries"])
            ):
                print(json.dumps(as_row(answer)), flush=True)  # noqa: T201  # what its parent reads
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SpyreCiError as error:
        print(f"{error.placed}", file=sys.stderr)  # noqa: T201  # read by its parent
        return error.exit_code
    return 0


def answers(context: Context, test: str, tree: Path, folder: Path, tries: int) -> Iterator[Answer]:
    """Try a test some times; a test that cannot be tried is told of once.

    Args:
        context: the outside world.
        test: its canonical id.
        tree: the tree it is in.
        folder: takes a run folder a try; those of tries that passed are removed.
        tries: how many.

    Raises:
        SpyreCiError: what is no answer.
    """
    source = resolve_source(context, str(tree))
    if not (source.tests / file_of(test)).is_file():
        yield Answer(said=Said.ABSENT, message=f"there is no file {file_of(test)}")
        return
    share = Share(stage=None, percent=100, ids=(test,))
    first = RunFolder(path=folder / "collected")
    first.path.mkdir(parents=True, exist_ok=True)
    catalog = collect_step(context, source, share, first).catalog
    if (error := catalog.collect_errors.get(file_of(test))) is not None:
        yield Answer(said=Said.UNCOLLECTABLE, message=one_line(error))
        return
    if all(one.id != test for one in catalog.tests):
        yield Answer(said=Said.ABSENT)
        return
    for number in range(tries):
        run = start_run(context, source, share, folder / f"try-{number + 1}")
        answer = _try(context, source, catalog, share, run)
        if answer is None:
            return
        if answer.said is not Said.FAILED:
            shutil.rmtree(run.path, ignore_errors=True)
        yield answer


def _try(
    context: Context, source: Source, catalog: Catalog, share: Share, folder: RunFolder
) -> Answer | None:
    """One try; None where it was interrupted."""
    selection = select_step(
        context, catalog, share, out=folder.selection, source=source, durations=Durations()
    )
    if not selection.ids:
        return Answer(said=Said.SKIPPED, message="the scope's rules leave the test out")
    plan = plan_step(
        context,
        catalog,
        selection,
        Durations(),
        shards=1,
        plan_file=folder.plan,
        say=lambda _: None,
    )
    part = ShardSubset(
        plan=plan,
        shards=plan.shards,
        source=source,
        expectations=selection.expectations,
        durations=Durations(),
        folder=folder,
    )
    if run_step(context, part):
        return None
    (result,) = reconcile(plan, read_journals(folder.path)).results
    return Answer(
        said=said_by(result.verdict.value, result.cause),
        message=one_line(result.message or result.verdict.words),
        seconds=result.seconds,
        card=result.card,
    )


def as_row(answer: Answer) -> dict[str, Any]:
    """An answer as its line has it."""
    return {
        "said": answer.said.value,
        "message": answer.message,
        "seconds": answer.seconds,
        "card": answer.card,
    }


def answers_in(lines: Sequence[str]) -> list[Answer]:
    """The answers a child printed; a line that was cut off is none. Pure."""
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            row = json.loads(line)
            found.append(
                Answer(
                    said=Said(row["said"]),
                    message=str(row["message"]),
                    seconds=float(row["seconds"]),
                    card=None if row["card"] is None else str(row["card"]),
                )
            )
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
