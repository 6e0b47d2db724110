"""The HUD server as those who report to it and who read it have it: a process, its routes and its pages."""

from __future__ import annotations

import gzip
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
import requests

from tests.oracle.conftest import Desk, make_desk
from tests.oracle.hud_hub import (
    CALLBACK,
    GONE,
    REPOSITORY,
    TAGS_OF_CODE,
    TIMEOUT_S,
    Hub,
    callback,
    changed,
    of_pull_request,
    serving,
)

PAGES = ("/", "/runs", "/grid", "/tests", "/durations", "/cards", "/rollout", "/metrics", "/compare")
OK, FAILED, SKIPPED = "", '<failure message="1 != 2"/>', '<skipped message="no card"/>'
BEGIN, END = "in_progress", "completed"


def serve(factory: pytest.TempPathFactory) -> Iterator[Hub]:
    desk = make_desk(factory.mktemp("hub"))
    # More than a minute of one repository may have.
    with serving(desk, SPYRE_CI__HUD__RATE_LIMIT="100000") as hub:
        yield hub


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A server whose store only tests of single requests fill."""
    yield from serve(tmp_path_factory)


# What is changed in a good report, and what the relay answers. Where the relay passes HUD's refusal on,
# 400 and 500 are both a refusal: which one has changed upstream.
REQUESTS: list[tuple[str, Any, set[int]]] = [
    ("event_type", "nightly", {200}),
    ("event_type", "periodic", {200}),
    ("event_type", "pull_request", {400}),
    ("event_type", GONE, {400}),
    ("delivery_id", GONE, {400}),
    ("payload", {}, {200}),
    ("payload", {"anything": {"else": [1, None]}}, {200}),
    ("workflow", GONE, {400}),
    ("workflow.status", "in_progress", {400}),
    ("workflow.status", "queued", {400}),
    ("workflow.status", GONE, {400}),
    ("workflow.run_id", 77, {200}),
    ("workflow.run_id", "77", {200}),
    ("workflow.run_id", GONE, {400}),
    ("workflow.run_id", "5c0ffee0-0000-4000-8000-000000000000", {500}),
    ("workflow.run_attempt", GONE, {200}),
    ("workflow.name", GONE, {400}),
    ("workflow.job_name", GONE, {400, 500}),
    ("workflow.job_name", "", {400, 500}),
    ("workflow.job_name", "with: colon", {200}),
    ("workflow.check_run_id", GONE, {400, 500}),
    ("workflow.check_run_id", None, {400, 500}),
    ("workflow.conclusion", "anything", {200}),
    ("workflow.conclusion", None, {200}),
    ("workflow.started_at", GONE, {200}),
    ("workflow.started_at", "yesterday", {200}),
    ("workflow.test_results", GONE, {200}),
    ("workflow.test_results", {"passed": 1, "failed": 2, "skipped": 3}, {200}),
    ("workflow.test_results", {"passed": -1}, {200}),
    ("workflow.url", "javascript:alert(1)", {200}),
]


def test_each_field_of_a_callback_is_answered_as_the_relay_does(relay: Hub) -> None:
    wrong, taken = {}, 0
    before = len(relay.runs())
    for number, (key, value, expected) in enumerate(REQUESTS, start=1000):
        answer = relay.post(changed(callback(number), key, value))
        taken += answer.status_code == 200
        if answer.status_code not in expected:
            wrong[f"{key}={'missing' if value is GONE else value}"] = (answer.status_code, answer.text)
        elif answer.status_code == 200:
            assert answer.json() == {"ok": True, "status": END}
    assert wrong == {}
    assert taken == sum(expected == {200} for _, _, expected in REQUESTS)
    # What was answered with 200 is there, and nothing of the rest.
    assert len(relay.runs()) == before + taken


def test_each_request_that_is_no_callback_is_refused(relay: Hub) -> None:
    good, before = callback(2000), relay.runs()
    large = {**good, "filler": "x" * (2 * 1024 * 1024)}
    answers = [
        ("a slash at the end", 404, relay.post(good, f"{CALLBACK}/")),
        ("no token", 401, relay.post(good, token="")),
        ("another token", 401, relay.post(good, token="made-up")),
        ("no JWT of an issuer", 401, relay.post(good, token="a.b.c")),
        ("too large", 413, relay.post(large)),
        ("half an object", 400, relay.post(b"{")),
        ("nothing", 400, relay.post(b"")),
    ]
    for method in ("GET", "PUT", "DELETE"):
        answers += [(method, 405, requests.request(method, relay.url + CALLBACK, timeout=TIMEOUT_S))]
    assert [(name, one.status_code) for name, status, one in answers if one.status_code != status] == []
    assert relay.runs() == before


Step = tuple[str, Mapping[str, Any], int]
AGAIN = {"run_attempt": 2, "check_run_id": "2"}
WALKS: dict[str, tuple[bool, Sequence[Step]]] = {
    "begins and ends": (True, [(BEGIN, {}, 200), (END, {}, 200)]),
    "was not dispatched": (False, [(BEGIN, {}, 400), (END, {}, 400)]),
    "ends without a beginning": (True, [(END, {}, 400), (BEGIN, {}, 200), (END, {}, 200)]),
    "begins twice": (True, [(BEGIN, {}, 200), (BEGIN, {}, 400), (END, {}, 200)]),
    "ends twice": (True, [(BEGIN, {}, 200), (END, {}, 200), (END, {}, 400)]),
    "begins after its end": (True, [(BEGIN, {}, 200), (END, {}, 200), (BEGIN, {}, 400)]),
    "is run again": (True, [(BEGIN, {}, 200), (END, {}, 200), (BEGIN, AGAIN, 200), (END, AGAIN, 200)]),
    "has two legs of one name": (True, [(BEGIN, {}, 200), (BEGIN, {"check_run_id": "2"}, 400)]),
    "has legs of two names": (
        True,
        [(BEGIN, {}, 200), (BEGIN, {"job_name": "b", "check_run_id": "2"}, 200), (END, {}, 200)],
    ),
    "is no state": (True, [("queued", {}, 400), (BEGIN, {}, 200)]),
}


@pytest.mark.parametrize("name", WALKS)
def test_each_walk_of_a_pull_request_through_its_states(relay: Hub, name: str) -> None:
    dispatched, steps = WALKS[name]
    number = 3000 + list(WALKS).index(name)
    delivery = f"delivery-{number}"
    if dispatched:
        assert relay.post({"delivery_id": delivery}, "/api/dispatch").status_code == 200
    for status, changes, expected in steps:
        content = callback(number, status=status, **changes)
        answer = relay.post(of_pull_request(content, 7, delivery))
        assert answer.status_code == expected, answer.text
        assert expected != 200 or answer.json() == {"ok": True, "status": status}


def test_a_nightly_twice_changes_nothing_and_a_later_one_corrects_it(relay: Hub) -> None:
    content = callback(4000, job_name="twice")

    def rows() -> list[dict[str, Any]]:
        return [row for row in relay.runs() if row["job_name"] == "twice"]

    assert relay.post(content).status_code == 200
    first = rows()
    assert relay.post(content).status_code == 200
    assert rows() == first
    counts = {"passed": 1, "failed": 2, "skipped": 3, "total": 6}
    assert relay.post(changed(content, "workflow.test_results", counts)).status_code == 200
    (row,) = rows()
    assert [row[f"{one}_tests"] for one in counts] == [1, 2, 3, 6]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of the history that pages are read of; what each of its tests came to, by name."""

    run: int
    lane: str
    hours_ago: float
    tests: Mapping[str, str]
    attempt: int = 1
    pull: int = 0
    begun_only: bool = False
    card: str = "card0"

    @property
    def counts(self) -> dict[str, int]:
        said = Counter(self.tests.values())
        return {
            "passed": said[OK],
            "failed": said[FAILED],
            "skipped": said[SKIPPED],
            "total": len(self.tests),
        }

    @property
    def conclusion(self) -> str:
        if self.begun_only:
            return ""
        return "failure" if self.counts["failed"] else "success"


