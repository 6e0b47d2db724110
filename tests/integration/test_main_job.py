from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.report.results import read_results
from tests.integration.conftest import Called
from tests.integration.runner.small_runs import STAND_IN

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "ci.cli"]
TIMEOUT_S = 240


class Shop:
    """A folder in which somebody uses spyre-ci on the small tree, on the CPU, with a stand-in for torch."""

    def __init__(self, folder: Path, tree: Path, called: Called) -> None:
        self.folder, self.tree, self._called = folder, tree, called
        folder.mkdir()
        self.environ = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("GITHUB_", "JENKINS"))
            },
            "PYTHONPATH": f"{ROOT}{os.pathsep}{STAND_IN}",
            "SPYRE_CI__DEVICE__NAME": "cpu",
            "SPYRE_CI__REPORT__ENDPOINT": "none",
        }

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str, **environ: str) -> tuple[int, str, str]:
        code, out, err = self._called(self.folder, {**self.environ, **environ}, *words)
        assert "Traceback" not in out + err
        return code, out, err

    def pytorch(self, *words: str, **environ: str) -> tuple[int, str, str]:
        return self.call("pytorch", "--pytorch-src", str(self.tree), *words, **environ)

    @property
    def runs(self) -> list[Path]:
        return sorted((self.folder / "runs").iterdir())

    def summary(self, run: int = -1) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.runs[run] / "summary.json").read_text(encoding="utf-8"))
        return content


@pytest.fixture
def shop(tmp_path: Path, tree: Path, called: Called) -> Shop:
    return Shop(tmp_path / "shop", tree, called)


def adds_up(run: Path) -> dict[str, Any]:
    """Law 1, by id: what was planned is what has a verdict, once each."""
    plan = json.loads((run / "plan.json").read_text(encoding="utf-8"))
    planned = [one for shard in plan["shards"] for group in shard["groups"] for one in group["ids"]]
    results = read_results(run / "results.jsonl.gz")
    assert sorted(result.id for result in results) == sorted(planned)
    assert len(set(planned)) == len(planned)
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert sum(summary["verdicts"].values()) == summary["planned"] == len(planned)
    cases = [case for path in (run / "junit").glob("*.xml") for case in ET.parse(path).iter("testcase")]  # noqa: S314  # our own file
    assert len(cases) == len(planned)
    return summary


def test_the_whole_way_ends_with_a_report_that_adds_up(shop: Shop) -> None:
    shop.environ["PYTHONPATH"] = str(ROOT)  # with real torch
    words = ("--percent", "100", "--files", "test_devices.py,sub/*", "--cards", "2")
    source = ("--pytorch-src", str(shop.tree))
    with shop.start("pytorch", *source, *words, SPYRE_CI_LANE="nightly-main") as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    run = shop.runs[0]
    summary = adds_up(run)
    assert summary["identity"]["lane"] == "nightly-main"
    assert summary["planned"] == summary["verdicts"]["passed"] == 11
    # As the workers said themselves.
    (where,) = summary["ran_in"]
    assert (where["back_end"], where["image"]) == (summary["identity"]["back_end"], "")
    assert where["torch"] == summary["identity"]["pytorch_version"] != ""
    for text in ("11 planned: 11 passed; run 100.0 %", f"report: {run}/report.html"):
        assert text in out
    for name in (
        "catalog.jsonl.gz", "selection.json", "plan.json", "run.json", "journal/0-1.jsonl",
        "journal/1-1.jsonl", "results.jsonl.gz", "summary.json", "summary.md", "report.html", "junit/0.xml",
    ):  # fmt: skip
        assert (run / name).is_file(), name


def test_a_refused_command_leaves_no_folder_and_the_latest_run_is_one_that_ran(shop: Shop) -> None:
    words = ("--percent", "100", "--files", "sub/*")
    assert shop.pytorch(*words)[0] == 0
    assert shop.pytorch(*words, "-k", "nothing_is_called_so")[0] == 3
    assert shop.pytorch(*words, "--id", "sub/test_nested.py::Nobody::knows")[0] == 2
    assert shop.pytorch("--ff", "--files", "nothing")[0] == 2
    assert shop.pytorch("test_nowhere.py")[0] == 2
    assert shop.call("collect", "--pytorch-src", str(shop.tree), "--files", "nothing")[0] == 2
    ran = shop.runs
    assert len(ran) == 1
    assert shop.pytorch(*words, "--dry-run")[0] == 0
    code, out, _ = shop.call("pytorch", "--resume", "latest")
    assert (code, f"{ran[0].name}: nothing is left to run" in out) == (0, True)


