"""The read API and the pages over HTTP: their figures, and what a careless or hostile client gets."""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from ci.store.database import Row, SqliteDatabase
from ci.store.store import Store
from tests.hud_seed import Seeded, every_row, seed
from tests.hud_seed_plan import CARDS, HOSTILE, SPYRE
from tests.hud_server import create_app, embedded

from .conftest import PAGES

END = datetime(2026, 8, 30, 12, tzinfo=UTC)
TIMEOUT = 60
# Numbers at and beyond every bound, and text that other layers trip over.
ODD = (
    "", "0", "-1", "1e9", "9" * 30, str(2**63), str(2**63 - 1), "1.5", "NaN", "%00", "%ff%fe", "%ED%A0%80",
    "'",
    "%27%20OR%201=1--", "%25", "{{7*7}}", "x" * 9000, "%E2%80%AE", "true", "[]", "../..", "%c0%80", "%1b[31m",
    "a%00b",
)  # fmt: skip


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    return seed(tmp_path_factory.mktemp("hud") / "hud.sqlite", end=END, tests=3000, days=20)


@pytest.fixture(scope="module")
def url(seeded: Seeded) -> Iterator[str]:
    store = Store(seeded.path)
    with embedded(create_app(store, token="t", repository="o/r", clock=END.timestamp)) as address:
        yield address
    store.close()


def get(url: str, accept: str = "*/*") -> requests.Response:
    return requests.get(url, headers={"Accept": accept}, timeout=TIMEOUT)


def openapi(url: str) -> Any:
    return get(f"{url}/openapi.json").json()


def test_every_route_that_reads_says_exactly_what_it_answers(url: str) -> None:
    paths = openapi(url)["paths"]
    vague = [
        path
        for path, methods in paths.items()
        if path.startswith("/api/") and "get" in methods
        and not methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    ]  # fmt: skip
    assert vague == []
    assert {"/api/runs/{number}/failures", "/api/tests/{test_id}", "/api/compare", "/api/metrics"} <= set(
        paths
    )


def test_odd_values_of_every_parameter_get_a_plain_answer(url: str) -> None:
    draw = random.Random(1)  # noqa: S311
    wrong = {}
    for path, methods in openapi(url)["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", []):
            for value in ODD:
                values = {one["name"]: "1" for one in methods["get"]["parameters"] if one.get("required")} | {
                    parameter["name"]: value
                }
                asked = path
                for name in [name for name in values if f"{{{name}}}" in path]:
                    asked = asked.replace(f"{{{name}}}", values.pop(name) or "x")
                asked += "?" + "&".join(f"{name}={value}" for name, value in values.items())
                status = get(url + asked, draw.choice(("*/*", "text/html"))).status_code
                if status not in {200, 404, 422}:
                    wrong[asked[:200]] = status
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "name", ["days", "offset", "repo", "lane", "event", "verdict", "pr", "sha", "key", "id", "before", "kind"]
)
def test_odd_values_of_a_pages_filters_get_a_page(url: str, page: str, name: str) -> None:
    for value in ODD[::3]:
        asked = f"{url}{page}{'&' if '?' in page else '?'}{name}={value}"
        answer = get(asked, "text/html")
        assert answer.status_code in {200, 404, 422}, asked[:300]
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "<script" not in answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize("text", HOSTILE)
def test_a_test_with_a_hostile_name_has_its_history(url: str, seeded: Seeded, text: str) -> None:
    (name,) = [one for one in seeded.hostile if one.endswith(f"::{text}::{text}")]
    told = get(f"{url}/api/tests/{quote(name, safe='')}?days=90")
    # What is longer than an address may be is asked for by its key.
    if told.status_code == 200:
        assert told.json()["test_id"] == name
        assert told.json()["counted"] > 0
    else:
        assert len(name) > 4000
        assert told.status_code in {400, 414, 431}
    assert get(f"{url}/test?id={quote(name, safe='')}&days=90", "text/html").status_code in {200, 400}


def test_a_refusal_is_a_page_for_a_browser_and_json_for_others(url: str) -> None:
    for path, status in (("/runs/999999", 404), ("/runs/x", 422), ("/?days=0", 422), ("/test", 422)):
        page, told = get(url + path, "text/html"), get(url + path)
        assert (page.status_code, told.status_code) == (status, status)
        assert "<h1>" in page.text
        assert told.json()["ok"] is False


