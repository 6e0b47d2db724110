"""What is made of runs that are over: compared, run again, brought back, forgiven, bisected, pruned."""

from __future__ import annotations

import shutil
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.oracle.conftest import TREE, Desk, make_desk
from tests.repositories import git

MAIN = "test_main.py::test_"
BEFORE = """
def test_steady(): pass
def test_breaks(): pass
def test_is_mended(): raise ValueError("not yet")
def test_stays_broken(): raise ValueError("never")
def test_breaks_otherwise(): raise ValueError("one thing")
def test_is_deleted(): pass
def test_wobbles(): pass
"""
AFTER = """
import os

def test_steady(): pass
def test_breaks(): raise ValueError("<b>now</b>")
def test_is_mended(): pass
def test_stays_broken(): raise ValueError("never")
def test_breaks_otherwise(): raise TypeError("another thing")
def test_is_added(): pass
def test_wobbles():
    try:
        os.mkdir(os.environ["WOBBLED"])
    except FileExistsError:
        return
    assert False, "once"
"""
FAILING = {f"{MAIN}{name}" for name in ("breaks", "stays_broken", "breaks_otherwise")}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a run of a tree before it changed and one of the tree after that."""
    base = tmp_path_factory.mktemp("two-runs")
    desk = make_desk(base, stand_in=True)
    desk.environ["WOBBLED"] = str(base / "wobbled")
    for name, text in (("before", BEFORE), ("after", AFTER)):
        desk.write(f"{name}/version.txt", "2.13.0\n")
        desk.write(f"{name}/test/test_main.py", text)
        desk.call("pytorch", "--pytorch-src", name, "--percent", "100", "--cards", "2", code=1)
    return desk


@pytest.fixture
def copied(two_runs: Desk, tmp_path: Path) -> Desk:
    """A desk of one's own with the two runs."""
    folder = Path(shutil.copytree(two_runs.folder, tmp_path / "copied"))
    return Desk(folder=folder, environ=two_runs.environ)


@pytest.mark.gate
def test_each_test_is_of_one_kind_of_change(two_runs: Desk) -> None:
    said = two_runs.call("compare", "latest-1", "latest", "--json", "--check", code=1).json
    kinds = {kind: {one["id"] for one in rows} for kind, rows in said["tests"].items() if rows}
    assert kinds == {
        "new_failures": {f"{MAIN}breaks"}, "newly_flaky": {f"{MAIN}wobbles"},
        "failing_differently": {f"{MAIN}breaks_otherwise"}, "still_failing": {f"{MAIN}stays_broken"},
        "fixed": {f"{MAIN}is_mended"},
    }  # fmt: skip
    counts = said["counts"]
    assert (counts["only_new"], counts["only_base"], counts["same"]) == (1, 1, 1)
    assert sum(counts.values()) == 8
    there = said["existence"]
    assert there["appeared"]["ids"] == [f"{MAIN}is_added"]
    assert there["vanished"]["ids"] == [f"{MAIN}is_deleted"]
    text = two_runs.call("compare", "latest-1", "latest", "--markdown", "--html", "page.html").out
    page = (two_runs.folder / "page.html").read_text()
    for name in kinds["new_failures"] | kinds["fixed"]:
        assert name in text
        assert name in page
    assert "<b>now" not in page
    # The other way round what was fixed is broken; against itself nothing is.
    back = two_runs.call("compare", "latest", "latest-1", "--json").json
    assert {one["id"] for one in back["tests"]["fixed"]} == {f"{MAIN}breaks"}
    assert {one["id"] for one in back["tests"]["no_longer_flaky"]} == {f"{MAIN}wobbles"}
    shutil.copytree(two_runs.runs()[1], two_runs.folder / "copy")
    counts = two_runs.call("compare", "copy", "latest", "--json", "--check").json["counts"]
    assert {kind: count for kind, count in counts.items() if count} == {"still_failing": 3, "same": 4}


@pytest.mark.gate
def test_flaky_tests_are_ranked_over_the_history(two_runs: Desk) -> None:
    said = two_runs.call("flakes", "--json").json
    assert (said["ran"], said["flaky"], said["percent"]) == (8, 1, 12.5)
    (one,) = said["tests"]
    assert (one["id"], one["runs"], one["bad"]) == (f"{MAIN}wobbles", 2, 1)
    two_runs.call("flakes", "--fail-above", "5", code=1)
    two_runs.call("flakes", "--fail-above", "20")
    proposed = two_runs.call("flakes", "--propose", "--issue", "https://e.test/1", "--owner", "me").out
    assert f"{MAIN}wobbles" in proposed
    assert "expires:" in proposed
    (device,) = two_runs.call("history", "show", "--json").json["devices"]
    assert (device["device"], device["runs"]) == ("cpu", 2)


@pytest.mark.gate
def test_what_failed_runs_again_and_nothing_else(copied: Desk) -> None:
    copied.call("pytorch", "--last-failed", "latest", "--retries", "0", code=1)
    run = copied.runs()[-1]
    rows = copied.read(run / "results.jsonl.gz")[1:]
    verdicts = {one["id"]: one["verdict"] for one in rows}
    # A flaky test did not pass cleanly; the second time it passes at once.
    assert verdicts == {**dict.fromkeys(FAILING, "failed"), f"{MAIN}wobbles": "passed"}


