"""`spyre-ci bisect` as it is typed, with the runner and real tests; and what it says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ci.bisect import bisect
from ci.bisect.asking import Limits, finding
from ci.bisect.belief import Tally
from ci.bisect.executors import MARK
from ci.bisect.record import Record, write_record
from ci.bisect.text import result_of
from ci.cli.app import run
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.runner.orphans import find_orphans
from tests.json_documents import differences
from tests.past_runs import record

from .conftest import TEST, Maker, Project

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("SPYRE_CI__DEVICE__NAME", "cpu")
    monkeypatch.setenv("COLUMNS", "200")


def start(*words: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ci.cli", "bisect", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(*words: str, **environ: str) -> tuple[int, str, str]:
    with start(*words, **environ) as process:
        out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def ends(project: Project) -> list[str]:
    return ["--pytorch-src", str(project.folder), "--good", project.commits[0], "--bad", "main"]


def the_record() -> dict[str, Any]:
    (path,) = Path("runs").glob("bisect-*/bisect.json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_the_commit_is_named_with_its_pull_request(
    made: Maker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = made(commits=2, broken=1)
    words = [*ends(project), "--confidence", "0.8", "--workers", "2", TEST]
    monkeypatch.setenv("SPYRE_CI_HUD_TOKEN", "secret-of-the-job")
    code, out, err = call(*words, "--json")
    document = json.loads(out)
    assert differences("bisect", document) == []
    assert (code, document["exit_code"]) == (0, 0), err
    result = document["result"]
    assert (result["kind"], result["sure"], result["first"]) == ("found", True, 1)
    (candidate,) = result["candidates"]
    assert candidate["sha"] == project.commits[1]
    assert (candidate["subject"], candidate["pull_request"]) == ("Change 1 (#1001)", 1001)
    assert {one["card"] for one in document["tries"]} <= {"cpu:0", "cpu:1"}
    assert {one["message"].partition(":")[0] for one in document["tries"] if one["said"] == "failed"} == {
        "AssertionError"
    }
    (folder,) = Path("runs").iterdir()
    assert project.commits[1] in (folder / "issue.md").read_text(encoding="utf-8")
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    assert not (folder / "work").exists()
    assert not Path(".spyre-ci/store.sqlite").exists()  # a try is no result of a lane
    text = "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())
    assert "secret-of-the-job" not in text + out + err
    # Once more: nothing is searched again.
    assert run(["bisect", *words]) == 0
    assert "searched before" in capsys.readouterr().out
    assert the_record()["tries"] == document["tries"]


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_is_cut_off_goes_on(made: Maker, tmp_path: Path, how: signal.Signals) -> None:
    project, waits = made(commits=2, broken=1), tmp_path / "waits"
    words = [*ends(project), "--confidence", "0.8", TEST]
    with start(*words, SHOUT_WAITS=str(waits)) as process:
        until = time.monotonic() + 120
        while not waits.exists() and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        # Two of the same do not run at once.
        refused, told, said = call(*words)
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
    assert refused == 2, told
    assert "is being run right now" in said
    assert process.returncode == (130 if how is signal.SIGINT else -how), err
    assert waits.exists()
    before = the_record()
    assert (before["tries"], before["barred"], before["result"]) == ([], {}, None)
    (folder,) = Path("runs").iterdir()
    left = find_orphans(str(folder.resolve()), spare=(), variable=MARK)
    assert not left if how is signal.SIGINT else left
    assert (folder / "work").exists() == (how is signal.SIGKILL)
    code, out, err = call("--resume", "latest", "--confidence", "0.8")
    assert code == 0, err
    assert "going on: 0 tries were made" in out
    assert the_record()["result"]["first"] == 1
    assert not find_orphans(str(folder.resolve()), spare=(), variable=MARK)
    assert not (folder / "work").exists()


def remember(project: Project, outcomes: dict[int, Verdict]) -> None:
    for position, verdict in outcomes.items():
        identity = RunIdentity(
            run=f"r{position}", run_id=position + 1, run_attempt=1, device="cpu", pytorch_version="2",
            stage=1, pytorch_sha=project.commits[position], percent=5, started_at=1e9 + position,
            lane="nightly-main",
        )  # fmt: skip
        record(Path(".spyre-ci/store.sqlite"), identity, [Result(id=TEST, verdict=verdict, attempts=1)], {})


def test_ends_come_from_the_history(made: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    project = made(commits=20, broken=12)
    Path(".spyre-ci").mkdir()
    remember(project, {2: Verdict.PASSED, 4: Verdict.PASSED, 6: Verdict.PASSED, 15: Verdict.FAILED})
    remember(project, {16: Verdict.HARDWARE, 17: Verdict.FAILED, 18: Verdict.FAILED})
    said = ["bisect", "--pytorch-src", str(project.folder), "--dry-run", "--json", TEST]
    assert run(said) == 0
    document = json.loads(capsys.readouterr().out)
    assert differences("bisect", document) == []
    assert project.position(document["commits"][0]) in {2, 4, 6}
    assert project.position(document["commits"][-1]) == 15
    assert document["history"]["0"] == {"passed": 1, "failed": 0}
    assert not Path("runs").exists()
    assert run([*said[:-1], "--good", project.commits[0], TEST]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["commits"][0] == project.commits[0]
    assert "0" not in document["history"]


def test_an_ended_search_of_other_commits_is_past(
    made: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project, searched = made(commits=5, broken=2), list[str]()

    def at_once(_context: object, folder: Path, record: Record) -> None:
        searched.append(record.commits[-1])
        found = finding(record.belief().after(record.last, Tally(failed=9)), Limits(confidence=0.5))
        record.result = result_of(record, found, confidence=0.9, about=[]) | {"sure": True}
        write_record(folder, record)

    monkeypatch.setattr(bisect, "_search", at_once)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(project.folder), str(clone)], check=True)
    words = ["bisect", "--pytorch-src", str(clone), "--good", project.commits[0], "--bad", "main", TEST]
    words += ["--confidence", "0.9"]
    for moved, times in ((None, 1), (None, 1), (project.commits[3], 2), (None, 2)):
        if moved is not None:
            subprocess.run(["git", "-C", str(clone), "reset", "--quiet", "--hard", moved], check=True)
        assert run(words) in {0, 3}
        assert len(searched) == times
    assert searched == [project.commits[4], project.commits[3]]
    assert run(["bisect", "--resume", "latest", "--confidence", "0.9"]) in {0, 3}
    assert len(searched) == 2
    # Who wants to be surer than that is not told that it was searched before.
    assert run(["bisect", "--resume", "latest", "--confidence", "0.95"]) in {0, 3}
    assert len(searched) == 3
    capsys.readouterr()
    # One that was begun with a command goes on only with one.
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path / "shop")
    content = the_record() | {"builder": "wheel", "result": None}
    (path,) = Path("runs").glob("bisect-*/bisect.json")
    path.write_text(json.dumps(content), encoding="utf-8")
    assert run(["bisect", "--resume", str(path.parent)]) == 2
    assert "no command builds now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--good", "nothing", "--bad", "main", TEST], "'nothing' is no commit of the repository"),
        (["--good", "main", "--bad", "main~2", TEST], "comes before the good end"),
        (["--good", "main", TEST], "there is no history yet"),
        (["--absent", "maybe", TEST], "--absent is 'maybe'"),
        (["--resume", "latest", TEST], "--resume is given with a test"),
        (["--resume", "latest"], "there is no bisect yet"),
        (["--resume", "nowhere"], "there is no run 'nowhere'"),
        ([], "no test is named"),
        (["no-id-at-all"], "no-id-at-all"),
        (["--builder", "wheel", TEST], "needs a `command`"),
        (["--builder", "guess", TEST], "bisect.builder"),
        (["--confidence", "1.5", TEST], "bisect.confidence"),
        (["--pytorch-src", "git+https://example.org/x@main", TEST], "is no clone here"),
        (["--pytorch-src", "/nowhere", TEST], "there is no such folder"),
    ],
)
def test_what_cannot_be_searched_is_told(
    made: Maker, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    project = made(commits=5)
    source = [] if "--pytorch-src" in words or "--resume" in words else ["--pytorch-src", str(project.folder)]
    assert run(["bisect", *source, *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert not Path("runs").exists()


SETTINGS = """\
device: {name: cpu}
bisect:
  builder: wheel
  command: [PYTHON, -m, pip, wheel, --quiet, --no-deps, --no-build-isolation, --wheel-dir, "{out}", "{tree}"]