def test_nothing_that_is_shown_changes_the_store(url: str, seeded: Seeded) -> None:
    before = Path(seeded.path).read_bytes()
    for page in PAGES:
        get(url + page)
    for method in ("post", "put", "delete", "patch"):
        assert requests.request(method, f"{url}/api/runs", timeout=TIMEOUT).status_code == 405
        assert requests.request(method, f"{url}/grid", timeout=TIMEOUT).status_code == 405
    assert Path(seeded.path).read_bytes() == before


def text(url: str, page: str) -> str:
    """A page's words, one space between them."""
    answer = get(url + page, "text/html")
    assert answer.status_code == 200, page
    body = answer.text[answer.text.index('<main id="main">') :]
    return re.sub(r"\s+", " ", re.sub(r"<title>.*?</title>|<[^>]*>", " ", body))


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}".rstrip("0").rstrip(".") + " %"


@pytest.fixture(scope="module")
def rows(seeded: Seeded) -> list[Row]:
    return every_row(seeded.path)


def test_a_runs_page_counts_its_tests(url: str, seeded: Seeded, rows: list[Row]) -> None:
    words = {"not_run": "not run", "xfailed": "failed as expected", "xpassed": "passed unexpectedly"}
    for number in sorted({row["job"] for row in rows})[::9]:
        own = [row for row in rows if row["job"] == number]
        page = text(url, f"/runs/{number}")
        assert f"Tests reported {len(own)} " in page
        for verdict, tests in Counter(row["verdict"] for row in own).items():
            assert f" {tests} {words.get(verdict, verdict)} " in page
        for card in {row["card"] for row in own if row["card"]}:
            counts = Counter(row["verdict"] for row in own if row["card"] == card)
            assert f" {card} {counts.total()} {counts['failed']} {counts['hardware']} " in page
        listed = get(f"{url}/runs/{number}/tests?verdict=failed").text
        failed = {row["test_id"] for row in own if row["verdict"] == "failed"} - set(seeded.hostile)
        assert failed <= {
            html.unescape(name) for name in re.findall(r'class="mono"[^>]*>([^<]*)</a>', listed)
        }
        assert f"{sum(row['verdict'] == 'failed' for row in own)} test" in listed


def test_the_cards_are_counted_over_all_runs_that_count(url: str, rows: list[Row]) -> None:
    page = text(url, "/cards")
    for card in CARDS:
        own = Counter(row["verdict"] for row in rows if row["card"] == card and not row["replaced"])
        told = "".join(
            rf"{re.escape(share(own[name], own.total()))} +\({own[name]}\) +"
            for name in ("hardware", "failed")
        )
        assert re.search(rf" {card} (?:(?!0000:).)*{told}{own.total()} ", page), card


def test_a_tests_history_counts_its_outcomes(url: str, seeded: Seeded, rows: list[Row]) -> None:
    for name in seeded.flaky[:9]:
        own = [row for row in rows if row["test_id"] == name]
        counted = [row for row in own if not row["replaced"]]
        failed_before = {
            (row["delivery_id"], row["job_name"])
            for row in own
            if row["replaced"] and row["verdict"] == "failed"
        }
        found = [row["verdict"] for row in counted]
        again = sum(
            row["verdict"] == "passed" and (row["delivery_id"], row["job_name"]) in failed_before
            for row in counted
        )
        outcomes = sum(verdict in {"passed", "failed", "flaky"} for verdict in found)
        said = f"{outcomes} outcome" + "s" * (outcomes != 1)
        page = text(url, f"/test?id={quote(name, safe='')}")
        flaky = found.count("flaky") + again
        assert f"Flake rate {share(flaky, outcomes)} {flaky} of {said} " in page
        assert f" {found.count('failed')} of {said} Newest verdict" in page
        assert f"Of the {len(found)} run" in page


def test_the_roll_out_is_what_the_newest_run_of_each_stage_said(url: str, seeded: Seeded) -> None:
    jobs = SqliteDatabase(seeded.path).rows(
        "SELECT d.* FROM crcr_workflow_job_ranked AS j JOIN job_detail AS d USING (dynamoKey) "
        "WHERE NOT superseded AND lane = 'nightly-main' AND in_scope > 0 ORDER BY started_at"
    )
    page = text(url, f"/rollout?repo={quote(SPYRE)}&lane=nightly-main")
    for stage in {job["stage"] for job in jobs}:
        *_, last = own = [job for job in jobs if job["stage"] == stage]
        parts = " ".join(share(last[name], last["in_scope"]) for name in ("selected", "ran", "passed"))
        said = f"{len(own)} {last['in_scope']:,} {parts} "
        assert re.search(rf" {stage} \(\d+ %\) 2026-08-\d\d {re.escape(said)}", page), said