def test_of_a_damaged_run_folder_what_can_be_read_is_reported(shop: Shop) -> None:
    assert shop.pytorch("--percent", "100", "--files", "sub/*,test_outcomes.py", "--cards", "1")[0] == 1
    run, journal = shop.runs[0], shop.runs[0] / "journal" / "0-1.jsonl"
    whole = read_results(run / "results.jsonl.gz")
    plan = (run / "plan.json").read_bytes()
    shutil.rmtree(run / "logs")
    (run / "logs").touch()
    (run / "plan.json").write_bytes(plan[:-40])
    code, out, _ = shop.call("report", run.name)
    assert (code, "plan.json: cannot be read as JSON" in out) == (3, True)
    assert {one.id: one.verdict for one in read_results(run / "results.jsonl.gz")} == {
        one.id: one.verdict for one in whole
    }
    (run / "plan.json").write_bytes(plan)
    (run / "selection.json").write_text("{}", encoding="utf-8")
    journal.unlink()
    journal.mkdir()
    code, out, _ = shop.call("report", run.name)
    assert (code, "journal/0-1.jsonl: Is a directory" in out, "selection.json: " in out) == (3, True, True)
    assert adds_up(run)["verdicts"]["not_run"] > 0


# The second waits until the failure of the first ends the run; resumed, it passes.
_FAILS_AND_WAITS = """
import time
from pathlib import Path

SEEN = Path(__file__).with_suffix(".seen")

def test_a_fails():
    assert False

def test_b_waits():
    if not SEEN.exists():
        SEEN.touch()
        time.sleep(600)

def test_c_is_left():
    pass
"""


def test_a_run_stops_at_its_first_failure_and_is_resumed_for_the_rest(shop: Shop) -> None:
    path = shop.tree / "test" / "test_stops.py"
    path.write_text(_FAILS_AND_WAITS, encoding="utf-8")
    words = ("--percent", "100", "--files", "test_stops.py,sub/*", "--cards", "1", "--retries", "1")
    code, out, _ = shop.pytorch(*words, "-x")  # no failure waits for a second try
    assert (code, "stopped after 1 failure (--max-fail)" in out) == (1, True), out
    summary = adds_up(shop.runs[0])
    assert (summary["exit_code"], summary["interrupted"]) == (1, False)
    left = {
        one.message for one in read_results(shop.runs[0] / "results.jsonl.gz") if one.verdict == "not_run"
    }
    assert left == {"stopped after 1 failure (--max-fail)"}
    assert shop.call("report", shop.runs[0].name)[0] == 1
    assert shop.call("pytorch", "--resume", "latest")[0] == 1
    verdicts = adds_up(shop.runs[0])["verdicts"]
    assert (verdicts["failed"], verdicts["passed"], verdicts["not_run"]) == (1, 3, 0)
    # What has run is not written over because nobody named another folder.
    for verb in (["select"], ["plan", "--shards", "2"], ["run"]):
        code, _, err = shop.call(*verb)
        assert (code, "has already run, and its files are its record" in err) == (2, True), err


@pytest.mark.parametrize(
    ("names", "planned"),
    [
        (["test_outcomes.py::TestOutcomes::test_fails"], 1),
        (["test_outcomes.py::test_function"], 2),
        (["test_outcomes.py::test_function[1-2]"], 1),
        (["test/test_outcomes.py::TestOutcomes", "sub/test_nested.py"], 8),
    ],
)
def test_tests_are_named_as_pytest_takes_them(shop: Shop, names: list[str], planned: int) -> None:
    code, out, _ = shop.pytorch(*names, "--dry-run")
    assert (code, f"selected {planned} of {planned}" in out) == (0, True), out


def test_tests_are_named_by_paths_from_the_root_and_from_here(shop: Shop) -> None:
    path = shop.tree / "test" / "test_outcomes.py"
    (shop.folder / "below").symlink_to(shop.tree)
    names = {
        f"{path}::test_function": 2,
        f"{os.path.relpath(path, shop.folder)}::test_function[1-2]": 1,
        "below/test/test_outcomes.py::test_function": 2,
    }
    for name, planned in names.items():
        code, out, err = shop.pytorch(name, "--dry-run")
        assert (code, f"selected {planned} of {planned}" in out) == (0, True), err


