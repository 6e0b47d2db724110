"""One run with every verdict: summary, JUnit, store, page and what the relay gets count alike."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import requests

from ci.cli.app import run
from ci.hud.payload import CHECK_RUN_VARIABLE
from ci.record.failure_marks import Quarantined
from ci.record.journal import read_journals
from ci.record.verdict import Verdict
from ci.report.history import History, overview
from ci.report.quarantine_note import QuarantineNote
from ci.report.reconcile import reconcile
from ci.report.write import write_report
from ci.store.store import Store
from test_selection.selection import Selection
from tests.hud_server import create_app, embedded
from tests.pipeline_runs import identity_of, plan_folder, run_journals

from .desk import Desk

# Of each verdict another number, so that none can stand for another; one failure is in quarantine.
NUMBERS = {one: 3 + place for place, one in enumerate(Verdict)}
FORGIVEN = Quarantined(reason="known", issue="i", owner="o", expires="2099-01-01")
NOTE = QuarantineNote(file="quarantine.yaml", entries=(), tests=1, forgiven=1)
COUNTED = {
    "passed": ("passed", "flaky", "xpassed"),
    "failed": ("failed", "hardware", "infrastructure", "not_run"),
    "skipped": ("skipped", "xfailed"),
}


def every_verdict(folder: Path) -> dict[str, int]:
    """A reported run, and how many tests came to each verdict."""
    wanted = [verdict for verdict, number in NUMBERS.items() for _ in range(number)]
    names = {f"test_{place % 3}.py::T::test_{place}": "passed" for place in range(len(wanted))}
    plan = plan_folder(folder, list(names))
    run_journals(folder, plan, names)
    account = reconcile(plan, read_journals(folder))
    results = [
        replace(one, verdict=verdict, message="" if verdict is Verdict.PASSED else f"because {verdict}")
        for one, verdict in zip(account.results, wanted, strict=True)
    ]
    forgiven = next(place for place, one in enumerate(results) if one.verdict is Verdict.FAILED)
    results[forgiven] = replace(results[forgiven], quarantine=FORGIVEN)
    chosen = Selection(stage=1, percent=5.0, ids=list(names), in_scope=100)
    write_report(
        folder,
        account=replace(account, results=tuple(results), quarantine=NOTE),
        identity=identity_of(folder.name),
        selection=chosen,
    )
    return {verdict.value: number for verdict, number in NUMBERS.items()}


def test_every_surface_counts_alike(desk: Desk) -> None:
    folder = desk.run_dir
    wanted = every_verdict(folder)
    told = {name: sum(wanted[one] for one in parts) for name, parts in COUNTED.items()}
    told |= {"failed": told["failed"] - 1, "skipped": told["skipped"] + 1}

    assert json.loads((folder / "summary.json").read_text())["verdicts"] == wanted

    cases = [case for path in (folder / "junit").glob("*.xml") for case in ET.parse(path).iter("testcase")]  # noqa: S314
    of_junit = Counter(
        "skipped" if case.find("skipped") is not None
        else "passed" if case.find("failure") is None and case.find("error") is None else "failed"
        for case in cases
    )  # fmt: skip
    assert dict(of_junit) == told

    assert desk.deliver().outcome == "delivered"
    assert desk.jobs[-1]["test_results"] == {**told, "total": sum(wanted.values())}

    desk.flags["report.endpoint"] = "embedded"
    here = desk.settings
    (folder / "outbox").rename(folder / "outbox-of-the-relay")
    assert desk.deliver().outcome == "delivered"
    with closing(Store(here.store_path)) as store:
        rows = store.database.tuples("SELECT verdict, sum(tests) FROM job_verdict GROUP BY verdict")
        assert dict(rows) == wanted
        (job,) = store.database.rows("SELECT * FROM crcr_workflow_job")
        assert {name: job[f"{name}_tests"] for name in told} == told
        with embedded(create_app(store, token="t", repository="o/r", clock=lambda: desk.now)) as url:
            page = requests.get(f"{url}/runs/{job['id']}", timeout=60).text
            shown = requests.get(f"{url}/api/runs/{job['id']}", timeout=60).json()
    tiles = dict(re.findall(r'class="soft">(\w+)</span><b[^>]*>(\d+)<', page))
    assert {name: int(tiles[name.capitalize()]) for name in told} == told
    by_card = Counter[str]()
    for card in shown["cards"]:
        by_card.update(card["verdicts"])
    assert dict(by_card) == wanted
    (device,), _ = overview(History(here.store_path))
    assert (device.runs, device.tests) == (1, wanted["passed"])


def test_a_run_that_is_taken_in_is_the_job_it_was_reported_as(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = every_verdict(desk.run_dir)
    desk.flags |= {"report.endpoint": "embedded", "report.job_name": "the check"}
    desk.environ[CHECK_RUN_VARIABLE] = "777"
    assert desk.deliver().outcome == "delivered"
    monkeypatch.chdir(desk.folder)
    assert run(["history", "import", str(desk.run_dir)]) == 0
    with closing(Store(desk.settings.store_path)) as store:
        jobs = store.database.tuples("SELECT check_run_id FROM crcr_workflow_job")
        rows = store.database.tuples("SELECT count(*) FROM settled_test_run")
    assert (list(jobs), list(rows)) == ([("777",)], [(sum(wanted.values()),)])
