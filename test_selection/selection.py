"""The selection: the tests of one stage, by test id; and what a report says of it."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import intern
from typing import Any

import msgspec

from test_selection.catalog import CatalogTest
from test_selection.files import convert, read_json, write_json
from test_selection.lock import Lock
from test_selection.recall import Recall
from test_selection.selection_order import KINDS, By, about, quota

KIND = "selection"
# Percent of the tests in scope by which a share may be off before the report asks for a relock.
DRIFT = 0.25
RELOCK = "relock with `spyre-ci select --relock`"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNote:
    """How a share came about.

    Attributes:
        source: which lock gave the ranks.
        by: what the share is of, `count` or `seconds`.
        locked: how many tests the lock ranks, of those that files, -k and suites let through.
        came: tests in scope that came since.
        went: tests with a rank that are not in scope any more, or not there.
        complete_at: the percentage at which the must-run tests and each kind of the cover are complete.
        reached: by kind, how many the share reaches and how many there are.
        remarks: what the user should know or do, a sentence each.
    """

    source: str
    by: By = "count"
    locked: int = 0
    came: int = 0
    went: int = 0
    complete_at: Mapping[str, float] = field(default_factory=dict)
    reached: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TierNote:
    """How a tier split what was selected: `kept` and all of `moved` together are that.

    Attributes:
        bucket: whose limits held.
        kept: how many tests it runs.
        moved: by tier, how many run there instead.
        beyond: how many need more than any tier allows.
    """

    bucket: str
    kept: int
    moved: Mapping[str, int] = field(default_factory=dict)
    beyond: int = 0

    @property
    def away(self) -> int:
        """How many of the selected tests run in another tier."""
        return sum(self.moved.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNote:
    """How a change ordered what was selected, and what a budget left out.

    Attributes:
        compared: the two states of the source.
        files: how many of its files differ.
        budget: what the tests were cut to; without one nothing is left out.
        everything: why any test may break; empty where it is known which.
        named: the tests that the change can break, the likeliest first, each with the reason; and those that
            are always in.
        failed_before: the selected tests that failed in some run before; None where there is no history.
        always: how many are in whatever changes: without a trace, or of a changed file.
        untraced: how many have no trace.
        left_out: how many the budget left out.
        recall: what was measured of such a budget.
    """

    compared: str
    files: int
    budget: str
    everything: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    failed_before: Sequence[str] | None = None
    always: int = 0
    untraced: int = 0
    left_out: int = 0
    recall: Recall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What will run.

    Attributes:
        stage: the row of the roll-out, or None where a percentage was asked for by itself.
        percent: share of the in-scope tests that was asked for, 0 to 100.
        ids: test ids, in the order of the catalog.
        in_scope: how many tests the share is taken of.
        in_scope_s: what those are expected to take, in seconds; None where nobody estimated it.
        selected_s: what the selected tests, those of `ids` and those moved, are expected to take; None
            where nobody estimated it.
        out_of_scope: how many tests each reason code left out.
        expectations: for tests whose outcome is declared, the mode and its reason.
        collect_errors: in-scope files that could not be collected, with their error.
        missing: ids that were asked for one by one and are not in the catalog.
        bucket: whose limits held, or None where none were asked.
        moved: by tier, the ids that run there instead, each with the reason.
        beyond: ids that need more than any tier allows, and what; they run in the last tier.
        ladder: how the share came about; None where no share was taken.
        change: the change that the tests were ordered by; None where none was named.
    """

    stage: int | None
    percent: float
    ids: list[str]
    in_scope: int = 0
    in_scope_s: float | None = None
    selected_s: float | None = None
    out_of_scope: Mapping[str, int] = field(default_factory=dict)
    expectations: Mapping[str, Expectation] = field(default_factory=dict)
    collect_errors: Mapping[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    bucket: str | None = None
    moved: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    beyond: Mapping[str, str] = field(default_factory=dict)
    ladder: OrderNote | None = None
    change: ChangeNote | None = None

    @property
    def selected(self) -> int:
        """How many tests were selected: those that run here and those that move to a later tier."""
        return len(self.ids) + sum(len(ids) for ids in self.moved.values())

    @property
    def tier_note(self) -> TierNote | None:
        """How the tier split what was selected; None where no tier's limits held."""
        if self.bucket is None:
            return None
        return TierNote(
            bucket=self.bucket,
            kept=len(self.ids),
            moved={tier: len(ids) for tier, ids in self.moved.items()},
            beyond=len(self.beyond),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How far results may be off: absolute and relative; None leaves the test's own tolerance."""

    atol: float | None = None
    rtol: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a suite file says of a test.

    Attributes:
        mode: `mandatory_success`, `xfail`, `xfail_strict` or `skip`.
        reason: why, in the suite's words.
        where: `file:line` of what decided.
        precision: tolerances for this test alone.
        no_grad: whether it runs without gradients.
        seed: of its random numbers; None leaves PyTorch's own.
        cpu_move: assertions whose tensors are compared on the CPU.
    """

    mode: str
    reason: str = ""
    # Where it is written changes nothing of what is expected.
    where: str = field(default="", compare=False)
    precision: Precision | None = None
    no_grad: bool = False
    seed: int | None = None
    cpu_move: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What files and workers are handed; what says nothing is left out."""
        row: dict[str, Any] = {"mode": self.mode, "reason": self.reason}
        if self.precision is not None:
            row["precision"] = {"atol": self.precision.atol, "rtol": self.precision.rtol}
        rest = {"where": self.where, "no_grad": self.no_grad, "cpu_move": list(self.cpu_move)}
        row |= {key: value for key, value in rest.items() if value}
        return row if self.seed is None else row | {"seed": self.seed}


def write_selection(path: Path, selection: Selection) -> None:
    """Write `selection.json`."""
    content = msgspec.to_builtins(replace(selection, expectations={}))
    expectations = {name: one.as_json() for name, one in selection.expectations.items()}
    write_json(path, KIND, content | {"expectations": expectations})


def read_selection(path: Path) -> Selection:
    """Read `selection.json`; only `stage`, `percent` and `ids` must be there.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind.
    """
    remedy = "select again with `spyre-ci select`"
    found = convert(read_json(path, KIND), Selection, where=path, remedy=remedy)
    return replace(found, ids=list(map(intern, found.ids)))  # one copy with those of the plan


def make_note(
    lock: Lock,
    inside: Sequence[CatalogTest],
    chosen: Sequence[CatalogTest],
    *,
    percent: float,
    by: By,
    source: str,
    scope_version: str,
) -> OrderNote:
    """Compare a share with what was asked for.

    Args:
        lock: the one that gave the ranks, narrowed as the tests are.
        inside: the tests in scope.
        chosen: those of them that were selected.
        percent: the share that was asked for.
        by: what it is of.
        source: which lock it is, for people.
        scope_version: of the scope as it is now.
    """
    ranked = {test.id for test in lock.order.tests}
    stayed = sum(test.id in ranked for test in inside)
    remarks = []
    if lock.scope != scope_version:
        remarks.append(
            f"the lock was made for scope {lock.scope or 'unknown'}, "
            f"and the scope is now {scope_version or 'unknown'}: {RELOCK}"
        )
    off = drift(lock, inside, {test.id for test in chosen}, percent=percent, by=by)
    if abs(off) > DRIFT:
        remarks.append(f"the share has drifted from {percent:g} % by {off:+.2f} % since the lock: {RELOCK}")
    complete_at = lock.complete_at(by)
    all_of, got_of = _about(inside), _about(chosen)
    reached = {kind: (len(got_of[kind]), len(all_of[kind])) for kind in KINDS}
    # The lock covered these at this percentage; who came may be about others, who went took some along.
    lost = {kind: of - got for kind, (got, of) in reached.items() if complete_at[kind] <= percent}
    if any(lost.values()):
        missed = ", ".join(f"{count:,} {kind}" for kind, count in lost.items() if count)
        remarks.append(f"tests were added or removed since the lock, so the share misses {missed}: {RELOCK}")
    return OrderNote(
        source=source,
        by=by,
        locked=len(ranked),
        came=len(inside) - stayed,
        went=len(ranked) - stayed,
        complete_at=complete_at,
        reached=reached,
        remarks=tuple(remarks),
    )


def drift(
    lock: Lock, inside: Sequence[CatalogTest], chosen: Collection[str], *, percent: float, by: By
) -> float:
    """By how many per cent of the tests in scope a share is larger than asked for; below 0: smaller.

    What cannot be otherwise is no drift: a share by count is rounded up to a test, one by seconds to the end
    of its last test. Tests that came since the lock count with its median of seconds.
    """
    if not inside:
        return 0.0
    if by == "count":
        return 100 * (len(chosen) - quota(percent, len(inside))) / len(inside)
    known = {test.id: one for test, one in zip(lock.order.tests, lock.seconds, strict=True)}
    middle = statistics.median(lock.seconds) if lock.seconds else 1.0
    times = {test.id: known.get(test.id, middle) for test in inside}
    total = sum(times.values())
    off = 100 * sum(times[name] for name in chosen) / total - percent
    return min(off, max(0.0, off - 100 * max(times.values()) / total))


def note_lines(note: OrderNote) -> list[str]:
    """The note for people, a few lines of text."""
    moved = f"; {note.came:,} added since, {note.went:,} removed" if note.came or note.went else ""
    lines = [f"selection order: {note.source}, by {note.by}, {note.locked:,} ranked tests{moved}"]
    if note.complete_at:
        whole = "tests" if note.by == "count" else "seconds"
        covered = [(kind.removesuffix("s"), at) for kind, at in note.complete_at.items() if at]
        first = [f"every {kind} covered from {at:.2f} % of the {whole}" for kind, at in covered[:1]]
        rest = [f"every {kind} from {at:.2f} %" for kind, at in covered[1:]]
        lines.append(", ".join(first + rest) or "nothing to cover")
    if note.reached:
        kinds = (
            f"{got:,} of {of:,} {kind if of > 1 else kind.removesuffix('s')}"
            for kind, (got, of) in note.reached.items()
            if of
        )
        lines.append(f"reached: {', '.join(kinds) or 'nothing'}")
    return [*lines, *note.remarks]


def _about(tests: Iterable[CatalogTest]) -> dict[str, set[object]]:
    found: dict[str, set[object]] = {kind: set() for kind in KINDS}
    for test in tests:
        for kind, one in zip(KINDS, about(test), strict=True):
            found[kind].add(one)
    for values in found.values():
        values.discard(None)
    return found


def tier_note_lines(note: TierNote | None) -> list[str]:
    """The note for people; nothing where the tier runs all that was selected and could."""
    if note is None or not (note.away or note.beyond):
        return []
    there = "".join(
        f", {count:,} {'moves' if count == 1 else 'move'} to the {later} tier (--tier {later} runs them)"
        for later, count in note.moved.items()
    )
    beyond = f"; {note.beyond:,} beyond every tier" if note.beyond else ""
    of = note.kept + note.away
    tests = f"{note.kept:,} of {of:,} selected test{'' if of == 1 else 's'}"
    return [f"tier {note.bucket}: {tests} run{there}{beyond}"]
