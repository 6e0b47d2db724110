"""A plan is made for other machines, its legs run there, and one report is made of what they hand over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.pipeline.plan import FILE, tree_of
from test_selection.durations import Durations, write_durations
from test_selection.files import read_json
from test_selection.plan import read_plan
from tests.integration.conftest import need

from .repository import Repository

ROOT = Path(__file__).parents[3]
IMAGE = f"registry.example/spyre@sha256:{'a' * 64}"
SETTINGS = """\
stage: 1
stages: {1: {cards: 3}}
report: {endpoint: none}
matrix: {runner_cards: [0, 1]}
device: {emulated: allow}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A checkout with settings of its own, in which verbs are called."""
    folder = tmp_path / "project"
    folder.mkdir()
    made = Repository(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit({"spyre-ci.yaml": SETTINGS, ".gitignore": "runs/\n.spyre-ci/\n"})
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "JENKINS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPYRE_CI_IMAGE", IMAGE)
    return made


def plan(tree: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """`spyre-ci pipeline plan` of the quick files of a small tree; its code and outputs."""
    out = Path("runs/outputs.json")
    code = run(
        [
            "pipeline",
            "plan",
            "--pytorch-src",
            str(tree),
            "--files",
            "test_outcomes.py",
            "--out",
            str(out),
            *words,
        ]
    )
    return code, json.loads(out.read_text()) if out.exists() else {}


def parts_of(run_dir: Path) -> dict[str, str]:
    parts: dict[str, str] = read_json(run_dir / FILE, "plan-identity")["parts"]
    return parts


def test_a_plan_is_dealt_and_known_by_what_decides_it(project: Repository, tree: Path) -> None:
    code, first = plan(tree, "--percent", "100", "--shards", "2")
    assert code == 0
    assert first["schema"] == "spyre-ci/pipeline-plan/1"
    assert [row["shards"] for row in first["matrix"]["include"]] == ["0", "1"]
    assert (first["kind"], first["legs"], first["run"]) == ("legs", 2, "ci")
    made = read_plan(Path("runs/ci/plan.json"))
    assert (first["tests"], first["fingerprint"]) == (len(made.ids), made.fingerprint)
    parts = parts_of(Path("runs/ci"))
    assert parts["tree"] == project.git("rev-parse", "HEAD^{tree}")
    assert parts["image"] == IMAGE
    # Another commit of the same tree is the same work; another tree, or one that was changed, is not.
    project.commit({})
    assert tree_of(project.folder) == parts["tree"]
    project.commit({"a.py": "1\n"})
    plan(tree, "--percent", "100", "--shards", "2")
    assert {k for k, v in parts_of(Path("runs/ci")).items() if v != parts[k]} == {"tree"}
    (project.folder / "a.py").write_text("2\n")
    assert tree_of(project.folder) == ""
    assert tree_of(tree) == ""


@pytest.mark.nightly
def test_more_legs_than_a_matrix_has_are_several_matrices_and_many_branches(
    project: Repository, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ci.main_job import cli_matrix as module  # noqa: PLC0415  # only this test changes it

    monkeypatch.setattr("test_selection.ci_jobs.GITHUB_LEGS", 2)
    monkeypatch.setattr(module, "GITHUB_LEGS", 2)
    _, found = plan(tree, "--percent", "100", "--shards", "3")
    assert (found["kind"], found["legs"]) == ("matrices", 3)
    inner = [json.loads(row["matrix"])["include"] for row in found["matrix"]["include"]]
    assert [len(rows) for rows in inner] == [1, 2]
    _, found = plan(tree, "--percent", "100", "--shards", "3", "--for", "jenkins")
    assert (found["kind"], list(found["matrix"])) == ("legs", ["leg-000", "leg-001", "leg-002"])
    assert project.git("status", "--porcelain") == ""


@pytest.mark.nightly
def test_a_machine_without_a_history_plans_by_the_durations_that_were_exported(
    project: Repository, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--percent", "100")
    assert plan(tree, *words)[1]["legs"] == 1
    slow = dict.fromkeys(read_plan(Path("runs/ci/plan.json")).ids[:2], 700.0)
    write_durations(project.folder / "durations.json.gz", Durations(tests=slow))
    _, found = plan(tree, *words)
    assert found["legs"] > 1
    assert read_plan(Path("runs/ci/plan.json")).makespan_s >= 700
    (project.folder / "durations.json.gz").write_bytes(b"no gzip")
    capsys.readouterr()
    code, found = plan(tree, *words)
    assert (code, found["legs"]) == (0, 1)
    assert "durations: not read, so seconds are guessed" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_an_input_nobody_gave_is_the_stage_in_force(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_CI__STAGE", "")
    code, found = plan(tree)
    assert code == 0
    assert found["tests"] > 0
    monkeypatch.setenv("SPYRE_CI__STAGE", "0")
    assert plan(tree)[1]["tests"] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--stage 9", 2, "there is no stage 9"),
        ("--files gone.py", 2, "gone.py"),
        pytest.param(
            "--files test_outcomes.py -k no_such_test", 3, "matches none of 9", marks=pytest.mark.nightly
        ),
        ("--files test_import_error.py", 3, "the plan holds no test"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_planned_is_told(
    tree: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, said: str
) -> None:
    share = [] if "--stage" in words else ["--percent", "100"]
    assert run(["pipeline", "plan", "--pytorch-src", str(tree), *share, *words.split()]) == code
    assert said in capsys.readouterr().err


def test_the_folder_of_a_run_that_has_begun_is_left_alone(
    project: Repository, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = project.folder / "runs/ci/journal/0-1.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n")
    assert plan(tree)[0] == 2
    assert "is the folder of a run that has begun" in capsys.readouterr().err
    assert [path.name for path in (project.folder / "runs/ci").iterdir()] == ["journal"]


# What a leg is handed, and what it hands over.
HANDED = ("plan.json", "selection.json", "run.json", "source.json", "durations.json.gz")


def nox(folder: Path, session: str, *words: str, **environ: str) -> str:
    """One nox session of this toolkit, called in a project, in the environment as it is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))}
    ended = subprocess.run(
        [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "-s", session, "--", *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "NOX_DEFAULT_VENV_BACKEND": "none", **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == int(environ.get("CODE", "0")), ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("lost", [False, True], ids=["all legs", "a lost leg"])
def test_sessions_plan_run_and_report_on_three_machines(
    project: Repository, tmp_path: Path, *, lost: bool
) -> None:
    need(shutil.which("spyre-ci") is not None, "spyre-ci on the path")
    output = tmp_path / "output"
    nox(
        project.folder, "plan", "--files", "test_op_suite.py", "--percent", "1", "--shards", "2",
        GITHUB_OUTPUT=str(output), SPYRE_CI__STAGE="",
    )  # fmt: skip
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    legs = json.loads(told["matrix"])["include"]
    planned = project.folder / "runs/ci"
    # What goes from job to job is small.
    assert sum(path.stat().st_size for path in planned.rglob("*")) < 300_000
    for leg in legs[: 1 if lost else 2]:
        run_leg(project, tmp_path, leg)
    said = nox(project.folder, "report", "--run-dir", "runs/ci", CODE="3" if lost else "0")
    summary = json.loads((planned / "summary.json").read_text())
    assert summary["planned"] == int(told["tests"]) == sum(summary["verdicts"].values())
    assert bool(summary["verdicts"].get("not_run")) is lost, said
    if not lost:
        return
    # Run again as GitHub does it: both legs here, of which one has been heard of before.
    again = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "2"}
    for leg in legs:
        run_leg(project, tmp_path, leg, **again)
    nox(project.folder, "report", "--run-dir", "runs/ci")
    summary = json.loads((planned / "summary.json").read_text())
    assert {name for name, count in summary["verdicts"].items() if count} <= {"passed", "xfailed", "skipped"}
    journals = {path.name for path in (planned / "journal").iterdir()}
    assert journals == {"0-1.jsonl", "0-101.jsonl", "1-101.jsonl"}


def run_leg(project: Repository, tmp_path: Path, leg: dict[str, Any], **environ: str) -> None:
    """A leg on a machine of its own, which hands its journals over."""
    planned, machine = project.folder / "runs/ci", tmp_path / f"leg-{leg['leg']}"
    shutil.rmtree(machine, ignore_errors=True)
    (machine / "runs/ci").mkdir(parents=True)
    shutil.copy(project.folder / "spyre-ci.yaml", machine)
    for name in HANDED:
        shutil.copy(planned / name, machine / "runs/ci")
    nox(machine, "shards", "--run-dir", "runs/ci", "--shard", leg["shards"], "--cards", "1", **environ)
    shutil.copytree(machine / "runs/ci/journal", planned / "journal", dirs_exist_ok=True)
