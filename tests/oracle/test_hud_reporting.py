"""A run's report on its way: what the relay gets, what becomes of it where the relay fails, rows of JUnit."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.github_api import TOKEN as GITHUB_TOKEN
from tests.github_api import GitHubApi, Repository
from tests.oracle.conftest import TREE, Desk, make_desk
from tests.stand_in import Answer, Fault, Seen, StandIn

Golden = Callable[[str, str], None]
TOKEN = "a-token-that-nobody-may-see"
# Of the tests in the file: three pass, four fail, one is skipped and one fails as expected.
WORDS = ("--percent", "100", "--files", "test_outcomes.py", "--cards", "1", "--retries", "0", "--seed", "7")
COUNTS = {"passed": 3, "failed": 4, "skipped": 2, "total": 9}
EVENT = {
    "action": "pull_request",
    "client_payload": {
        "event_type": "pull_request",
        "delivery_id": "72d3162e-cc78",
        "payload": {
            "action": "opened",
            "pull_request": {"number": 7, "head": {"sha": "a" * 40}, "title": "<b>\u202e"},
            "repository": {"full_name": "pytorch/pytorch"},
        },
    },
}


@dataclass(kw_only=True)
class Wrong(Fault):
    """An answer that is no success, or what else happens to a request."""

    code: int
    said: str


class Relay(StandIn[Wrong]):
    """A stand-in of the relay: takes all reports, but those that it is told to treat otherwise."""

    def then(self, *steps: int | str | tuple[int, str]) -> None:
        """Do this to the next requests, one each: a status, with what is said or without, or a fault."""
        for step in steps:
            code, said = (
                step if isinstance(step, tuple) else (step, "no") if isinstance(step, int) else (0, "")
            )
            kind = step if isinstance(step, str) else "status"
            self.faults.append(
                Wrong(
                    kind=kind, method="", path="", times=1, taken=False, seconds=20, code=code, said=said
                )
            )  # fmt: skip

    def answer(self, seen: Seen) -> Answer:
        if seen.path.startswith("/api/dispatch"):
            return Answer(body={"ok": True})
        if "status" not in seen.body.get("workflow", {}):
            return Answer(status=400, body={"detail": "no callback"})
        self.taken.append(seen.body)
        return Answer(body={"ok": True, "status": seen.body["workflow"]["status"]})

    def refusal(self, fault: Wrong) -> Answer:
        if fault.code == 200:
            return Answer(body={"ok": True, "status": fault.said})
        return Answer(status=fault.code, body={"detail": fault.said})

    def read(self, raw: bytes) -> Any:
        return json.loads(raw) if raw else {}

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[dict[str, Any]] = []


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay() as server:
        yield server


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a run whose report went nowhere."""
    base = tmp_path_factory.mktemp("ran")
    made = make_desk(base, stand_in=True)
    shutil.copytree(TREE, base / "pytorch")
    made.call("pytorch", "--pytorch-src", "../pytorch", *WORDS, code=1)
    return made


@pytest.fixture
def here(ran: Desk, tmp_path: Path) -> Desk:
    """A copy of it, for a test of its own."""
    shutil.copytree(ran.folder.parent, tmp_path / "base")
    return replace(ran, folder=tmp_path / "base" / "desk")


def told(relay: Relay, **more: str) -> dict[str, str]:
    """The environment of somebody who reports to that relay, and does not wait long."""
    return {
        "SPYRE_CI__REPORT__ENDPOINT": relay.url,
        "SPYRE_CI_HUD_TOKEN": TOKEN,
        "SPYRE_CI__REPORT__TIMEOUT_S": "2",
        "SPYRE_CI__REPORT__BUDGET_S": "0.5",
        **more,
    }


def pull_request(desk: Desk) -> dict[str, str]:
    """The environment of a GitHub job that the relay dispatched."""
    path = desk.write("event.json", EVENT)
    return {
        "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "987", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "pytorch",
        "GITHUB_WORKFLOW": "upstream", "GITHUB_EVENT_NAME": "repository_dispatch",
        "GITHUB_REPOSITORY": "torch-spyre/torch-spyre", "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_EVENT_PATH": str(path), "SPYRE_CI_CHECK_RUN_ID": "53211",
        "GITHUB_OUTPUT": str(desk.folder / "output"),
    }  # fmt: skip