def test_failed_first_is_refused_where_hosts_share_a_plan(shop: Shop) -> None:
    share = str(shop.folder / "share")
    code, _, err = shop.pytorch("--ff", "test_outcomes.py::test_function", SPYRE_CI__RUN__SHARE=share)
    assert (code, f"(run.share: {share})" in err) == (2, True)


def test_last_failed_and_slowest_tests_are_told_as_pytest_does(shop: Shop) -> None:
    words = ("--percent", "100", "--files", "test_outcomes.py", "--cards", "1", "--retries", "0")
    code, out, _ = shop.pytorch(*words, "--durations", "2", "-v", "--lf")
    assert "no earlier run: all tests run" in out
    assert (code, "slowest 2 durations" in out) == (1, True)
    assert re.search(r"^FAIL \[.*s\] test_outcomes.py::TestOutcomes::test_fails ", out, re.MULTILINE)
    failed = shop.summary()["verdicts"]["failed"]
    code, out, _ = shop.pytorch(*words, "--ff", "-q")
    lines = (shop.runs[-1] / "journal" / "0-1.jsonl").read_text(encoding="utf-8").splitlines()
    order = [row["id"] for row in map(json.loads, lines) if row["e"] == "start"]
    bad = {one.id for one in read_results(shop.runs[0] / "results.jsonl.gz") if one.verdict == "failed"}
    assert set(order[:failed]) == bad
    assert set(order) > bad
    told = out.splitlines()
    assert told[-1].startswith("exit 1: "), told
    assert not any("selected" in line or "planned" in line for line in told)
    assert shop.pytorch("--lf", "--retries", "0")[0] == 1
    assert shop.summary()["planned"] == failed
    named = "test_outcomes.py::TestOutcomes::test_fails"
    assert shop.pytorch("--lf", named, "--retries", "0")[0] == 1
    assert shop.summary()["planned"] == 1
    code, _, err = shop.pytorch(named, "test_outcomes.py::TestOutcomes::test_nope")
    assert (code, "there is no test 'test_outcomes.py::TestOutcomes::test_nope'" in err) == (2, True), err


def test_an_expression_that_matches_nothing_is_named_with_how_many_tests_there_are(shop: Shop) -> None:
    code, _, err = shop.pytorch("--percent", "100", "--files", "test_outcomes.py,sub/*", "-k", "xyz")
    assert (code, "-k 'xyz' matches none of 10 tests" in err) == (3, True), err


def test_only_one_number_of_failures_is_taken(shop: Shop) -> None:
    code, _, err = shop.pytorch("-x", "--max-fail", "2")
    assert (code, "-x and --max-fail 2 are given" in err) == (2, True)


@pytest.mark.gate
def test_the_second_run_uses_the_cache_and_the_measured_seconds(shop: Shop) -> None:
    words = ("--percent", "100", "--files", "sub/*")
    shop.pytorch(*words)
    code, out, _ = shop.pytorch(*words)
    assert code == 0
    assert "1 of them from the cache" in out
    durations = shop.runs[1] / "durations.json.gz"
    assert durations.stat().st_size > (shop.runs[0] / "durations.json.gz").stat().st_size


@pytest.mark.gate
def test_a_file_that_cannot_be_collected_is_said_first_and_ends_with_3(shop: Shop) -> None:
    words = ("--percent", "100", "--files", "test_import_error.py,test_import_exit.py,sub/*")
    code, out, _ = shop.pytorch(*words)
    assert code == 3
    assert "collected 1 test of 3 files; 1 could not be collected; 1 holds no test for cpu" in out
    table = out[out.index("1 file could not be collected") :]
    assert "ImportError: cannot import name 'no_such_name_in_torch'" in table.splitlines()[1]
    assert adds_up(shop.runs[0])["collect_errors"][0]["file"] == "test_import_error.py"
    code, _, _ = shop.pytorch(*words, "--allow-collect-errors")
    assert code == 0


@pytest.mark.gate
def test_a_file_that_could_not_be_collected_is_run_again_beside_what_failed(shop: Shop) -> None:
    test = shop.tree / "test"
    mended = (test / "test_outcomes.py").read_text(encoding="utf-8")
    (test / "test_broken.py").write_text("import nosuchthing\n", encoding="utf-8")
    words = ("--percent", "100", "--retries", "0", "--files")
    assert shop.pytorch(*words, "test_broken.py,sub/*")[0] == 3
    code, out, _ = shop.pytorch("--last-failed", "latest")
    assert code == 3
    assert "rerun: all tests of 1 file that could not be collected (test_broken.py)" in out
    assert shop.pytorch(*words, "test_broken.py,test_outcomes.py")[0] == 3
    (test / "test_broken.py").write_text(mended, encoding="utf-8")
    # A pattern of which nothing is run again is no mistake.
    code, _, _ = shop.pytorch("--last-failed", "latest", "--files", "test_broken.py,test_outcomes.py,sub/*")
    assert code == 1
    first, second = adds_up(shop.runs[0]), adds_up(shop.runs[-1])
    assert first["collect_errors"]
    assert not second["collect_errors"]
    assert second["planned"] == 4 + 9
    assert second["verdicts"]["failed"] == 8