@pytest.mark.gate
def test_a_failure_is_brought_back_by_the_line_that_is_shown(copied: Desk) -> None:
    name = f"{MAIN}is_mended"
    first = copied.runs()[0].name
    told = copied.call("reproduce", "is_mended", first, "--json").json
    assert (told["id"], told["verdict"], told["attempts"]) == (name, "failed", 2)
    page = (copied.runs()[0] / "summary.md").read_text()
    assert told["command"] in page
    program, verb, *words = told["command"].split()
    assert (program, verb) == ("spyre-ci", "reproduce")
    ran = copied.call(verb, "--json", *words, code=1).json["ran"]
    assert (ran["outcome"], ran["exit_code"]) == ("reproduced", 1)
    mended = copied.call("reproduce", "--run", "--json", "--pytorch-src", "after", name, first)
    assert mended.json["ran"]["outcome"] == "not reproduced"
    copied.call("reproduce", "nothing_like_it", first, code=2)
    # It is nobody's `latest`.
    assert copied.call("report", "latest", "--json", code=1).json["run"] == copied.runs()[1].name


def entry(name: str, days: int) -> str:
    expires = time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86_400))
    words = f"reason: known, issue: https://e.test/1, owner: me, expires: {expires}"
    return f"- {{test: '{name}', {words}}}\n"


@pytest.mark.gate
def test_a_quarantined_failure_is_told_and_does_not_redden_until_it_expires(copied: Desk) -> None:
    latest = copied.runs()[1]
    run = ("pytorch", "--pytorch-src", "after", "--percent", "100", "--retries", "0", "--json")
    copied.write("quarantine.yaml", "quarantine:\n" + "".join(entry(name, 30) for name in sorted(FAILING)))
    said = copied.call(*run).json
    assert (said["exit_code"], said["quarantined"], said["verdicts"]["failed"]) == (0, 3, 3)
    cases = {
        case.get("name"): case
        for path in (copied.runs()[-1] / "junit").glob("*.xml")
        for case in ET.parse(path).iter("testcase")  # noqa: S314  # our own file
    }
    assert cases["test_breaks"].find("failure") is None
    assert cases["test_breaks"].find("skipped") is not None
    copied.call("quarantine", "check", "--catalog", latest / "catalog.jsonl.gz")
    rows = [entry(name, -1 if name == f"{MAIN}breaks" else 30) for name in sorted(FAILING)]
    copied.write("quarantine.yaml", "quarantine:\n" + "".join(rows))
    said = copied.call(*run, code=1).json
    assert (said["quarantined"], said["verdicts"]["failed"]) == (2, 3)
    copied.call("quarantine", "check", "--catalog", latest / "catalog.jsonl.gz", code=2)
    copied.write("quarantine.yaml", "quarantine:\n- tset: x\n")
    assert "did you mean 'test'" in copied.call(*run, code=2).err


@pytest.mark.gate
def test_old_runs_go_and_what_latest_means_stays(copied: Desk) -> None:
    old, latest = (run.name for run in copied.runs())
    words = ("prune", "--only", "runs", "--keep-days", "0", "--keep-last", "1", "--json")
    would = copied.call(*words, "--dry-run").json
    assert [one["name"] for one in would["removed"]] == [old]
    assert [one["name"] for one in would["kept"]] == [latest]
    assert len(copied.runs()) == 2
    done = copied.call(*words).json
    assert [one["name"] for one in done["removed"]] == [old]
    assert [run.name for run in copied.runs()] == [latest]
    assert copied.call(*words).json["removed"] == []


SHOUT = """
import unittest


class TestShout(unittest.TestCase):
    def test_shout(self):
        self.assertEqual("a".upper(), {wanted!r})
"""


@pytest.mark.nightly
def test_the_commit_that_broke_a_test_is_found(quick_desk: Desk, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "test").mkdir(parents=True)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(clone))
    commits = []
    for number in range(6):
        (clone / "test" / "test_shout.py").write_text(SHOUT.format(wanted="A" if number < 4 else "B"))
        (clone / "version.txt").write_text(f"2.13.0a{number}\n")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "-m", f"Change {number} (#{1000 + number})")
        commits.append(git(clone, "rev-parse", "HEAD"))
    before = git(clone, "status", "--porcelain", "--branch")
    words = ("bisect", "test_shout.py::TestShout::test_shout", "--pytorch-src", clone, "--confidence", "0.8",
             "--good", commits[0], "--bad", "main", "--json")  # fmt: skip
    result = quick_desk.call(*words).json["result"]
    (candidate,) = result["candidates"]
    assert (result["kind"], candidate["sha"], candidate["pull_request"]) == ("found", commits[4], 1004)
    (folder,) = quick_desk.runs()
    assert commits[4] in (folder / "issue.md").read_text()
    assert git(clone, "status", "--porcelain", "--branch") == before
    # A test that is broken at neither end has no such commit.
    good = ("--good", commits[0], "--bad", commits[2])
    quick_desk.call(*words[:6], *good, "--json", code=1)


@pytest.mark.nightly
def test_what_fails_on_the_cpu_too_is_told_as_upstreams(desk: Desk, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device is served by torch")
    tree = Path(shutil.copytree(TREE, tmp_path / "pytorch"))
    (tree / "control_tests.py").rename(tree / "test" / "test_control.py")
    words = ("--device", "spyre", "--control", "cpu", "--percent", "100", "--cards", "2", "--retries", "0")
    said = desk.call(
        "pytorch", "--pytorch-src", tree, *words, "--files", "test_control.py", "-k", "fails or passes",
        "--json", code=1,
    ).json  # fmt: skip
    assert (said["control"], said["upstream"], said["verdicts"]["failed"]) == ("cpu", 1, 3)
    rows = desk.read(desk.runs()[0] / "results.jsonl.gz")[1:]
    controls = {one["id"]: one["control"]["outcome"] for one in rows if one.get("control")}
    name = "test_control.py::TestControl::test_fails_"
    assert controls == {
        f"{name}everywhere[dtype=float32]": "failed", f"{name}on_the_device[dtype=float32]": "passed",
        f"{name}on_the_device[dtype=int64]": "passed",
    }  # fmt: skip
