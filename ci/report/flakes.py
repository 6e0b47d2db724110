"""Find flaky tests in the history: how often, when last, and whether it is the card or the test.

A test is flaky where a run said so (it failed and then passed within the run), or where it passed in one
run and failed in another at the same commit of PyTorch and of the checkout. Where the checkout is not known
(no CI says it), a run is compared with no other. Only what may be flaky is read; everybody else is counted.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Literal

from ci.core.text import counted, iso_utc, one_line
from ci.record.verdict import CODE_FAILED, CODE_PASSED
from ci.report.history import DAY_S, JOBS, OF_JOBS, History, asked, epoch_of
from test_selection.interval import score_interval

# Of the tests that ran, in per cent: the project's own measure of a suite that can be trusted.
LIMIT_PERCENT = 5.0
FORGIVEN_DAYS = 28
# Where more of a run's tests failed, and so many at least, the build was broken and no test flaky.
BROKEN_PERCENT, BROKEN_LEAST = 20.0, 10
# Below this chance that it is one, a coincidence is taken for none; the 95th percentile of the normal law.
UNLIKELY = 0.05
Blame = Literal["card", "test", "unclear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a test in one run.

    Attributes:
        verdict: passed, failed, flaky, xfailed or xpassed.
        card: of a flaky one, the card it failed on.
        commit: of everything that decides the outcome, as far as it is known.
        at: when the run began, in seconds since the epoch.
    """

    verdict: str
    card: str | None
    commit: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyTest:
    """A flaky test.

    Attributes:
        id: its test id.
        runs: how many runs it came to an outcome in.
        bad: in how many of them it was flaky, or failed at a commit at which it also passed.
        last: when it last did so, in seconds since the epoch.
        cards: by card, how many of the bad ones were on it.
        blame: whether it fails on one card more than chance has it, on several, or too seldom to say.
    """

    id: str
    runs: int
    bad: int
    last: float
    cards: Mapping[str, int]
    blame: Blame

    @property
    def rate(self) -> float:
        """Share of its runs that were bad, 0 to 1."""
        return self.bad / self.runs

    @property
    def certain_rate(self) -> float:
        """The least rate that so few runs leave likely; what tests are ranked by."""
        return score_interval(self.bad, self.runs)[0]

    def line(self, now: float) -> str:
        """One line for people."""
        days = max(0.0, now - self.last) / DAY_S
        where = ", ".join(f"{one_line(card)} {number}" for card, number in self.cards.items())
        on = f", on {where}" if where else ""
        blame = "too few runs to name a cause" if self.blame == "unclear" else f"the {self.blame}"
        return (
            f"{self.rate:4.0%} {self.bad} of {counted(self.runs, 'run')}, last {days:.0f} days ago{on}: "
            f"{blame}  {one_line(self.id, 1000)}"
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "rate": round(self.rate, 6)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flakes:
    """The flaky tests of a time, the worst first, among how many that ran, but for runs of broken builds."""

    ran: int
    tests: Sequence[FlakyTest] = field(default_factory=tuple)
    broken: int = 0

    @property
    def percent(self) -> float:
        """Flaky tests of those that ran, in per cent; 0 where none ran."""
        return 100 * len(self.tests) / self.ran if self.ran else 0.0

    def below(self, limit: float) -> bool:
        """Whether fewer than `limit` per cent are flaky, or none at all; exactly `limit` are not fewer."""
        return not self.tests or self.percent < limit

    def line(self, limit: float = LIMIT_PERCENT) -> str:
        """Whether fewer than `limit` per cent are flaky."""
        if not self.ran:
            return f"no test ran{self._passed_over()}"
        than = "fewer than" if self.percent < limit else "not fewer than"
        against = f", {than} {limit:g} %" if self.tests or limit else ""
        be = "is" if len(self.tests) == 1 else "are"
        return (
            f"{len(self.tests):,} of {counted(self.ran, 'test')} that ran {be} flaky: "
            f"{self.percent:.2f} %{against}{self._passed_over()}"
        )

    def _passed_over(self) -> str:
        if not self.broken:
            return ""
        return f" ({counted(self.broken, 'run')} skipped: more than {BROKEN_PERCENT:g} % failed)"


def rank(outcomes: Mapping[str, Sequence[Outcome]], ran: int, *, broken: int = 0) -> Flakes:
    """The flaky ones among tests.

    Args:
        outcomes: by id, a test's outcomes; tests that cannot be flaky may be left out.
        ran: how many tests ran altogether.
        broken: how many runs were passed over because their build was broken.
    """
    found = [one for name, rows in outcomes.items() if (one := flaky_test(name, rows)) is not None]
    tests = sorted(found, key=lambda one: (-one.certain_rate, -one.bad, one.id))
    return Flakes(ran=ran, tests=tests, broken=broken)


def flaky_test(name: str, rows: Sequence[Outcome]) -> FlakyTest | None:
    """A test's flakiness; None where it is not flaky."""
    good = {one.commit for one in rows if one.verdict in CODE_PASSED or one.verdict == "flaky"}
    bad = [
        one for one in rows if one.verdict == "flaky" or (one.verdict in CODE_FAILED and one.commit in good)
    ]
    if not bad:
        return None
    cards = Counter(one.card for one in bad if one.card)
    ran_on = Counter(one.card for one in rows if one.card)
    return FlakyTest(
        id=name,
        runs=len(rows),
        bad=len(bad),
        last=max(one.at for one in bad),
        cards=dict(sorted(cards.items(), key=lambda item: (-item[1], item[0]))),
        blame=blame(cards, ran_on),
    )


def blame(bad: Mapping[str, int], ran: Mapping[str, int]) -> Blame:
    """Whether failures are the card's or the test's.

    All on one of several cards: the card's, where the hypergeometric law gives that (all on any one card) a
    chance below 5 % had the cards nothing to do with it. On more than one card: the test's.

    Args:
        bad: by card, how many bad runs.
        ran: by card, how many runs; at least those.
    """
    if len(bad) != 1:
        return "test" if bad else "unclear"
    (failures,) = bad.values()
    # Whichever card it is, it was not chosen before.
    chance = sum(math.comb(runs, failures) for runs in ran.values()) / math.comb(sum(ran.values()), failures)
    return "card" if chance < UNLIKELY else "unclear"


def propose(tests: Iterable[FlakyTest], *, issue: str, owner: str, expires: date) -> str:
    """Quarantine entries to paste, as YAML.

    What is left empty has to be filled in before the file is taken: an entry without an owner is nobody's.
    """
    lines = ["quarantine:"]
    for one in tests:
        last = iso_utc(one.last)[:10]
        reason = f"flaky in {one.bad} of {counted(one.runs, 'run')}, last on {last}"
        lines += [
            f"  - test: {_quoted(one.id)}",
            f"    reason: {reason}",
            f"    issue: {_quoted(issue) if issue else '# the page where it is followed up'}",
            f"    owner: {_quoted(owner) if owner else '# who sees to it'}",
            f"    expires: {expires.isoformat()}",
        ]
    return "\n".join(lines if len(lines) > 1 else ["quarantine: []"]) + "\n"


def _quoted(text: str) -> str:
    """Text as YAML reads it back, whatever is in it: JSON's strings are YAML's."""
    return json.dumps(text)


# Of runs that count, those that came to an outcome.
_RAN = "t.verdict IN ('passed', 'failed', 'flaky', 'xfailed', 'xpassed')"
_COUNTS = f"""
WITH jobs AS ({JOBS})
SELECT b.o_run, sum(CASE WHEN t.verdict = 'failed' THEN t.tests ELSE 0 END) AS failed, sum(t.tests) AS ran
FROM jobs AS b JOIN job_card AS t ON t.workflow_id = b.o_workflow
    AND t.workflow_run_attempt = b.o_attempt AND t.job_id = b.o_job
WHERE {_RAN} GROUP BY b.o_run
"""  # noqa: S608  # our names
_KEPT = f"WITH every AS ({JOBS}), jobs AS (SELECT * FROM every WHERE o_run IN ({{0}}))"  # noqa: S608  # the same
_COUNT = f"{_KEPT} SELECT count(DISTINCT t.test_key) {OF_JOBS} AND {_RAN}"
_OUTCOMES = f"""
{_KEPT}, doubtful AS (
    SELECT DISTINCT t.test_key AS o_key {OF_JOBS} AND t.verdict IN ('failed', 'flaky', 'xfailed')
)
SELECT t.test_id, t.verdict, t.card, b.o_run {OF_JOBS} AND {_RAN}
    AND t.test_key IN (SELECT o_key FROM doubtful)
ORDER BY t.test_id, b.o_started, b.o_run
"""  # noqa: S608  # the same


def find_flakes(history: History, *, device: str, since: float) -> Flakes:
    """The flaky tests of the history.

    A run in which too many tests failed is of a build that is broken, and says nothing of any of them.

    Args:
        history: of runs.
        device: only runs on this device.
        since: only runs that began then or later, in seconds since the epoch.

    Raises:
        MissingInputError: there is no history yet.
        SpyreCiError: as `History.reading` says.
    """
    wanted = asked(device=device, since=since)
    outcomes: dict[str, list[Outcome]] = {}
    with history.reading() as (answers, _):
        jobs = {row["o_run"]: row for row in answers.rows(JOBS, wanted)}
        counts = answers.tuples(_COUNTS, wanted)
        broken = {
            run
            for run, failed, ran in counts
            if failed >= BROKEN_LEAST and 100.0 * failed > BROKEN_PERCENT * ran
        }
        kept = ", ".join(str(int(run)) for run, _, _ in counts if run not in broken) or "0"
        ((ran,),) = answers.tuples(_COUNT.format(kept), wanted)
        for name, verdict, card, run in answers.tuples(_OUTCOMES.format(kept), wanted):
            job = jobs[run]
            one = Outcome(
                verdict=verdict, card=card or None, commit=_build_of(job), at=epoch_of(job["o_started"])
            )
            outcomes.setdefault(name, []).append(one)
    return rank(outcomes, ran, broken=len(broken))


def _build_of(job: Mapping[str, Any]) -> str:
    """What ran: one commit of PyTorch and one of the checkout.

    Where nobody says what was checked out, as on a laptop, each run is a build of its own: what was mended
    between two of them did not flake.
    """
    checkout = job["o_checkout"] or f"run {job['o_run']}"
    return f"{job['o_version']}\n{job['o_sha']}\n{checkout}"
