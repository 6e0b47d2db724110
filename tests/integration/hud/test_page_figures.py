"""The figures on the pages against the rows that were sent, counted here by hand and not by a query."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
import requests

from ci.store.identity import job_number
from ci.store.store import Store
from tests.hud_server import create_app, embedded
from tests.integration.hud.conftest import IDENTITY

from .conftest import bearer, nightly_report, post_report

REPOSITORY = "torch-spyre/torch-spyre"
AUTH = bearer("t")
NOW = 1_785_931_200.0  # 2026-08-05, noon
CARDS = ("card0", "card1", "card2")
BAD = {"failed", "hardware", "not_run"}
ELEMENTS = {
    "passed": "",
    "failed": '<failure message="no" type="failed">x</failure>',
    "hardware": '<error message="gone" type="hardware">x</error>',
    "not_run": '<error message="lost" type="not_run">x</error>',
    "skipped": '<skipped message="no" type="pytest.skip"/>',
    "xfailed": '<skipped message="known" type="pytest.xfail"/>',
    "flaky": '<rerun message="once" type="failed"/>',
}
OUTCOMES = {"passed", "failed", "flaky", "xfailed"}


@dataclass(frozen=True, slots=True)
class Sent:
    """A test as it is sent."""

    name: str
    verdict: str
    card: str
    seconds: float

    @property
    def id(self) -> str:
        return f"test/test_a.py::TestA::{self.name}"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a nightly as it is sent, the third of which ran twice."""

    number: int
    attempt: int
    day: int
    stage: int
    tests: dict[str, Sent]

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(one.verdict for one in self.tests.values())

    @property
    def shares(self) -> dict[str, int]:
        ran = len(self.tests) - self.verdicts["skipped"] - self.verdicts["not_run"]
        return {
            "in_scope": 400,
            "selected": len(self.tests),
            "ran": ran,
            "passed": self.verdicts["passed"] + self.verdicts["flaky"],
        }


def made() -> list[Run]:
    draw = random.Random(11)  # noqa: S311  # no secret
    runs = []
    for place, (number, attempt) in enumerate(((1, 1), (2, 1), (3, 1), (3, 2))):
        names = [f"test_{index}" for index in range(10 * number, 10 * number + 90)]
        tests = {}
        for name in names:
            verdict = draw.choices(list(ELEMENTS), (60, 9, 4, 4, 8, 6, 9))[0]
            seconds = round(draw.uniform(1.0, 1.4), 3) * (9 if draw.random() < 0.1 else 1)
            took = 0.0 if verdict in {"skipped", "not_run"} else round(seconds, 3)
            card = "" if verdict == "not_run" else draw.choice(CARDS)
            tests[name] = Sent(name, verdict, card, took)
        runs.append(Run(number, attempt, place + 1, 1 if number == 1 else 2, tests))
    return runs


RUNS = made()
COUNTED = [RUNS[0], RUNS[1], RUNS[3]]


def junit(run: Run) -> bytes:
    cases = "".join(
        f'<testcase classname="TestA" file="test/test_a.py" name={quoteattr(one.name)} time="{one.seconds}">'
        f'<properties><property name="id" value={quoteattr(one.id)}/></properties>{ELEMENTS[one.verdict]}'
        + (f"<system-out>card: {one.card}</system-out>" if one.card else "")
        + "</testcase>"
        for one in run.tests.values()
    )
    return f'<testsuite name="s">{cases}</testsuite>'.encode()


def send(url: str, run: Run) -> None:
    started = f"2026-08-0{run.day}T02:00:00+00:00"
    identity = (
        IDENTITY
        | {"run_id": run.number, "run_attempt": run.attempt, "stage": run.stage, "percent": 25.0 * run.stage}
        | {"started_at": started, "completed_at": started.replace("02:", "03:", 1)}
        | {"pytorch_sha": f"{run.number:040x}"}
    )
    told = nightly_report(identity, run=f"run-{run.day}", verdicts=run.verdicts)
    told["payload"]["spyre_ci"] |= run.shares
    answer = post_report(url, told, "t")
    assert answer.status_code == 200, answer.text
    where: dict[str, str | int] = {
        "workflow_id": run.number,
        "workflow_run_attempt": run.attempt,
        "job_id": job_number(told["workflow"]["check_run_id"], repository=REPOSITORY),
        "name": "1.xml",
    }
    answer = requests.post(f"{url}/api/upload/junit", params=where, data=junit(run), headers=AUTH, timeout=20)
    assert answer.json()["stored"] == len(run.tests)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = Store(Path(tmp_path_factory.mktemp("hud")) / "hud.sqlite")
    with embedded(create_app(store, token="t", repository=REPOSITORY, clock=lambda: NOW)) as base:
        for run in RUNS:
            send(base, run)
        yield base
    store.close()


def text(url: str, address: str, **query: Any) -> str:
    """A page's words, one space between them."""
    answer = requests.get(f"{url}{address}", params=query, headers={"Accept": "text/html"}, timeout=20)
    assert answer.status_code == 200
    body = answer.text[answer.text.index('<main id="main">') :]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}".rstrip("0").rstrip(".") + " %"


