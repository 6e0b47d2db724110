"""A report of journals that hold every verdict: the same counts, to the digit, in each file that it makes."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conftest import Golden
from tests.oracle.conftest import Desk, make_desk
from tests.oracle.run_files import Json, fingerprint, row, write_catalog

RUN = "20260801-020000-cpu-100pct"
BEGUN = 1_785_549_600.0  # 2026-08-01, two o'clock in UTC
A, B = "test_a.py::TestA::test_", "test_b.py::TestB::test_"
# Of each test its verdict, its cause, how often it ran and the shard that told of it.
EXPECTED: dict[str, tuple[str, str | None, int, int]] = {
    f"{A}passed": ("passed", None, 1, 0),
    f"{A}passed_too": ("passed", None, 1, 0),
    f"{A}failed": ("failed", None, 2, 0),
    f"{A}signal": ("failed", "signal", 1, 0),
    f"{A}hang": ("failed", "hang", 1, 0),
    f"{A}oom": ("failed", "oom", 1, 0),
    f"{A}exit": ("failed", "exit", 1, 0),
    f"{A}flaky": ("flaky", None, 2, 0),
    f"{B}skipped[dtype=float16,op=add]": ("skipped", None, 1, 1),
    f"{B}xfailed": ("xfailed", None, 1, 1),
    f"{B}xpassed": ("xpassed", None, 1, 1),
    f"{B}hardware": ("hardware", "hardware", 1, 1),
    f"{B}hardware_and_then_passed": ("hardware", None, 2, 1),
    f"{B}infrastructure": ("infrastructure", None, 1, 1),
    f"{B}given_up": ("not_run", None, 0, 1),
    f"{B}untold": ("not_run", None, 0, 1),
}
HOLES = {"hardware", "infrastructure", "not_run"}


SELECTION: Json = {"schema": "spyre-ci/selection/1", "stage": None, "percent": 100}
PLAN: Json = {
    "schema": "spyre-ci/plan/1", "bound_s": 9.0, "makespan_s": 9.0, "binds": "balance", "seed": 7,
}  # fmt: skip
IDENTITY: Json = {
    "schema": "spyre-ci/run/1", "run": RUN, "run_id": 4242, "run_attempt": 1, "device": "cpu",
    "pytorch_version": "2.13.0", "pytorch_sha": "0123456789abcdef0123456789abcdef01234567", "stage": None,
    "percent": 100.0, "started_at": "2026-08-01T02:00:00.000Z", "lane": "nightly-pinned",
    "job_name": "tests", "workflow": "Nightly", "url": "", "provider": "none", "commit": "",
    "back_end": "cpu", "image": "", "restricted": "", "seed": None,
    "reproduce": ["spyre-ci", "pytorch", "--pytorch-src", "pytorch", "--device", "cpu"],
}  # fmt: skip


def line_of(event: Json) -> str:
    """A journal's line with its checksum."""
    body = json.dumps(event, separators=(",", ":"))[:-1]
    return f'{body},"c":"{zlib.crc32(body.encode()):08x}"}}\n'


class Journal:
    """A journal that is written by hand, an event a second."""

    def __init__(self, shard: int, card: str, mark: str, tests: int) -> None:
        self.now, self.lines = BEGUN + shard, list[str]()
        self.tell(
            "shard_start", shard=shard, attempt=1, card=card, host="host-1", boot="b", pid=1, planned=tests,
            fingerprint=mark, run=RUN, seed=7, threads=1, back_end="cpu", torch="2.13.0", image="",
            python="3.11", environ={},
        )  # fmt: skip

    def tell(self, kind: str, **more: object) -> None:
        self.now += 1
        self.lines.append(line_of({"t": self.now, "e": kind, **more}))

    def set_up(self, file: str, tests: int, why: str = "plan", attempt: int = 1) -> None:
        self.tell("group_start", file=file, tests=tests)
        self.tell("group_ready", file=file, setup_s=0.5)
        self.tell("piece", file=file, tests=tests, why=why, of=0, attempt=attempt)

    def ran(self, name: str, outcome: str, message: str = "", number: int = 1) -> None:
        self.begin(name, number)
        self.tell(
            "end", id=name, outcome=outcome, seconds=1.0, message=message, detail=message and f"E {message}"
        )

    def crashed(self, name: str, cause: str, message: str) -> None:
        self.begin(name)
        self.tell("crash", id=name, cause=cause, message=message, detail="", seconds=1.0)

    def begin(self, name: str, number: int = 1) -> None:
        self.tell("start", id=name, log=0, seed=11, **({"try": number} if number > 1 else {}))


