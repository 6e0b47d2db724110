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

from ci.bisect.executor import MARK
from ci.cli.app import run
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.runner.orphans import find_orphans
from tests.past_runs import record

from .conftest import TEST, Maker, Project

ROOT = Path(__file__).parents[3]
WHEELS = """\
device: {name: cpu}
bisect:
  builder: wheel
  command: [PYTHON, -m, pip, wheel, --quiet, --no-deps, --no-build-isolation, --wheel-dir, "{out}", "{tree}"]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose own package is called as ours is."""
    (tmp_path / "shop" / "ci").mkdir(parents=True)
    (tmp_path / "shop" / "ci" / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("SPYRE_CI__DEVICE__NAME", "cpu")
    monkeypatch.setenv("COLUMNS", "200")


def start(*words: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ci.cli", "bisect", *words],
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
    made: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = made(commits=2, broken=1)
    words = [*ends(project), "--confidence", "0.5", "--workers", "2", TEST]
    code, out, err = call(*words, "--json", SPYRE_CI_HUD_TOKEN="secret-of-the-job")
    document = json.loads(out)
    assert (code, document["exit_code"]) == (0, 0), err
    result = document["result"]
    (candidate,) = result["candidates"]
    assert (result["kind"], result["sure"], candidate["sha"]) == ("found", True, project.commits[1])
    assert (candidate["subject"], candidate["pull_request"]) == ("Change 1 (#1001)", 1001)
    failed = [one for one in document["tries"] if not one["passed"]]
    assert {one["message"].partition(":")[0] for one in failed} == {"AssertionError"}
    (folder,) = Path("runs").iterdir()
    assert project.commits[1] in (folder / "issue.md").read_text(encoding="utf-8")
    assert not (folder / "work").exists()
    assert len(list((folder / "tries").iterdir())) == len(failed)
    assert not Path(".spyre-ci/store.sqlite").exists()  # a try is not a result of a schedule
    text = "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())
    assert "secret-of-the-job" not in text + out + err
    # Nothing is searched twice, unless more certainty is asked for or a branch moved on.
    assert run(["bisect", *words]) == 0
    assert "made before" in capsys.readouterr().out
    assert the_record()["tries"] == document["tries"]
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(project.folder), str(clone)], check=True)
    assert run(["bisect", "--pytorch-src", str(clone), *words[2:], "--dry-run"]) == 0
    assert "made before" not in capsys.readouterr().out


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_is_cut_off_resumes(made: Maker, tmp_path: Path, how: signal.Signals) -> None:
    project, waits = made(commits=2, broken=1), tmp_path / "waits"
    words = [*ends(project), "--confidence", "0.5", TEST]
    with start(*words, SHOUT_WAITS=str(waits)) as process:
        until = time.monotonic() + 120
        while not waits.exists() and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        refused, _, said = call(*words)  # two of the same do not run at once
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
    assert (refused, "is being run right now" in said) == (2, True)
    assert process.returncode == (130 if how is signal.SIGINT else -how), err
    before = the_record()
    assert (before["tries"], before["skipped"], before["result"]) == ([], {}, None)
    (folder,) = Path("runs").iterdir()
    left = find_orphans(str(folder.resolve()), spare=(), variable=MARK)
    assert bool(left) == (folder / "work").exists() == (how is signal.SIGKILL)
    code, _, err = call(*words)
    assert code == 0, err
    assert not find_orphans(str(folder.resolve()), spare=(), variable=MARK)
    assert not (folder / "work").exists()


