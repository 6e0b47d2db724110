"""Order a selection by what a change can break, or cut it to a budget."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.changes.evidence import find_evidence
from ci.changes.source_change import change_of_commits, change_of_diff
from ci.core.errors import NothingToRunError, UsageError
from ci.core.text import counted, escaped, listed
from ci.report.history import failure_shares
from ci.report.op_maps import export_op_map
from ci.runner.source import Source
from ci.steps.context import Context
from ci.steps.mark_failures import protected
from test_selection.catalog import Catalog
from test_selection.change import EVIDENCE, RankedTests, keep_seconds, keep_share, rank_tests
from test_selection.durations import Durations
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.lock import FILE as LOCK
from test_selection.lock import torch_pin
from test_selection.op_map import OpMap, read_op_map
from test_selection.recall import Recall, read_recall
from test_selection.selection import ChangeNote, Selection

UNTRACED = "it is not known what it calls"
# Reasons that are shown; `--explain` shows all.
MOST_REASONS = 10
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """The change that tests are ordered by, and the budget that they are cut to.

    Attributes:
        commits: BASE..HEAD, or BASE for the files as they lie here; None where a diff is named.
        diff: a file with a diff.
        budget: `evidence`, or a percentage; None cuts nothing.
        seconds: that the kept tests may take, one after the other.
    """

    commits: str | None = None
    diff: Path | None = None
    budget: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            UsageError: two changes or two budgets are named, a budget without a change, or a strange one.
        """
        if self.commits is not None and self.diff is not None:
            raise UsageError("both --changed and --diff are given", remedy="give one of them")
        if self.budget is not None and self.seconds is not None:
            raise UsageError("both --budget and --seconds are given", remedy="give one of them")
        if not self.given and (self.budget is not None or self.seconds is not None):
            raise UsageError("a budget is given without a change", remedy="give --changed or --diff")
        if self.budget not in {None, EVIDENCE} and not 0 < self.percent <= 100:  # noqa: PLR2004  # per cent
            raise UsageError(
                f"--budget is {self.budget!r}", remedy=f"give {EVIDENCE} or a percentage, such as 5%"
            )

    @property
    def given(self) -> bool:
        """True if a change is named."""
        return self.commits is not None or self.diff is not None

    @property
    def percent(self) -> float:
        """The percentage of the budget; 0 where it is none."""
        found = _PERCENT.fullmatch(self.budget or "")
        return float(found[1]) if found else 0.0

    @property
    def words(self) -> str:
        """The budget, for people and files."""
        if self.seconds is not None:
            return f"{self.seconds:g} s"
        return f"{self.percent:g}%" if self.percent else self.budget or "none: only the order"


def order_by_change(
    context: Context,
    selection: Selection,
    catalog: Catalog,
    request: ChangeRequest,
    *,
    source: Source | None,
    durations: Durations,
) -> Selection:
    """Order a selection by a change; with a budget, leave out what is beyond it.

    Args:
        context: its settings name the checkout that changed, the op map and the documents.
        selection: of the stage.
        catalog: every collected test.
        request: the change and the budget.
        source: where the tests come from.
        durations: what earlier runs took.

    Raises:
        UsageError: the change is none of the checkout's.
        NothingToRunError: a budget keeps nothing, as the change can break no test.
        BadFileError: the op map or the measured recall cannot be read.
    """
    model = context.settings.model
    # What was measured of tests changes none of them.
    measured = (model.plan.op_map, model.plan.recall, model.plan.durations, Path(LOCK))
    chosen = set(selection.ids)
    tests = [test for test in catalog.tests if test.id in chosen]
    folder = context.settings.base
    change = (
        change_of_diff(folder, request.diff)
        if request.diff
        else change_of_commits(folder, request.commits or "")
    )
    op_map, missing = _op_map(context, catalog)
    evidence = find_evidence(
        change,
        op_map,
        tests=_below(change.folder, source),
        test_files={test.file for test in catalog.tests},
        docs=[*model.pipeline.docs, *(path.as_posix() for path in measured)],
    )
    if missing and (evidence.everything or evidence.ops or evidence.functions):
        evidence = replace(evidence, everything=[missing, *evidence.everything])
    failed_before = _failed_before(context, selection, catalog.device)
    ranked = rank_tests(
        tests,
        evidence,
        op_map,
        failed=failed_before or (),
        quarantined=protected(context, selection.ids),
    )
    kept = set(_kept(ranked, request, durations))
    if tests and not kept:
        raise NothingToRunError(
            f"none of {counted(len(tests), 'test')} can break by what changed ({change.words})",
            remedy="leave the budget out to run them all",
        )
    note = ChangeNote(
        compared=change.words,
        files=len(change.files),
        budget=request.words,
        # Names of files need not be text.
        everything=tuple(map(escaped, ranked.everything)),
        named={
            name: escaped(ranked.reasons.get(name, UNTRACED))
            for name in ranked.ids
            if name in ranked.reasons or name in ranked.always
        },
        failed_before=failed_before,
        always=len(ranked.always),
        untraced=sum(test.id not in op_map.of for test in tests),
        left_out=len(tests) - len(kept),
        recall=_recall(context, request) if len(kept) < len(tests) else None,
    )
    return replace(
        selection,
        # Without what the budget left out it is no stage of the roll-out.
        stage=None if note.left_out else selection.stage,
        ids=[name for name in selection.ids if name in kept],
        change=note,
    )