"""


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_wheels_of_sixty_four_commits_are_searched_by_four_in_three_rounds(made: Maker) -> None:
    project = made(commits=64, broken=41)
    Path("spyre-ci.yaml").write_text(SETTINGS.replace("PYTHON", sys.executable), encoding="utf-8")
    words = [*ends(project), "--workers", "4", "--confidence", "0.9", TEST]
    code, out, err = call(*words, "--json")
    document = json.loads(out)
    assert (code, document["result"]["first"]) == (0, 41), err
    assert len(document["rounds"]) <= 3
    kept = {path.parent.name: path.parent for path in Path(".spyre-ci/bisect").glob("*/*/whole")}
    asked = {document["commits"][position] for rounds in document["rounds"] for position in rounds}
    assert set(kept) == asked
    # It is the wheel that was imported, and its own version.
    for sha, folder in kept.items():
        (found,) = folder.glob("lib/*/site-packages/shout-*.dist-info")
        assert found.name == f"shout-1.{project.position(sha)}.dist-info"


def test_where_no_machine_can_try_nothing_is_answered(made: Maker, tmp_path: Path) -> None:
    project = made(commits=3, broken=2)
    environ = {
        "SPYRE_CI__BISECT__COMMAND": json.dumps(["true", "{tag}"]),
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
    }
    words = [*ends(project), "--builder", "image", "--json", TEST]
    code, out, err = call(*words, **environ)
    assert (code, out) == (3, "")
    assert "no container engine answers" in err
    record = the_record()  # nothing of it is kept against a commit
    assert (record["tries"], record["barred"], record["result"]) == ([], {}, None)
    assert not list(Path("runs").glob("*/work"))


def test_a_bad_end_that_cannot_be_built_is_told_with_what_the_build_said(made: Maker) -> None:
    project = made(commits=3, broken=2)
    command = [sys.executable, "-c", "import sys; sys.exit(f'no luck with {sys.argv[1]}')", "{sha}; touch x"]
    environ = {"SPYRE_CI__BISECT__COMMAND": json.dumps(command)}
    code, _, err = call(*ends(project), "--builder", "wheel", TEST, **environ)
    assert code == 2
    assert f"the bad end {project.commits[2][:12]} cannot be built" in err
    assert f"no luck with {project.commits[2]}; touch x" in err
    (log,) = Path(".spyre-ci/bisect").glob("build-*.log")
    assert "no luck" in log.read_text(encoding="utf-8")
    assert the_record()["tries"] == []
    assert not list(Path.cwd().rglob("x"))


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_commits_without_the_test_or_with_a_broken_file_are_no_answers(made: Maker) -> None:
    project = made(commits=5, broken=4, young=2, odd=3)
    words = [*ends(project), "--confidence", "0.8", "--absent", "good", "--json", TEST]
    code, out, err = call(*words)
    document = json.loads(out)
    assert code == 3, err
    assert (document["result"]["kind"], document["result"]["sure"]) == ("range", True)
    assert (document["result"]["first"], document["result"]["last"]) == (3, 4)
    assert "cannot be collected" in document["barred"]["3"]
    assert {one["position"] for one in document["tries"] if one["said"] == "failed"} == {4}
