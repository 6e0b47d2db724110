"""A plan is made for other machines, and known by what decides it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.pipeline.plan_identity import FILE, tree_of
from test_selection.durations import Durations, write_durations
from test_selection.files import read_json
from test_selection.plan import read_plan
from tests.repositories import Repository

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
    made = Repository(tmp_path / "project")
    made.commit({"spyre-ci.yaml": SETTINGS, ".gitignore": "runs/\n.spyre-ci/\n"})
    monkeypatch.chdir(made.folder)
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "JENKINS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPYRE_CI_IMAGE", IMAGE)
    return made


def plan(tree: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """`spyre-ci pipeline plan` of the quick files of a small tree; its code and outputs."""
    out = Path("runs/outputs.json")
    given = ["--pytorch-src", str(tree), "--files", "test_outcomes.py", "--out", str(out)]
    code = run(["pipeline", "plan", *given, *words])
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
    assert "durations: cannot be read, so durations are guessed" in capsys.readouterr().out


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
    assert "the run of this folder has started already" in capsys.readouterr().err
    assert [path.name for path in (project.folder / "runs/ci").iterdir()] == ["journal"]
