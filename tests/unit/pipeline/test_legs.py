"""A plan that was made where a stranger's code runs takes no more than the settings give it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.config.model import SettingsModel
from ci.core.errors import NothingToRunError, UsageError
from ci.main_job.cli_matrix import Target
from ci.pipeline.cli_plan import TooMuchError, legs_within
from test_selection.files import read_json
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan

MODEL = SettingsModel.model_validate({"matrix": {"runner_cards": [0, 1, 2], "labels": ["ours_x{cards}"]}})
SETTINGS = """\
stage: 1
stages: {0: {percent: 0}, 1: {percent: 5, cards: 2}}
matrix: {runner_cards: [0, 1], labels: ["ours_x{cards}"]}
"""


def plan_of(*shards: tuple[float, int], tests: int = 1) -> Plan:
    made = tuple(
        Shard(
            index=n, expected_s=seconds, cards=cards,
            groups=tuple(Group(file="a.py", ids=(f"a.py::{n}.{m}",)) for m in range(tests)),
        )
        for n, (seconds, cards) in enumerate(shards)
    )  # fmt: skip
    return Plan(fingerprint=fingerprint(made), bound_s=1.0, makespan_s=1.0, binds="balance", shards=made)


@pytest.mark.parametrize(
    ("plan", "error", "said"),
    [
        (plan_of((1, 1), (1, 1), (1, 1), (1, 1)), TooMuchError, "4 shards want 4 cards, and the stage has 3"),
        (plan_of((1, 2), (1, 2)), TooMuchError, "2 shards want 4 cards"),
        (plan_of((1, 0), (1, 0), (1, 0), (1, 0)), TooMuchError, "4 shards want 4 cards"),
        (plan_of((1e6, 1)), TooMuchError, "a leg of the plan wants 7,200 minutes, and 1,440 are the most"),
        (plan_of((1, 3)), UsageError, "3"),
        (plan_of((1, 1), tests=0), NothingToRunError, "the plan holds no test"),
        (plan_of(), NothingToRunError, "the plan holds no test"),
    ],
)
@pytest.mark.parametrize("target", [Target.GITHUB, Target.JENKINS])
def test_a_plan_that_wants_more_or_holds_nothing_is_refused(
    plan: Plan, error: type[Exception], said: str, target: Target
) -> None:
    with pytest.raises(error, match=said):
        legs_within(plan, MODEL, target, cards=3, where=Path("plan.json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "spyre-ci.yaml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "runs" / "ci").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_verb_hands_branches_on(project: Path) -> None:
    write_plan(project / "runs" / "ci" / "plan.json", plan_of((600, 1), (60, 1)))
    assert run(["pipeline", "legs", "--out", "runs/legs.json"]) == 0
    told = read_json(project / "runs" / "legs.json", "pipeline-legs")
    assert (told["legs"], told["tests"], list(told["matrix"])) == (2, 2, ["leg-000", "leg-001"])
    found = [(one["label"], one["cards"], one["timeout_minutes"]) for one in told["matrix"].values()]
    assert found == [("ours_x1", 1, 60), ("ours_x1", 1, 33)]


def test_the_outputs_of_githubs_jobs_are_of_the_plan_and_of_the_settings(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of((600, 1), (60, 1))
    write_plan(project / "runs" / "ci" / "plan.json", plan)
    monkeypatch.setenv("GITHUB_OUTPUT", str(project / "outputs"))
    assert run(["pipeline", "legs", "--for", "github"]) == 0
    told = dict(line.split("=", 1) for line in (project / "outputs").read_text().splitlines())
    rows = json.loads(told.pop("matrix"))["include"]
    assert [(one["leg"], one["shards"], one["runs_on"], one["timeout_minutes"]) for one in rows] == [
        (0, "0", ["ours_x1"], 60),
        (1, "1", ["ours_x1"], 33),
    ]
    assert json.loads(told.pop("timeouts"))["plan"] == 60
    assert told == {
        "kind": "legs", "legs": "2", "run": "ci", "tests": "2", "fingerprint": plan.fingerprint,
        "environment": "image",
    }  # fmt: skip


def test_a_stage_of_nothing_has_no_legs_whatever_was_planned(project: Path) -> None:
    write_plan(project / "runs" / "ci" / "plan.json", plan_of((600, 1)))
    assert run(["pipeline", "legs", "--stage", "0", "--out", "runs/legs.json"]) == 0
    told = read_json(project / "runs" / "legs.json", "pipeline-legs")
    assert (told["legs"], told["matrix"]) == (0, {})
    words = ["--stage", "0", "--for", "github", "--out", "runs/legs.json"]
    assert run(["pipeline", "legs", *words]) == 0
    told = read_json(project / "runs" / "legs.json", "pipeline-legs")
    assert (told["tests"], told["kind"], told["matrix"]) == (0, "none", {"include": []})


@pytest.mark.parametrize(
    ("plan", "code", "said"),
    [
        (plan_of((1, 1), (1, 1), (1, 1)), 1, "want 3 cards, and the stage has 2"),
        (plan_of(), 3, "the plan holds no test"),
        (None, 2, "plan.json"),
    ],
)
def test_what_is_refused_is_told_with_its_code(
    project: Path, capsys: pytest.CaptureFixture[str], plan: Plan | None, code: int, said: str
) -> None:
    if plan is not None:
        write_plan(project / "runs" / "ci" / "plan.json", plan)
    assert run(["pipeline", "legs", "--out", "runs/legs.json"]) == code
    assert said in capsys.readouterr().err
    assert not (project / "runs" / "legs.json").exists()
