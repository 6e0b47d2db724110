"""A plan that was made where a stranger's code runs takes no more than the settings give it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
        (plan_of((1, 1), (1, 1), (1, 1), (1, 1)), TooMuchError, "4 shards need 4 cards, and the stage has 3"),
        (plan_of((1, 2), (1, 2)), TooMuchError, "2 shards need 4 cards"),
        (plan_of((1, 0), (1, 0), (1, 0), (1, 0)), TooMuchError, "4 shards need 4 cards"),
        (
            plan_of((1e6, 1)),
            TooMuchError,
            "a CI job of the plan needs 7,200 minutes, and at most 1,440 are allowed",
        ),
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


def legs(project: Path, *words: str) -> dict[str, Any]:
    """The outputs of the verb."""
    assert run(["pipeline", "legs", *words, "--out", "runs/legs.json"]) == 0
    return read_json(project / "runs" / "legs.json", "pipeline-legs")


def test_the_outputs_are_of_the_plan_and_of_the_settings(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of((600, 1), (60, 1))
    write_plan(project / "runs" / "ci" / "plan.json", plan)
    found = legs(project)["matrix"].values()
    assert [(one["label"], one["cards"], one["timeout_minutes"]) for one in found] == [
        ("ours_x1", 1, 60), ("ours_x1", 1, 33),
    ]  # fmt: skip
    monkeypatch.setenv("GITHUB_OUTPUT", str(project / "outputs"))
    legs(project, "--for", "github")
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


@pytest.mark.parametrize(
    ("shards", "beyond", "target", "kind"),
    [
        (256, "indexed-job", "github", "legs"),
        (300, "matrices", "github", "matrices"),
        (300, "indexed-job", "github", "hand-over"),
        (300, "matrices", "jenkins", "legs"),
    ],
)
def test_a_plan_says_what_kind_of_matrix_it_is(  # noqa: PLR0917  # a table's columns
    project: Path, shards: int, beyond: str, target: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = f"stage: 1\nstages: {{1: {{cards: 300}}}}\nmatrix: {{runner_cards: [1], beyond: {beyond}}}\n"
    (project / "spyre-ci.yaml").write_text(settings, encoding="utf-8")
    write_plan(project / "runs" / "ci" / "plan.json", plan_of(*[(600, 1)] * shards))
    told = legs(project, "--for", target)
    assert (told["kind"], told["legs"], told["tests"]) == (kind, shards, shards)
    assert f"{shards} CI jobs for {shards} tests" in capsys.readouterr().out


def test_a_stage_of_nothing_has_no_legs_whatever_was_planned(project: Path) -> None:
    write_plan(project / "runs" / "ci" / "plan.json", plan_of((600, 1)))
    told = legs(project, "--stage", "0")
    assert (told["legs"], told["matrix"]) == (0, {})
    told = legs(project, "--stage", "0", "--for", "github")
    assert (told["tests"], told["kind"], told["matrix"]) == (0, "none", {"include": []})


@pytest.mark.parametrize(
    ("plan", "code", "said"),
    [
        (plan_of((1, 1), (1, 1), (1, 1)), 1, "need 3 cards, and the stage has 2"),
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