def waiting(desk: Desk, box: str = "outbox") -> list[Path]:
    """The reports that wait, of its only run."""
    return sorted((desk.runs()[0] / box).glob("*.json"))


def outcome(desk: Desk) -> str:
    return str(desk.read(desk.runs()[0] / "hud.json")["outcome"])


def shows_token(desk: Desk, *texts: str) -> bool:
    """Whether the token stands in a text, or in a file of the desk."""
    files = (path for path in desk.folder.parent.rglob("*") if path.is_file())
    return any(TOKEN in one for one in texts) or any(TOKEN.encode() in path.read_bytes() for path in files)


def tame(body: dict[str, Any]) -> str:
    """A report without what differs by moment and machine; numbers may be texts, as HUD wants them."""
    text = json.dumps(body, indent=1, sort_keys=True)
    for pattern, name in (
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
        (r"\d{8}-\d{6}-cpu-100pct", "<run>"),
        (r'("first_failure_seconds"): [\d.]+', r"\1: <seconds>"),
        (r'("\w*seconds"): [\d.]+', r"\1: <seconds>"),
        (r"2\.13\.0\+sha256\.[0-9a-f]+", "<sha of the tree>"),
        (r'("run_id"): "?\d+"?', r'\1: "<run id>"'),
        (r'("check_run_id"): "\d{5,}-1-[0-9a-f]+"', r'\1: "<check run>"'),
    ):
        text = re.sub(pattern, name, text)
    return f"{text}\n"


def test_the_relay_gets_a_nightly_once_as_the_contract_has_it(
    here: Desk, relay: Relay, golden: Golden
) -> None:
    said = here.call("report", "latest", code=1, **told(relay))
    (seen,) = relay.seen
    assert (seen.method, seen.path) == ("POST", "/github/callback")
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["content-type"].startswith("application/json")
    workflow = seen.body["workflow"]
    assert (workflow["status"], workflow["conclusion"]) == ("completed", "failure")
    assert workflow["test_results"] == COUNTS
    assert seen.body["delivery_id"] == seen.body["payload"]["head_sha"]
    assert workflow["job_name"]
    assert ":" not in workflow["job_name"]
    golden("oracle/hud/nightly.json", tame(seen.body))
    assert (outcome(here), waiting(here)) == ("delivered", [])
    assert not shows_token(here, said.out, said.err)
    # The same account once more is no other report.
    here.call("report", "latest", code=1, **told(relay))
    here.call("hud", "send", "latest", code=0, **told(relay))
    assert len(relay.seen) == 1


@pytest.mark.gate
def test_a_dispatched_run_tells_its_begin_and_its_end(tmp_path: Path, relay: Relay, golden: Golden) -> None:
    desk = make_desk(tmp_path, stand_in=True)
    shutil.copytree(TREE, tmp_path / "pytorch")
    environ = told(relay) | pull_request(desk)
    said = desk.call("pytorch", "--pytorch-src", "../pytorch", *WORDS, code=1, **environ)
    begun, ended = relay.taken
    for body in (begun, ended):
        assert {key: body[key] for key in EVENT["client_payload"]} == EVENT["client_payload"]
        workflow = body["workflow"]
        assert (str(workflow["run_id"]), workflow["run_attempt"], workflow["check_run_id"]) == (
            "987", 2, "53211",
        )  # fmt: skip
    assert [body["workflow"]["status"] for body in (begun, ended)] == ["in_progress", "completed"]
    assert (ended["workflow"]["conclusion"], ended["workflow"]["test_results"]) == ("failure", COUNTS)
    golden("oracle/hud/pull-request.json", tame(begun) + tame(ended))
    assert (desk.folder / "output").read_text().splitlines() == ["hud_outcome=delivered"] * 2
    assert not shows_token(desk, said.out, said.err)


