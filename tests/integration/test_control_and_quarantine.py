"""Failures told apart: upstream's by the control on the CPU, and those a quarantine forgives for a while."""

from __future__ import annotations

import json
import os
import shutil
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import read_results, read_summary

pytestmark = pytest.mark.nightly

NAME = "test_control.py::TestControl::test_"
EVERYWHERE, ABORTS = f"{NAME}fails_everywhere[dtype=float32]", f"{NAME}aborts_everywhere"
DEVICE = f"{NAME}fails_on_the_device[dtype=float32]"
OTHER = f"{NAME}fails_on_the_device[dtype=int64]"
LATER = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 100 * 86_400))
WORDS = (
    "pytorch", "--device", "spyre", "--percent", "100", "--files", "test_control.py", "--cards", "2",
    "--retries", "0",
)  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, on the small tree with one file more."""
    (tree / "control_tests.py").rename(tree / "test" / "test_control.py")
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "JENKINS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPYRE_CI__REPORT__ENDPOINT", "none")
    monkeypatch.setenv("SPYRE_CI__PYTORCH__SOURCE", str(tree))
    return folder


def results(shop: Path) -> dict[str, Result]:
    (folder,) = (shop / "runs").iterdir()
    return {one.id: one for one in read_results(folder / "results.jsonl.gz")}


def quarantine(*entries: tuple[str, str, str]) -> None:
    rows = [
        {"reason": "known", "issue": "https://e.test/1", "owner": "@kernels", key: name, "expires": day}
        for key, name, day in entries
    ]
    Path("quarantine.yaml").write_text(json.dumps({"quarantine": rows}))


def test_what_fails_on_the_cpu_too_is_upstreams_and_the_run_stays_red(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, "--control", "cpu"]) == 1
    found = results(shop)
    assert {name: one.upstream for name, one in found.items() if one.verdict is Verdict.FAILED} == {
        EVERYWHERE: True, ABORTS: True, DEVICE: False, OTHER: False,
    }  # fmt: skip
    both = found[EVERYWHERE]
    assert both.control is not None
    assert "broken on spyre" in both.message
    assert "broken on cpu" in both.control.message
    assert "broken on spyre" in both.detail
    assert "broken on cpu" in both.control.detail
    assert found[ABORTS].cause == "signal"
    assert getattr(found[ABORTS].control, "cause", None) == "signal"
    control = found[DEVICE].control
    assert control is not None
    assert control.outcome == "passed"
    assert found[f"{NAME}passes"].control is None
    (folder,) = (shop / "runs").iterdir()
    summary = read_summary(folder / "summary.json")
    assert (summary.upstream, summary.control, sum(summary.verdicts.values())) == (2, "cpu", 5)
    told = capsys.readouterr().out
    assert "exit 1: 4 tests failed, 2 of them on cpu too" in told
    assert "failed on cpu too: upstream's (2)" in told
    for name in ("summary.md", "report.html"):
        assert "upstream" in (folder / name).read_text()
    before = (folder / "results.jsonl.gz").read_bytes()
    assert run(["report", "latest"]) == 1
    assert (folder / "results.jsonl.gz").read_bytes() == before


def test_a_run_in_which_nothing_fails_has_no_control(shop: Path) -> None:
    assert run([*WORDS, "--control", "cpu", "-k", "passes"]) == 0
    (folder,) = (shop / "runs").iterdir()
    assert not (folder / "control").exists()


def test_a_control_that_was_cut_off_is_made_up_for_on_resume(shop: Path) -> None:
    assert run([*WORDS, "--control", "cpu"]) == 1
    (folder,) = (shop / "runs").iterdir()
    before = results(shop)
    shutil.rmtree(folder / "control")
    assert run(["pytorch", "--resume", "latest"]) == 1
    assert {name: one.upstream for name, one in results(shop).items()} == {
        name: one.upstream for name, one in before.items()
    }
    assert any(one.upstream for one in before.values())


def test_shards_that_run_by_themselves_bring_their_control_along(shop: Path) -> None:
    words = ["--run-dir", "runs/one", "--files", "test_control.py"]
    assert run(["collect", *words, "--device", "spyre"]) == 0
    assert run(["select", *words, "--percent", "100"]) == 0
    assert run(["plan", "--run-dir", "runs/one", "--shards", "2"]) == 0
    for shard in ("0", "1"):
        arguments = ["run", "--run-dir", "runs/one", "--shard", shard, "--control", "cpu", "--retries", "0"]
        assert run(arguments) in (0, 1)
    assert run(["report", "--run-dir", "runs/one"]) == 1
    assert {name for name, one in results(shop).items() if one.upstream} == {EVERYWHERE, ABORTS}


def test_a_quarantined_failure_is_told_and_does_not_redden(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quarantine(
        ("test", EVERYWHERE, LATER),
        ("test", ABORTS, LATER),
        ("pattern", "**::test_fails_on_the_device*", LATER),
        ("pattern", "**::test_passes", LATER),
        ("test", f"{NAME}gone", LATER),
        ("pattern", "other/*", "2000-01-01"),
    )
    assert run([*WORDS, "--control", "cpu"]) == 0
    told = capsys.readouterr().out
    assert "exit 0: 5 tests, nothing failed but 4 quarantined tests, nothing is missing" in told
    assert f"{NAME}gone (@kernels, until {LATER}) matches no test of the catalog" in told
    assert f"**::test_passes (@kernels, until {LATER}) the tests it covers passed" in told
    assert "other/* (@kernels, until 2000-01-01) has expired" in told
    found = results(shop)
    assert found[EVERYWHERE].verdict is Verdict.FAILED
    assert found[EVERYWHERE].upstream
    assert found[EVERYWHERE].quarantine is not None
    (folder,) = (shop / "runs").iterdir()
    cases = {
        case.get("name"): case for path in (folder / "junit").glob("*.xml") for case in ET.parse(path).iter("testcase")  # noqa: S314, E501  # our own file
    }  # fmt: skip
    skipped = cases["test_fails_everywhere[dtype=float32]"].find("skipped")
    assert skipped is not None
    assert skipped.get("type") == "pytest.xfail"
    assert f"known (https://e.test/1, @kernels, until {LATER})" in str(skipped.get("message"))
    assert "broken on spyre" in str(skipped.text)