def first_journal(mark: str, *, failures: bool) -> Journal:
    one = Journal(0, "cpu:0", mark, 8 if failures else 3)
    one.set_up("test_a.py", 8 if failures else 3)
    one.ran(f"{A}passed", "passed")
    one.ran(f"{A}passed_too", "passed")
    if failures:
        one.ran(f"{A}failed", "failed", "AssertionError: <1> is not & 2")
        for cause, said in (
            ("signal", "died by SIGSEGV"), ("hang", "took longer than 9 s and was ended"),
            ("oom", "ended by the out-of-memory killer"), ("exit", "ended its process with exit code 0"),
        ):  # fmt: skip
            one.crashed(f"{A}{cause}", cause, said)
            one.set_up("test_a.py", 1)
    one.ran(f"{A}flaky", "failed", "AssertionError: once")
    one.set_up("test_a.py", 2 if failures else 1, why="retry", attempt=2)
    if failures:
        one.ran(f"{A}failed", "failed", "AssertionError: <1> is not & 2", number=2)
    one.ran(f"{A}flaky", "passed", number=2)
    one.tell("shard_end", status="done")
    return one


def second_journal(mark: str, *, holes: bool) -> Journal:
    one = Journal(1, "cpu:1", mark, 8 if holes else 3)
    one.set_up("test_b.py", 8 if holes else 3)
    one.ran(f"{B}skipped[dtype=float16,op=add]", "skipped", "not today")
    one.ran(f"{B}xfailed", "xfailed", "as declared")
    one.ran(f"{B}xpassed", "xpassed")
    if holes:
        one.crashed(f"{B}hardware", "hardware", "RAS::EMULATED::Fail")
        one.set_up("test_b.py", 4)
        one.ran(f"{B}hardware_and_then_passed", "hardware", "RAS::EMULATED::Fail")
        one.set_up("test_b.py", 1, why="retry", attempt=2)
        one.ran(f"{B}hardware_and_then_passed", "passed", number=2)
        one.begin(f"{B}infrastructure")
        one.tell("worker_lost", id=f"{B}infrastructure", message="the worker on cpu:1 died by SIGKILL")
        one.tell("not_run", ids=[f"{B}given_up"], message="its card is used no more")
    one.tell("shard_end", status="done")
    return one


def write_run(
    desk: Desk, names: Mapping[str, tuple[str, str | None, int, int]], *, error: bool = False
) -> Path:
    """A run's folder with these tests, as it is when its shards are done."""
    at = f"runs/{RUN}"
    errors = {"test_broken.py": "ImportError: x"} if error else {}
    write_catalog(desk, f"{at}/catalog.jsonl.gz", [row(name) for name in names], device="cpu", errors=errors)
    scope = {"in_scope": len(names), "out_of_scope": {}, "collect_errors": errors}
    desk.write(f"{at}/selection.json", {**SELECTION, **scope, "ids": sorted(names)})
    shards = [
        {"index": shard, "expected_s": 9.0, "groups": [{"file": file, "ids": ids}]}
        for shard, file in enumerate(("test_a.py", "test_b.py"))
        if (ids := sorted(name for name in names if name.startswith(file)))
    ]
    desk.write(f"{at}/plan.json", {**PLAN, "fingerprint": fingerprint(shards), "shards": shards})
    desk.write(f"{at}/run.json", IDENTITY)
    return desk.folder / at


def tell(desk: Desk, run: Path, *, holes: bool = True, failures: bool = True) -> None:
    """Write the journals of a run's two shards."""
    mark = desk.read(run / "plan.json")["fingerprint"]
    journals = (first_journal(mark, failures=failures), second_journal(mark, holes=holes))
    for shard, journal in enumerate(journals):
        desk.write(f"runs/{RUN}/journal/{shard}-1.jsonl", "".join(journal.lines))


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a run of every verdict, reported, also to the HUD's own store."""
    desk = make_desk(tmp_path_factory.mktemp("reported"))
    run = write_run(desk, EXPECTED, error=True)
    tell(desk, run)
    desk.call("report", RUN, code=3, SPYRE_CI__REPORT__ENDPOINT="embedded")
    return desk


def counted(names: Mapping[str, tuple[str, str | None, int, int]]) -> dict[str, int]:
    """How many tests come to each verdict, counted here."""
    return dict(Counter(verdict for verdict, *_ in names.values()))