# What the relay does, the time that may be spent, and how many requests that makes (0: any number).
FAULTS: dict[str, tuple[int | str | tuple[int, str], str, int]] = {
    "400": ((400, "callback rejected: x"), "20", 1),
    # What a server says back is not always for everybody.
    "401": ((401, f"no such token: {TOKEN}"), "20", 1),
    "403": (403, "20", 1),
    "413": (413, "20", 1),
    "ignored": ((200, "ignored"), "20", 1),
    # Waiting a minute is more than the time there is, and nobody asks again before.
    "429": (429, "0.5", 1),
    "500": (500, "0.5", 0),
    "503": (503, "0.5", 0),
    "cut": ("cut", "0.5", 0),
    "hang": ("hang", "0.5", 0),
}


@pytest.mark.parametrize(
    "name",
    # A flush waits out the minute of a 429.
    [pytest.param(name, marks=pytest.mark.nightly if name == "429" else pytest.mark.gate) for name in FAULTS],
)
def test_whatever_the_relay_does_the_run_ends_as_it_did_and_a_flush_delivers_once(
    here: Desk, relay: Relay, name: str
) -> None:
    step, budget, requests = FAULTS[name]
    relay.then(*[step] * 9)
    environ = told(relay, SPYRE_CI__REPORT__BUDGET_S=budget)
    said = here.call("report", "latest", code=1, **environ)
    assert (outcome(here), len(waiting(here)), relay.taken) == ("left", 1, [])
    assert "NOT reported" in said.out + said.err
    assert "spyre-ci hud send" in said.out + said.err
    assert requests in {0, len(relay.seen)}
    assert not shows_token(here, said.out, said.err)
    relay.faults.clear()
    here.call("hud", "send", "latest", code=0, **environ)
    assert [body["workflow"]["test_results"] for body in relay.taken] == [COUNTS]
    assert (outcome(here), waiting(here)) == ("delivered", [])
    seen = len(relay.seen)
    here.call("hud", "send", "latest", code=0, **environ)
    assert len(relay.seen) == seen


def test_an_endpoint_that_is_down_leaves_an_outbox(here: Desk, relay: Relay) -> None:
    down = told(relay, SPYRE_CI__REPORT__ENDPOINT="http://127.0.0.1:1")
    here.call("report", "latest", code=1, **down)
    assert (outcome(here), len(waiting(here))) == ("left", 1)
    relay.then(403)
    said = here.call("hud", "send", "latest", "--json", code=3, **told(relay))
    assert said.json["outcome"] == "left"
    assert len(said.json["report"]["left"]) == 1
    assert here.call("hud", "send", "latest", "--json", code=0, **told(relay)).json["outcome"] == "delivered"
    assert len(relay.taken) == 1


@pytest.mark.gate
def test_a_relay_that_is_over_its_limit_is_asked_once(here: Desk, relay: Relay) -> None:
    relay.then(429, 429, 429)
    here.call("report", "latest", code=1, **told(relay))
    assert (len(relay.seen), outcome(here), len(waiting(here))) == (1, "left", 1)


@pytest.mark.gate
def test_a_fault_that_passes_is_waited_out_and_the_report_is_the_same(here: Desk, relay: Relay) -> None:
    relay.then(503, "cut")
    here.call("report", "latest", code=1, **told(relay, SPYRE_CI__REPORT__BUDGET_S="30"))
    assert outcome(here) == "delivered"
    assert len(relay.seen) == 3
    assert all(one.body == relay.seen[0].body for one in relay.seen)
    assert len(relay.taken) == 1


@pytest.mark.gate
def test_a_state_that_was_stored_behind_a_500_is_told_as_possibly_lost(here: Desk, relay: Relay) -> None:
    relay.then(500, (400, "callback rejected: invalid state transition delivery_id=x"))
    environ = told(relay, SPYRE_CI__REPORT__BUDGET_S="30") | pull_request(here)
    said = here.call("report", "latest", code=1, **environ)
    assert "row possibly lost" in said.out + said.err
    # The begin went into the state that the relay has; the end is sent all the same.
    assert [body["workflow"]["status"] for body in relay.taken] == ["completed"]
    assert waiting(here) == []