def outcomes(text: str) -> dict[str, str]:
    """`+` a test that passed, `-` one that failed, `s` a skipped one, as many as there are letters."""
    return {f"test_{number}": {"+": OK, "-": FAILED, "s": SKIPPED}[one] for number, one in enumerate(text)}


HISTORY = [
    Job(run=11, lane="spyre-a", hours_ago=30, tests=outcomes("+++-s")),
    Job(run=12, lane="spyre-a", hours_ago=6, tests=outcomes("+--+s")),
    Job(run=12, lane="spyre-a", hours_ago=5, tests=outcomes("+++-s+"), attempt=2),
    Job(run=13, lane="spyre-b", hours_ago=4, tests=outcomes("++++"), card="card1"),
    Job(run=14, lane="spyre-pr", hours_ago=3, tests=outcomes("++-"), pull=17, card="card1"),
    Job(run=15, lane="spyre-pr", hours_ago=2, tests={}, pull=18, begun_only=True),
]
# Attempts that a later one replaced are left out of what is counted.
NEWEST = [job for job in HISTORY if (job.run, job.attempt) != (12, 1)]


def report_job(hub: Hub, job: Job) -> None:
    """Report a job as its CI would, and send its tests' JUnit after it."""
    content = callback(
        job.run, hours_ago=job.hours_ago, job_name=job.lane, run_attempt=job.attempt,
        check_run_id=f"{job.run}{job.attempt}", conclusion=job.conclusion, test_results=job.counts,
    )  # fmt: skip
    if job.pull:
        content = of_pull_request(content, job.pull, f"dispatch-{job.pull}")
        assert hub.post({"delivery_id": content["delivery_id"]}, "/api/dispatch").status_code == 200
        begun = changed(changed(content, "workflow.status", BEGIN), "workflow.conclusion", None)
        assert hub.post(changed(begun, "workflow.test_results", GONE)).status_code == 200
        if job.begun_only:
            return
    assert hub.post(content).status_code == 200
    send_junit(hub, job)