def test_each_test_has_its_verdict_and_the_counts_add_up_in_every_file(reported: Desk) -> None:
    """Law 1, by id."""
    run = reported.folder / "runs" / RUN
    head, *rows = reported.read(run / "results.jsonl.gz")
    assert (head["schema"], head["planned"]) == ("spyre-ci/results/1", len(EXPECTED))
    told = {one["id"]: (one["verdict"], one.get("cause"), one["attempts"], one["shard"]) for one in rows}
    assert (told, len(rows)) == (EXPECTED, len(EXPECTED))
    summary = reported.read(run / "summary.json")
    counts = counted(EXPECTED)
    # Each of the nine is there, so that nothing below holds by being empty.
    assert set(counts) == set(summary["verdicts"])
    assert (summary["verdicts"], summary["planned"]) == (counts, len(EXPECTED))
    assert (summary["exit_code"], [one["file"] for one in summary["collect_errors"]]) == (
        3,
        ["test_broken.py"],
    )
    lines = (run / "summary.md").read_text().splitlines()
    for verdict, count in counts.items():
        assert f"| {verdict.replace('_', ' ')} | {count} |" in lines
    assert f"| **planned** | **{len(EXPECTED)}** |" in lines


def test_junit_has_every_test_once_with_what_readers_of_junit_redden_on(reported: Desk) -> None:
    elements = {
        "passed": None, "xpassed": None, "failed": "failure", "flaky": "rerun", "skipped": "skipped",
        "xfailed": "skipped", "hardware": "error", "infrastructure": "error", "not_run": "error",
    }  # fmt: skip
    found = {}
    for shard in (0, 1):
        file = reported.folder / "runs" / RUN / "junit" / f"{shard}.xml"
        (root,) = ET.parse(file).iter("testsuite")  # noqa: S314  # our own file
        assert int(root.get("tests", "")) == len(root.findall("testcase"))
        for kind in ("failure", "error", "skipped"):
            plural = {"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]
            assert int(root.get(plural, "")) == len(root.findall(f"testcase/{kind}"))
        for case in root.findall("testcase"):
            (identity,) = case.iter("property")
            outcomes = [one.tag for one in case if one.tag not in {"properties", "system-out"}]
            assert all(one.get("message") for one in case if one.tag in outcomes)
            found[identity.get("value")] = (shard, outcomes)
    assert found == {
        name: (
            shard,
            ["error"]
            if cause in {"signal", "hang", "oom", "exit"}
            else list(filter(None, [elements[verdict]])),
        )
        for name, (verdict, cause, _, shard) in EXPECTED.items()
    }


def test_the_page_names_every_problem_and_runs_nothing_of_it(reported: Desk) -> None:
    page = (reported.folder / "runs" / RUN / "report.html").read_text()
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for name, (verdict, *_) in EXPECTED.items():
        assert verdict in {"passed", "skipped", "xfailed", "xpassed"} or name in shown, name
    for verdict, count in counted(EXPECTED).items():
        assert f"{count} {verdict.replace('_', ' ')}" in shown
    assert "test_broken.py" in shown
    assert "AssertionError: <1>" not in page


def test_junit_summary_and_page_for_ci_are_as_they_were(reported: Desk, golden: Golden) -> None:
    """Nothing in them is of a machine or of the moment: the journals say when and where."""
    run = reported.folder / "runs" / RUN
    for name in ("summary.json", "summary.md", "junit/0.xml", "junit/1.xml"):
        golden(f"oracle/report/{Path(name).name}", (run / name).read_text())


@pytest.mark.gate
def test_reporting_again_changes_nothing_and_the_history_knows_the_run_once(reported: Desk) -> None:
    """Law 6."""
    run = reported.folder / "runs" / RUN
    # What was sent this time is told of this time; the server's own count is below.
    told_anew = {"hud.json", "delivered.json", "run.lock"}
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in told_anew]
    assert len(files) > 10
    before = {path: path.read_bytes() for path in files}
    for _ in range(2):
        reported.call("report", "latest", code=3, SPYRE_CI__REPORT__ENDPOINT="embedded")
    assert sorted(path.name for path in files if path.read_bytes() != before[path]) == []
    (device,) = reported.call("history", "show", "--json").json["devices"]
    assert (device["device"], device["runs"]) == ("cpu", 1)
    reported.call("history", "export", "--device", "cpu", "--out", "durations.json")
    seconds = reported.read("durations.json")["tests"]
    assert seconds[f"{A}passed"] == 1.0
    assert f"{B}untold" not in seconds


