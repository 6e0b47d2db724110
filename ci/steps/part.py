"""The part of a plan that runs here, with what it is run by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci.runner.source import Source
from ci.steps.folder import RunFolder
from test_selection.durations import Durations
from test_selection.plan import Plan, Shard
from test_selection.selection import Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Shards of a plan that run on this host.

    Attributes:
        plan: the whole plan; of a run that is resumed, what is left of it.
        shards: those that run here.
        source: where the tests come from.
        expectations: declared outcomes by id.
        durations: the seconds the plan was made with.
        folder: takes the journals.
        first: ids that run before all others.
        as_try: by id, the try whose seed a test has, where one is brought back.
    """

    plan: Plan
    shards: Sequence[Shard]
    source: Source
    expectations: Mapping[str, Expectation]
    durations: Durations
    folder: RunFolder
    first: frozenset[str] = frozenset()
    as_try: Mapping[str, int] | None = None
