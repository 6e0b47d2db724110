"""The control: what fails on the device and fails on another one too is upstream's. Pure.

A plan's failed tests run once more on the control device under the same shard numbers and fingerprint, so
that their journals are read against the same plan, by whoever reports the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from ci.record.failure_marks import Control
from ci.record.journal import TOOK_ALL, XPASS_STRICT
from ci.record.result import Result
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reconcile import groups_of
from test_selection.plan import Plan

DEVICES = ("cpu",)


def wants_control(results: Iterable[Result], done: Collection[str] = ()) -> list[str]:
    """The ids a control is to be run of: what failed of itself, and was not run there before.

    A strict xfail that passed would pass there as well, and what took its container down would do so again.
    """
    return [
        one.id
        for one in results
        if one.verdict is Verdict.FAILED
        and not any(said in one.message for said in (XPASS_STRICT, TOOK_ALL))
        and one.id not in done
    ]


def choose(ids: Sequence[str], limit: int) -> list[str]:
    """At most `limit` of the ids, the files in turn, so that one broken file does not hide the others."""
    by_file: dict[str, list[str]] = {}
    for name in ids:
        by_file.setdefault(name.partition("::")[0], []).append(name)
    turns = zip_longest(*(by_file[file] for file in sorted(by_file)))
    kept = set(islice((name for turn in turns for name in turn if name is not None), limit))
    return [name for name in ids if name in kept]


def control_plan(plan: Plan, ids: Collection[str], own: Collection[int]) -> Plan:
    """The plan with nothing but `ids`, for a device without cards.

    It keeps the plan's shard numbers and fingerprint: its journals are evidence of the same plan. What was
    taken over from other hosts' shards stands in the first of its own, for the names of journals are those of
    shards, and two hosts' journals are gathered in one folder.

    Args:
        plan: that was run.
        ids: of the tests to be run.
        own: the indexes of the shards that are this host's; not empty.
    """
    groups = {shard.index: groups_of(shard, ids) for shard in plan.shards}
    taken = tuple(group for index, some in groups.items() if index not in own for group in some)
    groups = {index: some if index in own else () for index, some in groups.items()}
    groups[min(own)] += taken
    return replace(
        plan,
        shards=tuple(replace(shard, groups=groups[shard.index], cards=1, speed=1.0) for shard in plan.shards),
    )


def controls(results: Iterable[Result], device: str) -> dict[str, Control]:
    """By id, what became of each test that came to an outcome on the control device.

    Args:
        results: of the plan, reconciled with the control's journals alone.
        device: the control device.
    """
    return {
        one.id: Control(
            device=device, outcome=one.verdict.value, message=one.message, cause=one.cause, detail=one.detail
        )
        for one in results
        if one.verdict not in NO_OUTCOME
    }


def mark_controls(results: Iterable[Result], found: Mapping[str, Control]) -> tuple[Result, ...]:
    """The results, those that failed with what became of them on the control device."""
    return tuple(
        replace(one, control=found[one.id]) if one.verdict is Verdict.FAILED and one.id in found else one
        for one in results
    )