def _failed_before(context: Context, selection: Selection, device: str) -> Sequence[str] | None:
    """The tests that failed in some run of the history; None where nothing tells."""
    if not context.history.there:
        return None
    said = "what failed before does not come first"
    failed = context.attempt(said, lambda: failure_shares(context.history, device=device))
    return None if failed is None else [name for name in selection.ids if name in failed]


def _kept(ranked: RankedTests, request: ChangeRequest, durations: Durations) -> Sequence[str]:
    if request.seconds is not None:
        return keep_seconds(ranked, request.seconds, durations.tests, unknown_s=UNKNOWN_TEST_S)
    if request.budget == EVIDENCE:
        return ranked.named
    return keep_share(ranked, request.percent) if request.budget is not None else ranked.ids


def _op_map(context: Context, catalog: Catalog) -> tuple[OpMap, str]:
    """What tests call, and why that is not known; from the exported file, else from the history."""
    nothing = OpMap(pytorch=catalog.pytorch, device=catalog.device)
    exported = context.settings.resolve(context.settings.model.plan.op_map)
    found = None
    if exported.is_file():
        found = context.attempt("no op map", lambda: read_op_map(exported))
    elif (history := context.history).there:
        device, pytorch = catalog.device, catalog.pytorch
        found = context.attempt("no op map", lambda: export_op_map(history, device=device, pytorch=pytorch))
    if found is None:
        return nothing, f"there is no op map ({exported}): it is not known what tests call"
    if (torch_pin(found.pytorch), found.device) != (torch_pin(catalog.pytorch), catalog.device):
        of = f"torch {found.pytorch} on {found.device}"
        return nothing, f"the op map is of {of}, the tests are of {catalog.pytorch} on {catalog.device}"
    return found, ""


def _below(top: Path, source: Source | None) -> str:
    """The tests' folder, from a repository's top; empty where they lie elsewhere."""
    tests = source.tests.resolve() if source is not None else top
    return tests.relative_to(top).as_posix() if top in tests.parents else ""


def _recall(context: Context, request: ChangeRequest) -> Recall | None:
    """What was measured of such a choice; None where nothing was."""
    path = context.settings.resolve(context.settings.model.plan.recall)
    return read_recall(path).get(request.words) if path.is_file() else None


def change_lines(note: ChangeNote, total: int) -> list[str]:
    """The account of an order by a change, for people.

    Args:
        note: the account.
        total: how many tests were selected before.
    """
    lines = [f"change: {counted(note.files, 'file')} between {note.compared}; budget {note.budget}"]
    if note.everything:
        lines.append(f"any test may break: {listed(list(note.everything), 3)}")
    else:
        tests = f"{counted(len(note.named), 'test')} of {total:,}"
        always = f"{note.always:,} of them are always in ({note.untraced:,} without a trace)"
        lines.append(f"the change can break {tests}; {always}")
        common = Counter(note.named.values()).most_common(MOST_REASONS)
        lines += [f"  {number:>7,} {reason}" for reason, number in common]
    if note.left_out:
        lines.append(f"left out: {counted(note.left_out, 'test')}; the full stage still runs nightly")
        lines.append(
            note.recall.words if note.recall else "expected recall: unknown (`spyre-ci changes measure`)"
        )
    return lines


def named_lines(note: ChangeNote) -> list[str]:
    """Each test that the change can break, in the order of the run, as a table: place, reason, test id."""
    width = max(map(len, note.named.values()), default=0)
    rows = [
        ("place", "why", "test"),
        *((place, why, name) for place, (name, why) in enumerate(note.named.items(), 1)),
    ]
    return [f"{place:>7}  {why:<{width}}  {name}" for place, why, name in rows]
