"""`spyre-ci flakes` and `spyre-ci quarantine` as they are typed."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ci.cli.app import run
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from tests.past_runs import record

NAMES = [f"a.py::T::t{number}" for number in range(10)]
LATER = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 100 * 86_400))
ENTRY = {"reason": "known", "issue": "https://e.test/1", "owner": "me", "expires": LATER}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    who = RunIdentity(
        run="r", run_id=1, run_attempt=1, device="spyre", pytorch_version="2", pytorch_sha="s", stage=1,
        percent=5, started_at=time.time() - 3600, commit="c0ffee",
    )  # fmt: skip
    for number in range(6):
        verdicts = {NAMES[0]: Verdict.FLAKY if number % 2 else Verdict.PASSED}
        if number == 5:
            verdicts[NAMES[1]] = Verdict.FAILED
        results = [
            Result(id=name, verdict=verdicts.get(name, Verdict.PASSED), card=f"spyre:{number}", attempts=1)
            for name in NAMES
        ]
        record(Path(".spyre-ci/store.sqlite"), replace(who, run_id=number + 1), results, {})


def test_flaky_tests_are_ranked_and_held_against_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flakes"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "spyre, 30 days: 2 of 10 tests that ran are flaky: 20.00 %, not fewer than 5 %"
    assert told[1].startswith(
        "   50% 3 of 6 runs, last 0 days ago, on spyre:1 1, spyre:3 1, spyre:5 1: the test"
    )
    assert told[2].endswith(
        f"17% 1 of 6 runs, last 0 days ago, on spyre:5 1: too few runs to name a cause  {NAMES[1]}"
    )
    assert run(["flakes", "--limit", "1", "--fail-above", "20.1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "  1 more; --limit 0 shows all"
    assert run(["flakes", "--fail-above", "20"]) == 1  # exactly so many are not fewer
    assert run(["flakes", "--fail-above", "19.9"]) == 1
    assert run(["flakes", "--fail-above", "5", "--device", "cpu"]) == 3
    assert run(["flakes", "--device", "cpu"]) == 0


def test_a_sick_cards_test_is_named_on_one_line_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "a.py::T::\x1b[31mred\n::error::boo"
    who = RunIdentity(
        run="s", run_id=1, run_attempt=1, device="spyre", pytorch_version="2", pytorch_sha="s", stage=1,
        percent=5, started_at=time.time() - 3600, commit="c0ffee",
    )  # fmt: skip
    for number in range(10):
        sick = number in (3, 6, 9)
        one = Result(
            id=name, verdict=Verdict.FLAKY if sick else Verdict.PASSED, card=f"spyre:{3 if sick else number}",
            attempts=1,
        )  # fmt: skip
        record(Path(".spyre-ci/store.sqlite"), replace(who, run_id=number + 1), [one], {})
    assert run(["flakes", "--propose"]) == 0
    told = capsys.readouterr().err
    assert "left out: 1 test that fails on one card, such as a.py::T::red ::error::boo" in told
    assert "\x1b" not in told


def test_a_proposal_leaves_out_what_is_quarantined(capsys: pytest.CaptureFixture[str]) -> None:
    Path("quarantine.yaml").write_text(yaml.safe_dump({"quarantine": [{"test": NAMES[1], **ENTRY}]}))
    assert run(["flakes", "--propose", "--owner", "me", "--issue", "https://e.test/2"]) == 0
    told = capsys.readouterr()
    assert [one["test"] for one in yaml.safe_load(told.out)["quarantine"]] == [NAMES[0]]
    assert "left out: 1 test quarantined already" in told.err
    Path("proposed.yaml").write_text(told.out)
    assert run(["quarantine", "check", "proposed.yaml"]) == 0


@pytest.mark.parametrize("words", [["--fail-above", "nan"], ["--propose", "--json"], ["--days", "0"]])
def test_flags_that_cannot_be_taken_are_refused(words: list[str]) -> None:
    assert run(["flakes", *words]) == 2


def test_without_a_history_there_is_nothing_to_rank(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spyre-ci.yaml").write_text("state: elsewhere\n")
    assert run(["flakes"]) == 2
    assert "there is no history yet" in capsys.readouterr().err


def test_checking_a_quarantine_tells_what_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    soon = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 3 * 86_400))
    rows = [
        {"test": NAMES[0], **ENTRY}, {"test": "a.py::T::gone", **ENTRY},
        {"pattern": "a.py::T::t1[x]", **ENTRY}, {"test": NAMES[2], **ENTRY, "expires": "2020-01-01"},
        {"test": NAMES[3], **ENTRY, "expires": soon},
    ]  # fmt: skip
    Path("quarantine.yaml").write_text(yaml.safe_dump({"quarantine": rows}))
    tests = [CatalogTest(id=name, node="", file="a.py") for name in NAMES]
    write_catalog(
        Path("c.jsonl.gz"), Catalog(pytorch="p", device="d", files={"a.py": FileRecord()}, tests=tests)
    )
    assert run(["quarantine", "check"]) == 2
    told = capsys.readouterr().out
    assert (
        "quarantine.yaml:17: error: expires: '2020-01-01' of me has expired\n  remedy: fix a.py::T::t2"
        in told
    )
    assert "of me ends in 3 days" in told
    assert told.endswith("5 entries: 1 error, 1 warning\n")
    assert run(["quarantine", "check", "quarantine.yaml", "--catalog", "c.jsonl.gz"]) == 2
    told = capsys.readouterr().out
    assert "test: 'a.py::T::gone' matches no test of the catalog" in told
    assert "in a glob `[` opens a set: write `[[]`" in told
    assert told.endswith("5 entries: 3 errors, 1 warning\n")
    assert run(["quarantine", "check", "--json"]) == 2
    assert {one["severity"] for one in json.loads(capsys.readouterr().out)["findings"]} == {
        "error",
        "warning",
    }


def test_a_quarantine_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quarantine", "check"]) == 2
    assert "there is no quarantine file to check\n  remedy: name one, or make quarantine.yaml" in (
        capsys.readouterr().err
    )
    Path("spyre-ci.yaml").write_text("run: {quarantine: q.yaml}\n")
    assert run(["quarantine", "check"]) == 2
    assert "q.yaml: there is no such file" in capsys.readouterr().err