def case_of(job: Job, name: str) -> str:
    """A test as our own JUnit has it, with its id and its card."""
    told = f'<properties><property name="id" value={quoteattr(f"test_a.py::TestA::{name}")}/></properties>'
    begin = f'<testcase classname="TestA" name={quoteattr(name)} file="test_a.py" time="2">'
    return f"{begin}{told}{job.tests[name]}<system-out>card: {job.card}</system-out></testcase>"


def send_junit(hub: Hub, job: Job) -> None:
    """Send JUnit to a job that was reported."""
    (row,) = [
        one
        for one in hub.get("/api/runs?limit=1000")["runs"]
        if (one["run_id"], one["run_attempt"]) == (str(job.run), job.attempt)
    ]
    cases = "".join(map(partial(case_of, job), job.tests))
    query = f"workflow_id={job.run}&workflow_run_attempt={job.attempt}&job_id={row['job_id']}&name=all.xml"
    body = gzip.compress(f"<testsuite>{cases}</testsuite>".encode())
    answer = hub.post(body, f"/api/upload/junit?{query}")
    stored = {"ok": True, "sent": len(job.tests), "stored": len(job.tests), "unchanged": ""}
    assert answer.json() == stored, answer.text
    again = hub.post(body, f"/api/upload/junit?{query}").json()
    assert (again["stored"], bool(again["unchanged"])) == (len(job.tests), True)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A server that was told of the history."""
    for hub in serve(tmp_path_factory):
        for job in HISTORY:
            report_job(hub, job)
        yield hub


def row_of(hub: Hub, job: Job) -> dict[str, Any]:
    (found,) = [one for one in hub.runs() if one["run_id"] == str(job.run)]
    return found


def test_the_read_api_tells_each_run_with_its_counts(told: Hub) -> None:
    assert told.get("/api/runs?limit=1000")["total"] == len(told.runs()) == len(NEWEST)
    for job in NEWEST:
        row = row_of(told, job)
        assert (row["job_name"], row["run_attempt"], row["conclusion"], row["pr_number"]) == (
            job.lane, job.attempt, job.conclusion, job.pull,
        )  # fmt: skip
        assert (row["downstream_repo"], row["status"]) == (REPOSITORY, BEGIN if job.begun_only else END)
        counts = {name: row[f"{name}_tests"] for name in ("passed", "failed", "skipped", "total")}
        assert counts == (job.counts if not job.begun_only else dict.fromkeys(counts, 0))
        assert told.get(f"/api/runs/{row['id']}")["run"] == row


def test_the_read_api_tells_a_runs_tests_by_name_and_verdict(told: Hub) -> None:
    for job in NEWEST:
        if job.begun_only:
            continue
        number = row_of(told, job)["id"]
        tests = told.get(f"/api/runs/{number}/tests?limit=1000")
        verdicts = {one["test_id"].rpartition("::")[2]: one["verdict"] for one in tests["tests"]}
        words = {OK: "passed", FAILED: "failed", SKIPPED: "skipped"}
        assert verdicts == {name: words[said] for name, said in job.tests.items()}
        assert tests["total"] == len(job.tests)
        problems = told.get(f"/api/runs/{number}/failures")["problems"]
        assert sum(one["tests"] for one in problems) == job.counts["failed"]


def test_two_runs_are_compared_test_by_test(told: Hub) -> None:
    before, after = row_of(told, NEWEST[0])["id"], row_of(told, NEWEST[1])["id"]
    # `+++-s` became `+++-s+`.
    found = told.get(f"/api/compare?before={before}&after={after}")
    assert found["both"] == 5
    assert {name: count for name, count in found["counts"].items() if count} == {
        "appeared": 1,
        "still failing": 1,
    }


def bad(job: Job) -> bool:
    return job.counts["failed"] > 0


def pages_of_history() -> dict[str, list[str]]:
    """Each page and what it has to say of the history, counted here."""
    ended = [job for job in NEWEST if not job.begun_only]
    green = sum(not bad(job) for job in ended)
    counts = [Counter(job.counts) for job in ended]
    good, wrong = (sum(one[name] for one in counts) for name in ("passed", "failed"))
    share = f"{100 * green / len(ended):.0f} %"
    runs = [f"1 to {len(NEWEST)} of {len(NEWEST)}", "Nightly / spyre-a, attempt 2", "none"]
    for job in ended:
        told = (f"{job.counts[name]} {name}" for name in ("passed", "failed", "skipped") if job.counts[name])
        runs.append(" ".join(told))
    return {
        "/": [f"{share} of {len(ended)} completed jobs succeeded", "F F S F"],
        "/runs": runs,
        "/grid": [
            f"Commits 1 to {len(NEWEST)} of {len(NEWEST)}",
            "#17",
            "#18",
            *(job.lane for job in NEWEST),
        ],
        "/tests": ["No test was flaky"],
        "/tests?verdict=failed": [
            "2 tests that were failed",
            "test_a.py::TestA::test_3 1 of 3 outcomes good 2 1",
            "test_2 3 of 3 outcomes good 1 1",
        ],
        "/durations": [f"Of {len(ended)} completed jobs", f"{len(ended)} 3 min 00 s 3 min 00 s"],
        "/cards": ["2 cards", "(2) 11", "(1) 7"],
        "/rollout": ["No run recorded how many tests are in scope"],
        "/metrics": [
            f"{green} of {len(ended)} completed",
            f"{good} of {good + wrong}",
            f"of {len(ended)} commits",
        ],
        "/compare": [f"newest {len(NEWEST)} runs"],
    }


@pytest.mark.parametrize("path", pages_of_history())
def test_every_page_says_what_it_should(told: Hub, path: str) -> None:
    page = told.page(path)
    assert [one for one in pages_of_history()[path] if one not in page.text] == [], page.text
    assert TAGS_OF_CODE & set(page.tags) == set()


def test_the_pages_of_a_run_have_its_counts_and_tests(told: Hub) -> None:
    for job in NEWEST:
        number = row_of(told, job)["id"]
        page = told.page(f"/runs/{number}").text
        if job.begun_only:
            assert "running" in page
            continue
        assert f"Tests reported {len(job.tests)}" in page
        for name in ("passed", "failed", "skipped"):
            assert not job.counts[name] or f"{name.capitalize()} {job.counts[name]}" in page
        tests = told.page(f"/runs/{number}/tests").text
        assert f"Tests 1 to {len(job.tests)} of {len(job.tests)}" in tests
        assert all(f"test_a.py::TestA::{name}" in tests for name in job.tests)
    history = told.page("/test?id=test_a.py::TestA::test_3").text
    assert "test_a.py::TestA::test_3" in history
    before, after = (row_of(told, job)["id"] for job in NEWEST[:2])
    compared = told.page(f"/compare?before={before}&after={after}").text
    assert "5 tests in both" in compared
    assert "Appeared 1" in compared
    assert "Still failing 1" in compared


def test_what_is_not_there_is_a_404_for_people_and_machines(told: Hub) -> None:
    for path, status in (("/runs/999999", 404), ("/runs/x", 422), ("/test", 422), ("/nothing", 404)):
        for kind in ("text/html", "application/json"):
            answer = requests.get(told.url + path, headers={"Accept": kind}, timeout=TIMEOUT_S)
            assert answer.status_code == status, path
    assert requests.post(f"{told.url}/api/runs", timeout=TIMEOUT_S).status_code == 405


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</title></style></textarea><script src=//evil.example></script>",
    "{{ 7*7 }}{% raw %}${7*7}",
    "' OR 1=1; DROP TABLE test_run; --",
    "\u202egnp.exe\u2066",
    "x" * 3000,
)


@pytest.mark.gate
def test_hostile_text_is_text_on_every_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    for hub in serve(tmp_path_factory):
        for number, text in enumerate(HOSTILE, start=1):
            tests = {text: f"<failure message={quoteattr(text)}>{quoteattr(text)}</failure>"}
            content = callback(
                number, name=f"w{text}", job_name=text, url=text, artifact_url=text, conclusion=text,
                check_run_id=f"{text}{number}",
            )  # fmt: skip
            assert hub.post(content).status_code == 200
            send_junit(hub, Job(run=number, lane=text, hours_ago=1, tests=tests))
        rows = hub.runs()
        assert [row["job_name"] for row in rows][::-1] == list(HOSTILE)
        paths = [*PAGES, "/tests?verdict=failed"]
        paths += [f"/runs/{row['id']}{part}" for row in rows for part in ("", "/tests")]
        paths += [f"/compare?before={rows[0]['id']}&after={rows[1]['id']}"]
        for path in paths:
            page = hub.page(path)
            assert TAGS_OF_CODE & set(page.tags) == set(), path
            assert not [one for one in page.addresses if one.lower().startswith(("javascript:", "//"))], path
            # Of a time 49 may be the minute.
            assert "7*7" in page.text or not re.search(r"(?<![\d:-])49(?![\d:])", page.text)
        shown = hub.page("/runs").text
        assert all(text in shown for text in HOSTILE[:2])


@pytest.mark.gate
def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    desk = make_desk(tmp_path)
    with serving(desk) as hub:
        assert hub.post(callback(1)).status_code == 200
        hub.process.kill()
    with serving(desk) as hub:
        assert [row["run_id"] for row in hub.runs()] == ["1"]
    # Ctrl-C is how it ends, and no fault.
    assert hub.process.returncode == 0


@pytest.mark.gate
def test_reading_takes_a_token_where_one_is_set(tmp_path: Path) -> None:
    desk = make_desk(tmp_path, "hud: {read_token: read.secret}\n")
    desk.write("read.secret", "a-token-for-reading-of-enough-length\n")
    with serving(desk) as hub:
        for token, status in (("", 401), ("wrong", 401), ("a-token-for-reading-of-enough-length", 200)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = requests.get(f"{hub.url}/api/runs", headers=headers, timeout=TIMEOUT_S)
            assert answer.status_code == status
        assert hub.post(callback(1)).status_code == 200


def test_a_port_that_is_taken_is_said(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = desk.call("hud", "serve", "--port", str(taken.getsockname()[1]), code=None)
    assert said.code not in {0, 1}
    assert "cannot listen" in said.err