def test_without_a_token_nothing_is_sent_and_the_report_waits(here: Desk, relay: Relay) -> None:
    said = here.call("report", "latest", code=1, **told(relay, SPYRE_CI_HUD_TOKEN=""))
    assert (relay.seen, len(waiting(here))) == ([], 1)
    assert "SPYRE_CI_HUD_TOKEN" in said.out + said.err


def test_the_token_goes_to_no_address_that_a_settings_file_alone_gives(here: Desk, relay: Relay) -> None:
    here.write("spyre-ci.yaml", f"report: {{endpoint: '{relay.url}', own_server: true}}\n")
    environ = {key: value for key, value in here.environ.items() if key != "SPYRE_CI__REPORT__ENDPOINT"}
    desk = replace(here, environ=environ)
    desk.call("report", "latest", code=1, SPYRE_CI_HUD_TOKEN=TOKEN)
    assert (relay.seen, len(waiting(desk))) == ([], 1)


@pytest.fixture
def github() -> Iterator[GitHubApi]:
    """GitHub with a workflow that reports for a CI that the relay does not know."""
    with GitHubApi() as api:
        text = "on: {workflow_dispatch: {inputs: {report: {required: true}}}}\njobs: {}\n"
        repository = Repository(branches={"main": "a" * 40}, workflows={"hud-report.yml": text})
        api.repositories["our/repo"] = repository
        yield api


@pytest.mark.gate
def test_a_report_that_is_handed_to_github_arrives_where_it_is_forwarded(
    here: Desk, relay: Relay, github: GitHubApi
) -> None:
    environ = {
        "SPYRE_CI_GITHUB_TOKEN": GITHUB_TOKEN,
        "SPYRE_CI__REPORT__DISPATCH__API": github.url,
        "SPYRE_CI__REPORT__DISPATCH__REPOSITORY": "our/repo",
    }
    github.fail("status", method="POST", path="dispatches", status=422, message="No ref found for: main")
    said = here.call("hud", "send", "latest", "--json", code=3, **environ)
    assert said.json["report"]["left"][0]["outcome"] == "refused"
    assert here.call("hud", "send", "latest", "--json", code=0, **environ).json["outcome"] == "dispatched"
    here.call("hud", "send", "latest", code=0, **environ)
    # The one that was refused, and one that was not.
    asked = github.asked("POST", "/dispatches$")
    assert len(asked) == 2
    assert (asked[-1].body["ref"], list(asked[-1].body["inputs"])) == ("main", ["report"])
    assert GITHUB_TOKEN not in said.out + said.err
    handed = asked[-1].body["inputs"]["report"]
    relay.then(403)
    forwarding = told(relay, SPYRE_CI_REPORT=handed)
    assert here.call("hud", "send", "--json", code=3, **forwarding).json["outcome"] == "left"
    assert here.call("hud", "send", "--json", code=0, **forwarding).json["outcome"] == "delivered"
    assert relay.taken == [json.loads(handed)]
    assert relay.taken[0]["workflow"]["test_results"] == COUNTS
    for wrong in ("$(id)", "", json.dumps({"event_type": "nightly"})):
        here.call("hud", "send", code=2, **told(relay, SPYRE_CI_REPORT=wrong))
    assert len(relay.taken) == 1


JUNIT = {
    "pytest": (
        '<testsuites><testsuite name="pytest"><testcase classname="test_a.TestA" name="test_x" time="0.5"/>'
        '<testcase classname="test_a.TestA" name="test_y" time="1"><failure message="1 != 2">at</failure>'
        '</testcase><testcase classname="test_a.TestA" name="test_z" time="0">'
        '<skipped type="pytest.skip" message="no card">a.py:1</skipped></testcase></testsuite></testsuites>'
    ),
    "unittest-xml-reporting": (
        '<testsuites><testsuite name="A" file="test_b.py"><testcase classname="test_b.A" name="test_x" '
        'time="2"><error type="OSError">disk on fire</error></testcase></testsuite></testsuites>'
    ),
    "googletest": (
        '<testsuites><testsuite name="S"><properties><property name="a" value="1"/><property name="b" '
        'value="2"/></properties><testcase classname="S" name="x" status="run" time="3"><failure/>'
        "</testcase></testsuite></testsuites>"
    ),
}


