"""Files of rows over real HTTP: what real runners write, sent twice, broken, or somebody else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.store.store import Store
from tests.hud_server import create_app, embedded

from .conftest import REPOSITORY, post_report, upload

TOKEN = "s3cret-token"
TESTS = """
import pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="no card")
def test_skips(): pass
@pytest.mark.xfail(reason="known")
def test_xfails(): assert False
@pytest.fixture
def broken(): raise RuntimeError("no fixture")
def test_errors(broken): pass
class TestA(unittest.TestCase):
    def test_method(self): pass
"""


@pytest.fixture
def url(store: Store, payload: dict[str, Any]) -> Iterator[str]:
    with embedded(create_app(store, token=TOKEN, repository=REPOSITORY, clock=lambda: 2000.0)) as base:
        answer = post_report(base, payload, TOKEN)
        assert answer.status_code == 200
        yield base


def verdicts(store: Store) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in store.database.rows("SELECT name, verdict FROM test_run")}


@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(["-n", "2"], marks=pytest.mark.nightly),
        pytest.param(["-o", "junit_family=xunit1"], marks=pytest.mark.nightly),
    ],
)
def test_what_pytest_writes_becomes_rows(url: str, store: Store, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml=j.xml", *options]
    subprocess.run([*command, "test_some.py"], cwd=tmp_path, check=False, timeout=120, capture_output=True)
    answer = upload(url, TOKEN, "junit", (tmp_path / "j.xml").read_bytes())
    assert answer.json() == {"ok": True, "sent": 6, "stored": 6, "unchanged": ""}
    assert verdicts(store) == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_xfails": "xfailed",
        "test_errors": "failed",
        "test_method": "passed",
    }
    (failure,) = store.database.rows("SELECT * FROM test_run WHERE name = 'test_fails'")
    assert "one is not two" in failure["message"]
    assert (failure["invoking_file"], failure["file"]) == ("test_some", "test_some.py")
    assert {row["tests"] for row in store.database.rows("SELECT * FROM test_run_summary")} == {5, 1}


def test_another_file_of_the_name_takes_its_place_once_it_is_whole(url: str, store: Store) -> None:
    assert upload(url, TOKEN, "junit", b'<testsuite><testcase name="old"/></testsuite>').status_code == 200
    cut = upload(url, TOKEN, "junit", b'<testsuite><testcase name="new"/>')
    assert (cut.status_code, "is incomplete XML after 1 test cases" in cut.text) == (400, True)
    assert verdicts(store) == {"old": "passed"}
    assert upload(url, TOKEN, "junit", b'<testsuite><testcase name="new"/></testsuite>').status_code == 200
    assert verdicts(store) == {"new": "passed"}
    assert store.database.rows("SELECT sum(tests) AS tests FROM test_run_summary") == [{"tests": 1}]