def test_ends_come_from_the_history(made: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    project = made(commits=20, broken=12)
    Path(".spyre-ci").mkdir()
    verdicts = {2: "passed", 4: "passed", 6: "passed", 15: "failed", 16: "hardware", 17: "failed"}
    for position, verdict in verdicts.items():
        identity = RunIdentity(
            run=f"r{position}", run_id=position + 1, run_attempt=1, device="cpu", pytorch_version="2",
            stage=1, pytorch_sha=project.commits[position], percent=5, started_at=1e9 + position,
            lane="nightly-main",
        )  # fmt: skip
        result = Result(id=TEST, verdict=Verdict(verdict), attempts=1)
        record(Path(".spyre-ci/store.sqlite"), identity, [result], {})
    words = ["bisect", "--pytorch-src", str(project.folder), "--dry-run", "--json", TEST]
    for more, positions in (([], (6, 15)), (["--good", project.commits[0]], (0, 15))):
        assert run([*words, *more]) == 0
        commits = json.loads(capsys.readouterr().out)["commits"]
        assert (project.position(commits[0]), project.position(commits[-1])) == positions
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--good", "nothing", "--bad", "main", TEST], "'nothing' is not a commit of"),
        (["--good", "main", "--bad", "main~2", TEST], "comes before it"),
        (["--good", "main", TEST], "there is no history yet"),
        ([], "no test is named"),
        (["no-id-at-all"], "no-id-at-all"),
        (["--builder", "wheel", TEST], "needs a `command`"),
        (["--builder", "guess", TEST], "bisect.builder"),
        (["--confidence", "1.5", TEST], "bisect.confidence"),
        (["--pytorch-src", "/nowhere", "--good", "a", "--bad", "b", TEST], "cannot change to '/nowhere'"),
        (["--pytorch-src", "/", "--good", "a", "--bad", "b", TEST], "not a git repository"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    made: Maker, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    project = made(commits=5)
    source = [] if "--pytorch-src" in words else ["--pytorch-src", str(project.folder)]
    assert run(["bisect", *source, *words]) == 2
    captured = capsys.readouterr()
    assert (said in captured.err, "remedy: " in captured.err, captured.out) == (True, True, ""), captured.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("words", [[], ["--pytorch-src", "git+https://git.example/pytorch@main"]])
def test_a_search_without_a_clone_says_how_to_name_one(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bisect", *words, TEST]) == 2
    assert "no clone of PyTorch is named" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_wheels_of_sixty_four_commits_are_searched_by_four_in_three_rounds(made: Maker) -> None:
    project = made(commits=64, broken=41)
    Path("spyre-ci.yaml").write_text(WHEELS.replace("PYTHON", sys.executable), encoding="utf-8")
    code, out, err = call(
        *ends(project),
        "--workers",
        "4",
        "--confidence",
        "0.9",
        TEST,
        "--json",
        SHOUT_IS_OF=".spyre-ci/bisect/",
    )
    document = json.loads(out)
    assert (code, document["result"]["candidates"][0]["sha"]) == (0, project.commits[41]), err
    assert max(one["round"] for one in document["tries"]) <= 3
    kept = {path.parent.name: path.parent for path in Path(".spyre-ci/bisect").glob("*/*/whole")}
    assert set(kept) == {document["commits"][one["position"]] for one in document["tries"]}
    for sha, folder in kept.items():
        assert [one.name for one in folder.glob("shout-*")] == [f"shout-1.{project.position(sha)}.dist-info"]


NO_LUCK = [sys.executable, "-c", "import sys; sys.exit(f'no luck with {sys.argv[1]}')", "{sha}; touch x"]


@pytest.mark.parametrize(
    ("builder", "command", "code", "said"),
    [
        ("image", ["true", "{tag}"], 3, "no container engine answers"),
        ("wheel", NO_LUCK, 2, "no luck with SHA; touch x"),
        ("wheel", ["true"], 2, "left no wheel"),
        ("wheel", ["no-such-program"], 3, "is not installed"),
    ],
)
def test_a_bad_end_that_cannot_be_tried_ends_the_search(
    made: Maker, builder: str, command: list[str], code: int, said: str
) -> None:
    project = made(commits=3, broken=2)
    environ = {"SPYRE_CI__BISECT__COMMAND": json.dumps(command), "DOCKER_HOST": "unix:///nowhere/none.sock"}
    ended, out, err = call(*ends(project), "--builder", builder, "--json", TEST, **environ)
    assert (ended, out) == (code, "")
    assert said.replace("SHA", project.commits[2]) in err
    record = the_record()  # nothing of it is held against a commit
    assert (record["tries"], record["skipped"], record["result"]) == ([], {}, None)
    assert not list(Path("runs").glob("*/work"))
    assert not list(Path.cwd().rglob("x"))
    logs = [path.read_text(encoding="utf-8") for path in Path(".spyre-ci/bisect").glob("build-*.log")]
    assert logs == ([f"no luck with {project.commits[2]}; touch x\n"] if "SHA" in said else [])


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_commits_without_the_test_or_with_a_broken_file_are_skipped(made: Maker) -> None:
    project = made(commits=5, broken=4, young=2, odd=3)
    code, out, err = call(*ends(project), "--confidence", "0.5", "--json", TEST)
    document = json.loads(out)
    assert code == 3, err
    assert document["result"]["kind"] == "range"
    assert all("cannot be tested" in why for why in document["skipped"].values())
    assert project.commits[3] in document["skipped"]
    assert {one["position"] for one in document["tries"] if not one["passed"]} == {4}
