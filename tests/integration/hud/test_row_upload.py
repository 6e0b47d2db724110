"""A run's tests follow its report to a server of our own, once, and wait where it does not take them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings
from ci.hud.row_upload import rows_wait
from ci.store.store import Store
from tests.hud_server import create_app, embedded

MakeSettings = Callable[..., Settings]
TOKEN = {"SPYRE_CI_HUD_TOKEN": "s3cret-token"}
ID = '<properties><property name="id" value="t.py::A::a"/></properties>'
SAID = "<system-out>card: card1</system-out>"
CASES = [
    f'<testcase classname="A" name="a" file="t.py" time="1">{SAID}{ID}</testcase>',
    '<testcase classname="A" name="b" file="t.py" time="2"><failure message="no"/></testcase>',
]
TAKEN: Any = (200, {}, '{"ok": true, "sent": 2, "stored": 2, "unchanged": ""}')


@pytest.fixture
def junit(run_dir: Path) -> Path:
    (run_dir / "junit").mkdir()
    for shard, case in enumerate(CASES):
        (run_dir / "junit" / f"{shard}.xml").write_text(
            f"<testsuites><testsuite>{case}</testsuite></testsuites>"
        )
    return run_dir


def test_the_tests_of_all_shards_come_in_one_file_and_once(
    world: Any, junit: Path, settings: MakeSettings, tmp_path: Path
) -> None:
    store, token = Store(tmp_path / "served.sqlite"), TOKEN["SPYRE_CI_HUD_TOKEN"]
    repository = settings().model.report.repository
    app = create_app(store, token=token, repository=repository, clock=time.time)
    with closing(store), embedded(app) as url:
        here = settings(report__endpoint=url, report__own_server=True)
        for _ in range(2):
            assert world.deliver(junit, here, TOKEN).outcome == "delivered"
            rows = store.database.rows("SELECT name, verdict, card, test_id FROM test_run ORDER BY name")
            assert [tuple(row.values()) for row in rows] == [
                ("a", "passed", "card1", "t.py::A::a"),
                ("b", "failed", "", "t.py::A::b"),
            ]
    assert not rows_wait(junit)


def test_upstream_is_sent_no_rows(world: Any, junit: Path, settings: MakeSettings, faulty: Any) -> None:
    assert world.deliver(junit, settings(report__endpoint=faulty.url), TOKEN).outcome == "delivered"
    assert [one["path"] for one in faulty.requests] == ["/github/callback"]


@pytest.mark.parametrize(
    "order",
    [
        (503, "retry"),
        (429, "rate_limited"),
        (404, "retry"),
        (401, "unauthorized"),
        (400, "refused"),
        ("cut", "retry"),
        ((200, {}, '{"ok": true, "sent": 2, "stored": 1}'), "refused"),
        ((200, {}, "<html>"), "refused"),
    ],
)
def test_rows_that_are_not_taken_wait_and_a_flush_sends_them(
    world: Any, junit: Path, settings: MakeSettings, faulty: Any, order: tuple[Any, str]
) -> None:
    answer, outcome = order
    here = settings(report__endpoint=faulty.url, report__own_server=True)
    faulty.script = ["ok", answer]
    delivery = world.deliver(junit, here, TOKEN)
    (left,) = delivery.report.left
    assert (delivery.outcome, left.identity, left.outcome) == ("left", "rows of tests", outcome)
    assert "the run's tests were not taken" in world.lines[-1]
    assert rows_wait(junit)
    faulty.script = [TAKEN]
    assert world.flush(junit, here, TOKEN).outcome == "delivered"
    assert not rows_wait(junit)
    first, again = (one for one in faulty.requests if "/api/upload/test_run" in one["path"])
    assert (first["path"], first["body"]) == (again["path"], again["body"])
    assert "rows=2" in first["path"]


def test_junit_that_cannot_be_read_is_told_of_and_the_report_is_there(
    world: Any, junit: Path, settings: MakeSettings, faulty: Any
) -> None:
    here = settings(report__endpoint=faulty.url, report__own_server=True)
    faulty.script = ["ok"]
    (junit / "junit" / "0.xml").write_text("<testsuites>")
    delivery = world.deliver(junit, here, TOKEN)
    assert delivery.outcome == "left"
    assert "0.xml: is no whole XML" in delivery.reason
    assert [one["path"] for one in faulty.requests] == ["/github/callback"]
