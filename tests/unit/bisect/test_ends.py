"""The ends that a history gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.belief import Tally
from ci.bisect.ends import COUNTS, Ends, choose_ends, counted_outcome, require
from ci.core.errors import UsageError
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.history import History, past_outcomes
from tests.past_runs import record
from tests.unit.bisect.hands import shas

S = shas(20)


def ends(said: str) -> tuple[int | None, int | None]:
    """`PPFP` over one SHA each; the positions of the ends."""
    tallies = {"P": Tally(passed=1), "F": Tally(failed=1), "-": Tally()}
    found = choose_ends((S[number], tallies[sign]) for number, sign in enumerate(said))
    return position(found.good), position(found.bad)


def position(sha: str) -> int | None:
    return S.index(sha) if sha else None


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        # A pass just before the first failure may have been luck, where failing is rare.
        ("PPPPFFFF", (3, 4)), ("PPPPPPPPF", (3, 8)), ("PPFFFPP", (0, 2)), ("PP--FF", (0, 4)),
        ("PPPP", (3, None)), ("FFFF", (None, 2)), ("", (None, None)), ("F", (None, 0)), ("PF", (0, 1)),
    ],
)  # fmt: skip
def test_the_nearest_ends_that_are_clear(said: str, wanted: tuple[int | None, int | None]) -> None:
    assert ends(said) == wanted


def test_passes_between_failures_are_no_good_end() -> None:
    good, bad = ends("PPPPPPFPFPFF")
    assert good is not None
    assert bad is not None
    assert good < 6 <= bad


@given(st.text("PF-", max_size=14))
def test_a_good_end_comes_before_a_bad_one(said: str) -> None:
    good, bad = ends(said)
    if good is not None and bad is not None:
        assert good < bad
        assert said[bad] == "F"


def test_only_commits_are_ends() -> None:
    odd = ["", "2.13.0+sha256.0123456789abcdef", "--upload-pack=x", "A" * 40]
    assert choose_ends((one, Tally(failed=1)) for one in odd) == Ends()


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_past_counts_for_little(passed: int, failed: int) -> None:
    found = choose_ends([(S[0], Tally(passed=5)), (S[1], Tally(passed=passed, failed=failed))])
    assert found.seen_bad.tries <= COUNTS + 1
    assert (found.seen_bad.failed > 0) == (failed > 0)


@pytest.mark.parametrize(
    ("verdict", "attempts", "wanted"),
    [
        ("passed", 1, Tally(passed=1)), ("failed", 2, Tally(failed=2)),
        ("flaky", 3, Tally(passed=1, failed=2)),
        ("xfailed", 1, Tally(failed=1)), ("skipped", 1, Tally()), ("hardware", 1, Tally()),
        ("infrastructure", 4, Tally()), ("not_run", 0, Tally()),
    ],
)  # fmt: skip
def test_what_a_run_says(verdict: str, attempts: int, wanted: Tally) -> None:
    assert counted_outcome(verdict, attempts) == wanted


@pytest.mark.parametrize(("found", "flag"), [(Ends(good=S[0]), "--bad"), (Ends(bad=S[0]), "--good")])
def test_an_end_nobody_knows_is_asked_for(found: Ends, flag: str) -> None:
    with pytest.raises(UsageError, match="no run of lane 'nightly-main'") as caught:
        require(found, test="t", lane="nightly-main")
    assert caught.value.where == flag
    assert flag in str(caught.value.remedy)


def test_the_history_is_asked_by_lane_and_device(tmp_path: Path) -> None:
    path, rows = tmp_path / "h.sqlite", [("nightly-main", "cpu"), ("pr", "cpu"), ("nightly-main", "spyre")]
    for number, (lane, device) in enumerate(rows, start=1):
        identity = RunIdentity(
            run=f"r{number}", run_id=number, run_attempt=1, device=device, pytorch_version="2", stage=1,
            pytorch_sha=S[number], percent=5, started_at=1e9 - number, lane=lane,
        )  # fmt: skip
        record(path, identity, [Result(id="a.py::t\udc80", verdict=Verdict.FAILED, attempts=2)], {})
    (one,) = past_outcomes(History(path), test="a.py::t\udc80", device="cpu", lane="nightly-main")
    assert (one.sha, one.verdict, one.attempts) == (S[1], "failed", 2)
    assert past_outcomes(History(path), test="other", device="cpu", lane="pr") == []
