from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.pages.words import VERDICTS
from ci.hud.server.queries.compare import BAD, KINDS, Side, compare

SIDES = st.dictionaries(
    st.integers(1, 40), st.tuples(st.sampled_from(sorted(VERDICTS)), st.floats(0, 1e4)), max_size=30
)


def side(key: int, verdict: str = "passed", seconds: float = 1.0) -> Side:
    return Side(test_id=f"t{key}", place=0, verdict=verdict, seconds=seconds, card="", message="")


def compared(
    before: dict[int, Any], after: dict[int, Any], kind: str = "slower", *, limit: int = 1000, offset: int = 0
) -> Any:
    sides = [{(key, 0): side(key, *value) for key, value in one.items()} for one in (before, after)]
    return compare(sides[0], sides[1], kind=kind, limit=limit, offset=offset)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (("passed",), ("failed",), "new failures"),
        (None, ("hardware",), "new failures"),
        (None, ("passed",), "appeared"),
        (("passed",), None, "vanished"),
        (("failed",), ("passed",), "fixed"),
        (("failed",), ("flaky",), "fixed"),
        (("passed",), ("flaky",), "flaky"),
        (("not_run",), ("failed",), "still failing"),
        (("passed", 1.0), ("passed", 9.0), "slower"),
        (("passed", 9.0), ("passed", 1.0), "faster"),
    ],
)
def test_each_kind_of_change_has_its_name(old: Any, new: Any, kind: str) -> None:
    same = dict.fromkeys(range(2, 20), ("passed", 1.0))
    found = compared(same | ({1: old} if old else {}), same | ({1: new} if new else {}), kind)
    assert [one.test_id for one in found.changes] == ["t1"]
    assert found.counts[kind] == 1


def test_a_run_that_is_slower_as_a_whole_has_no_slower_tests() -> None:
    found = compared(
        {key: ("passed", key) for key in range(1, 50)}, {key: ("passed", 3 * key) for key in range(1, 50)}
    )
    assert found.counts["slower"] == 0
    assert found.pace == pytest.approx(3)


def test_noise_is_what_most_tests_show() -> None:
    before = dict.fromkeys(range(40), ("passed", 1.0))
    after = {key: ("passed", 0.7 if key % 2 else 1.4) for key in range(40)}
    assert compared(before, after).counts["slower"] == 0
    assert compared(before, after | {0: ("passed", 20.0)}).counts["slower"] == 1


def test_what_takes_no_time_is_never_slower() -> None:
    assert compared({1: ("passed", 0.001)}, {1: ("passed", 0.04)}).counts["slower"] == 0


def test_a_skip_after_a_failure_is_no_fix() -> None:
    assert compared({1: ("failed",)}, {1: ("skipped",)}, "fixed").counts["fixed"] == 0


@given(SIDES, SIDES)
def test_no_change_is_lost_and_pages_join_to_the_whole(before: dict[int, Any], after: dict[int, Any]) -> None:
    for kind in KINDS:
        whole = compared(before, after, kind)
        pages = [compared(before, after, kind, limit=3, offset=at).changes for at in range(0, 42, 3)]
        assert [one for page in pages for one in page] == whole.changes
        assert len(whole.changes) == whole.counts[kind]
    assert whole.counts["appeared"] == len(after.keys() - before.keys())
    assert whole.counts["vanished"] == len(before.keys() - after.keys())
    bad = sum(verdict in BAD for verdict, _ in after.values())
    assert whole.counts["new failures"] + whole.counts["still failing"] == bad
    assert whole.both == len(before.keys() & after.keys())
