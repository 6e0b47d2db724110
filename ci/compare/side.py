"""One side of a comparison: a run, what it is of, its tests, and what else is known of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

from ci.compare.existing import Existence, Known
from ci.compare.verdicts import Test


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Generic[Test]):
    """A run.

    Attributes:
        run: what it is called, for people.
        rows: one a planned test.
        facts: by name, what it is of, such as the device; empty text where nobody says.
        known: the tests there are; None without a catalog.
        setups: by file, as ids begin with it, the median seconds of its set-ups.
        under_test: the back end with its version and commit, and what was checked out; two runs are often
            compared because of it, so it is no matter of being alike.
        in_scope: how many tests its share is of; 0 where nobody counted them.
        lacking: what has no outcome in it, for people; empty where all has one.
        started_at: seconds since the epoch; None where nobody says.
    """

    run: str
    rows: Sequence[Test]
    facts: Mapping[str, str] = field(default_factory=dict)
    known: Known | None = None
    setups: Mapping[str, float] = field(default_factory=dict)
    under_test: str = ""
    in_scope: int = 0
    lacking: str = ""
    started_at: float | None = None


class Unlike(NamedTuple):
    """Something that is otherwise about the runs themselves."""

    what: str
    now: str
    base: str


def unlike(now: Side[Test], base: Side[Test], existence: Existence) -> tuple[Unlike, ...]:
    """What two runs do not have in common.

    That other tests are in scope is told where the tests that came and went do not explain it: then the rules
    are others.
    """
    names: Iterable[str] = dict.fromkeys((*now.facts, *base.facts))
    found = [Unlike(name, now.facts.get(name, ""), base.facts.get(name, "")) for name in names]
    more = len(existence.appeared) - len(existence.vanished)
    if now.in_scope and base.in_scope and now.in_scope - base.in_scope != more:
        found.append(Unlike("tests in scope", f"{now.in_scope:,}", f"{base.in_scope:,}"))
    return tuple(one for one in found if one.now != one.base)