def rows_in(folder: Path, desk: Desk, key: str) -> dict[str, list[dict[str, Any]]]:
    names = ("test_run", "test_run_summary", "failed_test_runs")
    for name in names:
        packed = folder / name / key
        packed.rename(packed.with_name(f"{packed.name}.jsonl.gz"))
    return {name: desk.read(folder / name / f"{key}.jsonl.gz") for name in names}


def test_junit_of_any_runner_becomes_the_rows_of_the_contract(desk: Desk) -> None:
    for name, text in JUNIT.items():
        desk.write(f"reports/{name}.xml", text)
    words = ("--run-id", "70", "--attempt", "2", "--check-run-id", "99", "--to", "rows", "--json")
    said = desk.call("hud", "rows", "reports", *words)
    numbers = said.json["job"]
    assert numbers == {"workflow_id": 70, "workflow_run_attempt": 2, "job_id": 99}
    assert {Path(path).parts[-3]: count for path, count in said.json["files"].items()} == {
        "test_run": 5, "test_run_summary": 3, "failed_test_runs": 3,
    }  # fmt: skip
    rows = rows_in(desk.folder / "rows", desk, "70/2")
    cases = {(row["classname"], row["name"]): row for row in rows["test_run"]}
    assert len(cases) == 5
    assert all(numbers.items() <= row.items() for row in [*rows["test_run"], *rows["test_run_summary"]])
    assert cases["test_a.TestA", "test_x"]["time"] == 0.5
    # A failure without a message counts as passed at HUD.
    wrong = [row.get("failure") or row.get("error") for row in cases.values()]
    assert sum(one is not None for one in wrong) == 3
    assert all("message" in one for one in wrong if one is not None)
    assert cases["test_a.TestA", "test_y"]["failure"]["message"] == "1 != 2"
    assert cases["test_a.TestA", "test_z"]["skipped"]["message"] == "no card"
    assert rows["failed_test_runs"] == [row for row in rows["test_run"] if {"failure", "error"} & set(row)]
    sums = {
        name: sum(row[name] for row in rows["test_run_summary"]) for name in ("tests", "failures", "errors")
    }
    assert sums == {"tests": 5, "failures": 2, "errors": 1}
    # More than one property has HUD refuse the whole file.
    text = json.dumps(rows["test_run"])
    assert text.count('"property"') == 0


def results_of(desk: Desk) -> list[dict[str, Any]]:
    return [one for one in desk.read(desk.runs()[0] / "results.jsonl.gz") if "id" in one]


def test_the_rows_of_a_run_are_its_tests(here: Desk) -> None:
    run = here.runs()[0]
    number = here.read(run / "summary.json")["identity"]["run_id"]
    here.call("hud", "rows", run, "--to", "rows")
    rows = rows_in(here.folder / "rows", here, f"{number}/1")
    ran = {one["id"].rpartition("::")[2]: one["verdict"] for one in results_of(here)}
    assert len(rows["test_run"]) == len(ran) == COUNTS["total"]
    assert len(rows["failed_test_runs"]) == COUNTS["failed"]
    for row in rows["test_run"]:
        verdict = ran[row["name"]]
        assert ("failure" in row, "skipped" in row) == (
            verdict == "failed",
            verdict in {"skipped", "xfailed"},
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<testsuite/>", "no test case"),
        ('<testsuite><testcase name="a"/>', "incomplete XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><testsuite><testcase name="&b;"/></testsuite>', "entities"),
    ],
)
def test_what_is_no_junit_writes_nothing(desk: Desk, text: str, said: str) -> None:
    desk.write("reports/a.xml", text)
    assert said in desk.call("hud", "rows", "reports", "--run-id", "1", "--to", "rows", code=2).err
    assert not (desk.folder / "rows").exists()