@pytest.mark.gate
def test_a_file_whose_name_ids_encode_is_run_again_by_id_and_by_run(shop: Shop) -> None:
    shutil.copy(shop.tree / "test" / "test_outcomes.py", shop.tree / "test" / "test_p%q.py")
    assert shop.pytorch("--percent", "100", "--files", "test_p%q.py")[0] == 1
    assert shop.pytorch("--last-failed", "latest", "--files", "test_p*")[0] == 1
    assert [adds_up(run)["planned"] for run in shop.runs][1] == 4
    code, out, _ = shop.pytorch("--id", "test_p%25q.py::TestOutcomes::test_fails")
    assert code == 1, out


@pytest.mark.gate
def test_files_whose_names_are_no_utf_8_go_through_the_whole_job_beside_good_ones(shop: Shop) -> None:
    test = shop.tree / "test"
    shutil.copy(test / "test_outcomes.py", test / os.fsdecode(b"test_o\xff.py"))
    (test / os.fsdecode(b"test_o\xfe.py")).write_text("raise RuntimeError(__file__)\n", encoding="utf-8")
    words = ("--percent", "100", "--retries", "0", "--cards", "1", "--files", "test_o*.py")
    code, out, err = shop.pytorch(*words, "--json", "--events", "events.jsonl")
    assert (code, "Traceback" in err) == (3, False), err
    assert json.loads(out) == adds_up(shop.runs[0])
    assert [one["file"] for one in shop.summary()["collect_errors"]] == ["test_o\udcfe.py"]
    assert shop.summary()["verdicts"]["failed"] == 8
    page = {"summary.md": "RuntimeError", "report.html": "RuntimeError", "junit/0.xml": "test_o%ED%B3%BF.py"}
    for name, said in page.items():
        assert said in (shop.runs[0] / name).read_text(encoding="utf-8")
    # A second time from the cache, by the id alone.
    assert shop.pytorch("--id", "test_o%ED%B3%BF.py::TestOutcomes::test_fails")[0] == 1


def test_a_dry_run_shows_the_plan_and_runs_nothing(shop: Shop) -> None:
    code, out, _ = shop.pytorch(
        "--percent", "100", "--files", "test_outcomes.py,sub/*", "--dry-run", "--cards", "2"
    )
    assert code == 0
    assert "shard 1:" in out
    assert "test_outcomes.py:" in out
    assert not (shop.runs[0] / "journal").exists()


@pytest.mark.gate
def test_broken_seconds_cost_the_shares_by_seconds_alone(shop: Shop) -> None:
    shop.pytorch("--percent", "100", "--files", "test_outcomes.py")
    path = shop.runs[0] / "durations.json.gz"
    path.write_bytes(path.read_bytes()[:-9])
    code, out, _ = shop.call("report", shop.runs[0].name)
    assert code == 1
    assert "shares by seconds are omitted: " in out
    assert "durations.json.gz" in out


