"""`spyre-ci matrix` as it is typed: JSON alone on standard output, words beside it, errors told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.config.run_model import Matrix
from ci.main_job.cli_matrix import Target, legs_of
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan


def write(path: Path, *seconds: float, empty: bool = False) -> None:
    shards = tuple(
        Shard(
            index=number,
            expected_s=one,
            groups=() if empty else (Group(file="a.py", ids=(f"a.py::{number}",)),),
        )
        for number, one in enumerate(seconds)
    )
    write_plan(
        path,
        Plan(fingerprint=fingerprint(shards), bound_s=1.0, makespan_s=1.0, binds="balance", shards=shards),
    )


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/mine").mkdir(parents=True)
    write(Path("runs/mine/plan.json"), 30.0, 20.0, 10.0)


def test_a_run_is_dealt_to_a_github_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "mine", "--for", "github", "--cards-per-job", "2"]) == 0
    told = capsys.readouterr()
    assert [(row["shards"], row["runs_on"][-1]) for row in json.loads(told.out)["include"]] == [
        ("0", "spyre_pf_x2"),
        ("1-2", "spyre_pf_x2"),
    ]
    assert told.out.count("\n") == 1
    assert told.err == "3 shards in 2 CI jobs, about 30.0 s\n"


def test_a_plan_is_dealt_to_jenkins_branches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "runs/mine/plan.json", "--for", "jenkins", "--jobs", "1", "--out", "m.json"]) == 0
    assert json.loads(Path("m.json").read_text())["leg-000"]["shards"] == "0-2"
    assert capsys.readouterr().out == "3 shards in 1 CI job, about 30.0 s\n"


def test_labels_and_runners_are_those_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spyre-ci.yaml").write_text("matrix: {labels: [x, 'n{cards}'], runner_cards: [0, 3]}\n")
    assert run(["matrix", "runs/mine", "--for", "github"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["include"]
    assert (row["shards"], row["runs_on"]) == ("0-2", ["x", "n3"])


def test_what_becomes_of_morelegs_of_than_a_matrix_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("big.json"), *[60.0] * 2048)
    assert run(["matrix", "big.json", "--for", "github"]) == 0
    told = capsys.readouterr()
    assert [row["legs"] for row in json.loads(told.out)["include"]] == [256, 256]
    assert "2,048 shards in 512 CI jobs, about 60.0 s; 512 jobs are more than the 256" in told.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere", "--for", "github"], 2, "there is no run 'nowhere'"),
        (["latest", "--for", "github"], 2, "there is no run with plan.json yet"),
        (["empty", "--for", "github"], 2, "there is no plan file"),
        (["broken.json", "--for", "github"], 2, "broken.json: cannot be read as JSON"),
        (["nothing.json", "--for", "jenkins"], 3, "the plan holds no test"),
        (["mine", "--for", "gitlab"], 2, "'--for'"),
        (["mine", "--for", "github", "--cards-per-job", "3"], 2, "--cards-per-job is 3"),
        (["mine", "--for", "github", "--cards-per-job", "0"], 2, "--cards-per-job is 0"),
        (["mine", "--for", "github", "--jobs", "0"], 2, "'--jobs'"),
    ],
)
def test_what_cannot_be_dealt_is_told(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs/empty").mkdir()
    Path("broken.json").write_text("{")
    write(Path("nothing.json"), 0.0, empty=True)
    assert run(["matrix", *arguments]) == code
    told = capsys.readouterr()
    assert message in " ".join(told.err.replace("│", " ").split())
    assert told.out == ""


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("{runner_cards: [0]}", "runner_cards must hold a number above 0"),
        ("{runner_cards: []}", "runner_cards must hold a number above 0"),
        ("{labels: ['a b']}", "labels"),
        ("{labels: ['{x}']}", "labels"),
        ("{timeout_factor: .nan}", "timeout_factor"),
        ("{beyond: never}", "beyond"),
    ],
)
def test_settings_that_make_no_matrix_are_refused(
    matrix: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("spyre-ci.yaml").write_text(f"matrix: {matrix}\n")
    assert run(["matrix", "mine", "--for", "github"]) == 2
    assert message in capsys.readouterr().err


def test_a_wide_shard_widens_every_pod_but_only_its_own_leg() -> None:
    group = (Group(file="a.py", ids=("x",)),)
    shards = [
        Shard(index=0, expected_s=5.0, groups=group, cards=2),
        *(Shard(index=number, expected_s=1.0, groups=group) for number in (1, 2)),
    ]
    plan = Plan(
        fingerprint=fingerprint(shards), bound_s=1.0, makespan_s=1.0, binds="balance", shards=tuple(shards)
    )

    def cards(target: Target) -> list[tuple[tuple[int, ...], int]]:
        return [(leg.shards, leg.cards) for leg in legs_of(plan, Matrix(), target, 1, None)]

    assert cards(Target.GITHUB) == cards(Target.JENKINS) == [((0,), 2), ((1,), 1), ((2,), 1)]
    assert cards(Target.INDEXED_JOB) == [((0,), 2), ((1, 2), 2)]