@pytest.mark.parametrize("place", range(len(RUNS)))
def test_a_runs_page_counts_its_tests(url: str, place: int) -> None:
    run, page = RUNS[place], text(url, f"/runs/{place + 1}")
    assert f"Tests reported {len(run.tests)} " in page
    words = {"not_run": "not run", "xfailed": "failed as expected"}
    for verdict, number in run.verdicts.items():
        assert f" {number} {words.get(verdict, verdict)} " in page, verdict
    for card in CARDS:
        own = [one for one in run.tests.values() if one.card == card]
        counts = Counter(one.verdict for one in own)
        assert f" {card} {len(own)} {counts['failed']} {counts['hardware']} " in page
    listed = text(url, f"/runs/{place + 1}/tests", verdict="failed")
    assert {one.id for one in run.tests.values() if one.verdict == "failed"} == set(
        re.findall(r"test/test_a\.py::\S+", listed)
    )


def test_the_summary_and_the_grid_count_each_run_once(url: str) -> None:
    page = text(url, "/")
    assert f"0 % of {len(COUNTED)} completed jobs succeeded" in page
    assert f"0 % of {len(COUNTED)} " in page
    grid = text(url, "/grid")
    assert f"{len(COUNTED)} commits" in grid or f"of {len(COUNTED)}, the newest start first" in grid


def test_the_cards_are_counted_over_all_runs_that_count(url: str) -> None:
    page = text(url, "/cards")
    assert f"{len(CARDS)} cards" in page
    for card in CARDS:
        own = [one for run in COUNTED for one in run.tests.values() if one.card == card]
        counts = Counter(one.verdict for one in own)
        told = "".join(
            rf"{re.escape(share(counts[name], len(own)))} +\({counts[name]}\) +"
            for name in ("hardware", "failed")
        )
        assert re.search(rf" {card} (?:(?!card\d).)*{told}{len(own)} ", page), card


def test_a_tests_history_counts_its_outcomes(url: str) -> None:
    names = sorted({name for run in COUNTED for name in run.tests})
    for name in names[::7]:
        ids = [run.tests[name] for run in COUNTED if name in run.tests]
        found = [one.verdict for one in ids]
        first, second = (RUNS[place].tests.get(name) for place in (2, 3))
        again = first and second and first.verdict in {"failed", "xfailed"} and second.verdict == "passed"
        flaky = found.count("flaky") + bool(again)
        outcomes = sum(verdict in OUTCOMES for verdict in found)
        page = text(url, "/test", id=ids[0].id)
        said = f"{outcomes} outcome" + "s" * (outcomes != 1)
        assert f"Flake rate {share(flaky, outcomes) if outcomes else chr(0x2013)} {flaky} of {said} " in page
        assert f" {found.count('failed')} of {said} Newest verdict" in page
        assert f"Of the {len(found)} run" in page


def kinds(before: Run, after: Run) -> dict[str, int]:
    old, new = before.tests, after.tests
    both = old.keys() & new.keys()
    timed = {name for name in both if old[name].verdict == new[name].verdict == "passed"}
    ratios = {name: new[name].seconds / old[name].seconds for name in timed}
    assert 0.9 < median(ratios.values()) < 1.1
    return {
        "Newly failing": sum(new[name].verdict == "failed" and old[name].verdict not in BAD for name in both),
        "New and failing": sum(one.verdict == "failed" for name, one in new.items() if name not in old),
        "Still failing": sum(old[name].verdict == new[name].verdict == "failed" for name in both),
        "Fixed": sum(
            old[name].verdict == "failed" and new[name].verdict in {"passed", "xfailed", "xpassed"}
            for name in both
        ),
        "Appeared": len(new.keys() - old.keys()),
        "Vanished": len(old.keys() - new.keys()),
        # A ninefold time is more than noise, and nothing else here comes near it.
        "Slower": sum(ratio > 4 for ratio in ratios.values()),
        "Faster": sum(ratio < 1 / 4 for ratio in ratios.values()),
    }


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 3), (2, 3), (3, 0)])
def test_two_runs_side_by_side_are_counted_test_by_test(url: str, before: int, after: int) -> None:
    page = text(url, "/compare", before=before + 1, after=after + 1)
    both = RUNS[before].tests.keys() & RUNS[after].tests.keys()
    assert f" {len(both)} tests in both" in page
    for kind, number in kinds(RUNS[before], RUNS[after]).items():
        assert f" {kind} {number} " in page, kind


def test_the_roll_out_is_what_the_newest_run_of_each_stage_said(url: str) -> None:
    page = text(url, "/rollout")
    for run, runs in ((RUNS[3], 2), (RUNS[0], 1)):
        told = run.shares
        parts = " ".join(share(told[name], 400) for name in ("selected", "ran", "passed"))
        assert re.search(
            rf" {run.stage} \({25 * run.stage} %\) 2026-08-\d\d {runs} 400 {re.escape(parts)} ", page
        )
