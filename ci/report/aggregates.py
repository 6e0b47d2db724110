"""What people look for in an account: totals by file, the slowest, and problems that look alike. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ci.core.text import one_line
from ci.record.result import Result
from ci.record.verdict import PROBLEMS, Verdict
from ci.report.reconcile import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotals:
    """One test file: verdicts, seconds of its tests, and seconds of all its set-ups."""

    file: str
    counts: Mapping[Verdict, int]
    test_s: float
    setup_s: float

    @property
    def tests(self) -> int:
        """How many tests were planned of it."""
        return sum(self.counts.values())

    @property
    def problems(self) -> int:
        """How many of them somebody must look at."""
        return sum(self.counts.get(verdict, 0) for verdict in PROBLEMS)

    @property
    def seconds(self) -> float:
        """What it cost altogether."""
        return self.test_s + self.setup_s


class Section(NamedTuple):
    """Tests that somebody looks at for the same reason, in the order of the plan."""

    title: str
    results: list[Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemGroup:
    """Tests with the same verdict, cause and message."""

    verdict: Verdict
    cause: str | None
    message: str
    results: Sequence[Result]


def totals_by_file(account: Account) -> list[FileTotals]:
    """Every planned file: those with most problems first, then by number of tests, then by name."""
    by_file: dict[str, list[Result]] = {}
    for result in account.results:
        by_file.setdefault(result.file, []).append(result)
    setups = account.setup_seconds()
    totals = [
        FileTotals(
            file=file,
            counts=Counter(result.verdict for result in results),
            test_s=sum(result.seconds for result in results),
            setup_s=sum(setups.get(file, ())),
        )
        for file, results in by_file.items()
    ]
    return sorted(totals, key=lambda one: (-one.problems, -one.tests, one.file))


def slowest_files(totals: Iterable[FileTotals], limit: int) -> list[FileTotals]:
    """The files that cost most, set-up and tests together."""
    return sorted(totals, key=lambda one: (-one.seconds, one.file))[:limit]


def slowest_tests(results: Iterable[Result], limit: int) -> list[Result]:
    """The tests that ran longest; what did not run is left out."""
    ran = (result for result in results if result.seconds > 0)
    return sorted(ran, key=lambda one: (-one.seconds, one.id))[:limit]


def sections(results: Iterable[Result], control: str = "") -> dict[str, Section]:
    """The tests by why somebody looks at them, the most urgent first; each in one section, but for leaks.

    `failed` is the back end's, as far as is known; `upstream` fails on the control device, too; `forgiven` is
    quarantined; `retried` came to a good outcome after a try was lost from outside; `leaky` left processes or
    threads behind, which may disturb those that follow.

    Args:
        results: of a run.
        control: the control device; empty where nothing ran there.
    """
    titles = {
        "failed": "Failed",
        "upstream": f"Failed on {control or 'the control device'} too: upstream's",
        "hardware": "Fault of the card",
        "infrastructure": "Lost to infrastructure",
        "not_run": "Not run",
        "flaky": "Flaky",
        "forgiven": "Failed in quarantine",
        "retried": "Ran again after a lost attempt",
        "leaky": "Left processes or files behind",
    }
    found = {name: Section(title, []) for name, title in titles.items()}
    for one in results:
        if (name := _section_of(one)) is not None:
            found[name].results.append(one)
        if one.leak:
            found["leaky"].results.append(one)
    return found


def _section_of(result: Result) -> str | None:
    if result.forgiven:
        return "forgiven"
    if result.upstream:
        return "upstream"
    if result.verdict in (*PROBLEMS, Verdict.FLAKY):
        return result.verdict.value
    return "retried" if result.attempts - result.interrupted > 1 else None


def problem_groups(results: Iterable[Result]) -> list[ProblemGroup]:
    """Problems that look alike together: failures first, bigger groups before smaller ones.

    Failures that are upstream's or quarantined are left out.
    """
    groups: dict[tuple[Verdict, str | None, str], list[Result]] = {}
    for result in results:
        if result.verdict in PROBLEMS and not (result.forgiven or result.upstream):
            key = result.verdict, result.cause, one_line(result.message)
            groups.setdefault(key, []).append(result)
    made = [
        ProblemGroup(verdict=verdict, cause=cause, message=message, results=members)
        for (verdict, cause, message), members in groups.items()
    ]
    return sorted(made, key=lambda one: (PROBLEMS.index(one.verdict), -len(one.results)))