def ask(url: str) -> Any:
    answer = requests.get(url, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.gate
def test_the_hud_server_shows_the_same_counts(reported: Desk) -> None:
    with reported.start("hud", "serve", "--port", "0") as server:
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            url = re.search(r"http://[\w.:]+", said)
            assert url, said
            listed = ask(f"{url[0]}/api/runs")
            (job,) = listed["runs"]
            told = ask(f"{url[0]}/api/runs/{job['id']}/tests?limit=100")
            page = requests.get(f"{url[0]}/runs/{job['id']}", timeout=60).text
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.communicate(timeout=60)
    assert (listed["total"], job["total_tests"], job["conclusion"]) == (1, len(EXPECTED), "failure")
    assert (job["job_name"], job["run_id"], job["run_attempt"]) == ("tests (nightly-pinned)", "4242", 1)
    # HUD knows three: what has no pass of its own cannot pass as green there.
    three = (job["passed_tests"], job["failed_tests"], job["skipped_tests"])
    counts = counted(EXPECTED)
    assert three == (
        counts["passed"] + counts["flaky"] + counts["xpassed"],
        counts["failed"] + sum(counts[one] for one in HOLES),
        counts["skipped"] + counts["xfailed"],
    )
    assert json.loads(job["environment"])["verdicts"] == counts
    assert {one["test_id"]: one["verdict"] for one in told["tests"]} == {
        name: verdict for name, (verdict, *_) in EXPECTED.items()
    }
    for name, (verdict, *_) in EXPECTED.items():
        assert verdict not in HOLES | {"failed"} or name in page, name


@pytest.mark.gate
@pytest.mark.parametrize(
    ("left_out", "quarantined", "code"),
    [(HOLES, False, 1), (HOLES, True, 0), ({*HOLES, "failed"}, False, 0)],
    ids=["failures", "quarantined", "green"],
)
def test_what_is_left_decides_the_exit_code(
    desk: Desk, left_out: set[str], quarantined: bool, code: int
) -> None:
    names = {name: one for name, one in EXPECTED.items() if one[0] not in left_out}
    run = write_run(desk, names)
    tell(desk, run, holes=False, failures="failed" not in left_out)
    failed = [name for name, one in names.items() if one[0] == "failed"]
    if quarantined:
        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 30 * 86_400))
        entry = {"reason": "known", "issue": "https://e.test/1", "owner": "me", "expires": day}
        desk.write("quarantine.yaml", json.dumps({"quarantine": [{"test": one, **entry} for one in failed]}))
    desk.call("report", RUN, code=code)
    summary = desk.read(run / "summary.json")
    assert summary["exit_code"] == code
    assert {verdict: count for verdict, count in summary["verdicts"].items() if count} == counted(names)
    assert summary["quarantined"] == (len(failed) if quarantined else 0)
    tags = Counter(one.tag for path in (run / "junit").iterdir() for one in ET.parse(path).iter())  # noqa: S314  # our own file
    assert tags["failure"] + tags["error"] == (0 if quarantined else len(failed))
    assert tags["testcase"] == len(names)


@pytest.mark.gate
def test_a_journal_that_is_missing_cut_or_of_another_plan_is_a_hole(desk: Desk) -> None:
    names = {name: one for name, one in EXPECTED.items() if one[0] not in {*HOLES, "failed"}}
    run = write_run(desk, names)
    tell(desk, run, holes=False, failures=False)
    second = run / "journal" / "1-1.jsonl"
    whole = second.read_text()
    desk.call("report", RUN, code=0)
    # Cut in the middle of the end of the last test: what it came to is not known.
    last = whole.index(f'"end","id":"{B}xpassed')
    second.write_text(whole[: last + 40])
    desk.call("report", RUN, code=3)
    summary = desk.read(run / "summary.json")
    assert (summary["torn"], summary["verdicts"]["infrastructure"], summary["planned"]) == (1, 1, len(names))
    second.unlink()
    desk.call("report", RUN, code=3)
    summary = desk.read(run / "summary.json")
    assert (summary["missing_shards"], summary["verdicts"]["not_run"]) == ([1], 3)
    desk.write(f"runs/{RUN}/journal/1-1.jsonl", "".join(second_journal("f" * 64, holes=False).lines))
    desk.call("report", RUN, code=3)
    assert desk.read(run / "summary.json")["foreign_journals"] == ["1-1"]
    second.write_text(whole)
    desk.call("report", RUN, code=0)