@contextlib.contextmanager
def running(shop: Shop, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The main job with a hanging test, once that test has begun."""
    process = shop.start("pytorch", "--pytorch-src", str(shop.tree), "--percent", "100", *words)
    try:
        for _ in range(2400):
            journals = [path for run in shop.folder.glob("runs/*/journal/*.jsonl") for path in [run]]
            if any(
                '"start","id":"test_process_faults.py::TestFaults::test_g_hang' in j.read_text()
                for j in journals
            ):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
                break
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


HANG = ("--files", "test_process_faults.py", "-k", "a_passes or g_hang or l_passes", "--cards", "1")


@pytest.mark.gate
def test_a_run_goes_on_when_nobody_reads_its_output(shop: Shop) -> None:
    process = shop.start("pytorch", "--pytorch-src", str(shop.tree), "--percent", "100", "--files", "sub/*")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=TIMEOUT_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    summary = adds_up(shop.runs[0])
    assert summary["planned"] == summary["verdicts"]["passed"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_collecting_ends_with_130_and_one_message(
    shop: Shop, number: signal.Signals
) -> None:
    begun = shop.tree / "begun"
    text = f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)\n"
    (shop.tree / "test" / "test_slow_import.py").write_text(text, encoding="utf-8")
    process = shop.start("pytorch", "--pytorch-src", str(shop.tree), "--files", "test_slow_import.py")
    for _ in range(600):
        if begun.exists():
            break
        time.sleep(0.1)
    for _ in range(2):  # the second does not disturb the ending
        process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "spyre-ci: interrupted\n")


@pytest.mark.gate
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_it_did_and_ends_with_130(shop: Shop, number: signal.Signals) -> None:
    with running(shop, *HANG) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, err
    summary = adds_up(shop.runs[0])
    assert summary["verdicts"]["passed"] == 1
    assert summary["verdicts"]["not_run"] == 2
    assert "interrupted" in out


@pytest.mark.gate
def test_a_run_whose_folder_a_test_deletes_is_reported_all_the_same(shop: Shop, tmp_path: Path) -> None:
    tests = tmp_path / "deletes" / "test"
    tests.mkdir(parents=True)
    runs = shop.folder / "runs"
    (tests / "test_a.py").write_text("def test_passes(): pass\n", encoding="utf-8")
    (tests / "test_b.py").write_text(
        "import pathlib, shutil\n\n\ndef test_deletes():\n"
        f"    shutil.rmtree(next(pathlib.Path({str(runs)!r}).iterdir()))\n",
        encoding="utf-8",
    )
    words = ("--pytorch-src", str(tests.parent), "--percent", "100", "--cards", "1")
    code, out, err = shop.call("pytorch", *words)
    assert (code, adds_up(shop.runs[0])["verdicts"]["passed"]) == (0, 2), err
    assert f"a test deleted files of {shop.runs[0]}; they were put back: catalog.jsonl.gz" in out + err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--stage", "9"], 2, ["there is no stage 9", "the stages are 0 (0 %), 1 (5 %)"]),
        (["--stage", "1", "--percent", "5"], 2, ["both --stage 1 and --percent 5", "give one of them"]),
        (["--pytorch-src", "/nowhere"], 2, ["/nowhere", "no such folder or archive", "--pytorch-src"]),
        (["--files", "test_nowhere.py"], 2, ["no test file matches 'test_nowhere.py'", "relative to"]),
        (["--files", "sub/*", "-k", "nowhere"], 3, ["-k 'nowhere' matches none of 1 test", "leave -k out"]),
        (["--files", "sub/*", "-k", "and and"], 2, ["and and"]),
        (["--files", "sub/*", "--device", "npu"], 2, ["npu"]),
        (["--frobnicate"], 2, ["--frobnicate"]),
        (["--last-failed", "nowhere"], 2, ["there is no run 'nowhere'"]),
        (["--last-failed", ""], 2, ["--last-failed is empty", "give `latest` for the last run"]),
        (["test_[*].py"], 2, ["there is no test file 'test_[*].py'", "--files 'test_[*].py'"]),
        (["/nowhere/test_a.py"], 2, ["'/nowhere/test_a.py' is not in the tests' folder", "--pytorch-src"]),
        (["../test_a.py::T"], 2, ["'../test_a.py' is not in the tests' folder"]),
    ],
)
def test_what_cannot_be_taken_is_told_in_one_message(
    shop: Shop, words: list[str], code: int, said: list[str]
) -> None:
    ended, out, err = shop.pytorch(*words)
    assert ended == code, (out, err)
    for text in said:
        assert text in err


def test_stage_0_runs_no_tests_says_so_and_ends_well(shop: Shop) -> None:
    code, out, _ = shop.pytorch("--stage", "0")
    assert code == 0
    assert "no PyTorch tests run" in out
    assert not (shop.folder / "runs").exists()


@pytest.mark.parametrize(("name", "words"), [("spyre-ci.yaml", ()), ("mine.yaml", ("--config", "mine.yaml"))])
def test_a_bad_setting_is_told_with_its_line_and_its_file_may_be_named_behind_the_verb(
    shop: Shop, name: str, words: tuple[str, ...]
) -> None:
    (shop.folder / name).write_text("run:\n  crads: 2\n", encoding="utf-8")
    code, _, err = shop.pytorch(*words)
    assert code == 2
    assert f"{name}:2: unknown key 'run.crads', did you mean 'cards'?" in err
