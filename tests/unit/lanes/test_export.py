"""The cadence of lanes as CIs have it; and that this checkout's workflow, jobs and settings say the same.

Cron lines for GitHub and Jenkins: what they read as a crontab does, and what is refused.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ci.config import load_settings
from ci.config.lanes_model import Lane
from ci.core.errors import BadFileError, MissingInputError, SettingsError, UsageError
from ci.lanes.cadence import crons
from ci.lanes.export import (
    Schedule,
    TriggersDifferError,
    as_yaml,
    for_github,
    for_jenkins,
    schedules_of,
    triggers,
    workflows,
)
from ci.lanes.export_cli import export
from tests.lane_settings import call, lane

ROOT = Path(__file__).parent.parent.parent.parent
GITHUB = {"github": {"repository": "o/r", "workflow": "nightly.yml"}}
JENKINS = {"jenkins": {"url": "https://jenkins.example.com", "job": "spyre/nightly"}}
SETTINGS = """\
lanes:
  night:
    run: {session: {name: tests}}
    cadence: {cron: 17 2 * * *}
    begun_by: ci
    where: {github: {repository: o/r, workflow: nightly.yml}}
  weekly:
    run: {session: {name: tests}}
    cadence: {after_end: {min: 6, max: 8}}
  big:
    in_stages: [3]
    run: {session: {name: tests}}
    cadence: {times_a_day: 3}
    begun_by: ci
    where: {github: {repository: o/r, workflow: nightly.yml}}
  resting:
    enabled: false
    run: {session: {name: tests}}
    cadence: {cron: 1 1 * * *}
  jobs:
    run: {session: {name: tests}}
    cadence: {times_a_day: 2, first: "06:30"}
    begun_by: ci
    where: {jenkins: {url: https://jenkins.example.com, job: spyre/nightly}}
"""
WORKFLOW = 'on:\n  workflow_dispatch:\n  schedule:\n    - cron: "17 2 * * *"\njobs: {}\n'
WHERE = "lanes.a.cadence"
FIELDS = st.tuples(
    st.sampled_from(["0", "*/5", "5-50/9", "10/20", "1,31"]),
    st.sampled_from(["*", "2", "*/3", "8-17", "1/6"]),
    st.sampled_from(["*", "1", "*/9", "1-7"]),
    st.sampled_from(["*", "FEB", "JAN-MAR", "3,10"]),
    st.sampled_from(["*", "SUN", "7", "5-7", "1-5", "MON,3"]),
)


def of_ci(cadence: str | dict[str, Any], where: dict[str, Any], **given: Any) -> dict[str, Lane]:
    return {"a": lane(cadence, where=where, begun_by="ci", **given)}


def called(tmp_path: Path, *words: str, settings: str = SETTINGS) -> tuple[int, str, str]:
    """The verb's exit code and what it said."""
    done = call(export, tmp_path, settings, *words)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("number", range(1, 25))
def test_any_number_of_times_a_day_can_be_said(number: int) -> None:
    one = of_ci({"times_a_day": number}, GITHUB)
    (found,) = workflows(one, time_zone="UTC", stage=1)
    times = [hour for entry in found.schedules for hour in entry.cron.split()[1].split(",")]
    assert len(times) == number
    assert sorted(crons(one["a"].cadence)) == [entry.cron for entry in found.schedules]


def test_what_is_written_for_github_is_read_as_the_same() -> None:
    (found,) = workflows(of_ci({"times_a_day": 7}, GITHUB), time_zone="Europe/Berlin", stage=1)
    assert schedules_of(yaml.safe_load(as_yaml(found))) == found.schedules


@pytest.mark.parametrize("content", [{}, {True: None}, {"on": ["push"]}, {True: {"schedule": None}}, None])
def test_a_workflow_without_schedules_has_none(content: Any) -> None:
    assert schedules_of(content) == []


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (GITHUB, lambda one: workflows(one, time_zone="UTC", stage=1)),
        (JENKINS, lambda one: triggers(one, time_zone="UTC")),
    ],
    ids=["github", "jenkins"],
)
def test_a_time_after_the_end_is_refused_with_the_reason(
    where: dict[str, Any], told: Callable[[dict[str, Lane]], object]
) -> None:
    one = of_ci({"after_end": {"min": 6, "max": 8}}, where)
    with pytest.raises(SettingsError) as caught:
        told(one)
    assert str(caught.value).startswith(
        "lanes.a.cadence: is due 6 to 8 hours after the end of the last run, which no cron can say"
    )


def test_a_lane_that_its_ci_begins_has_to_have_one() -> None:
    with pytest.raises(SettingsError, match="its `where` is local, which begins nothing by itself"):
        workflows(of_ci("0 2 * * *", {}), time_zone="UTC", stage=1)


def test_jenkins_gets_lanes_of_all_stages_and_github_those_of_the_one_in_force() -> None:
    both = {
        **of_ci("0 2 * * *", GITHUB, in_stages=[3]),
        "b": lane("0 3 * * *", where=JENKINS, begun_by="ci", in_stages=[3]),
    }
    assert workflows(both, time_zone="UTC", stage=1)[0].schedules == []
    assert workflows(both, time_zone="UTC", stage=3)[0].schedules == [Schedule(cron="0 2 * * *")]
    assert triggers(both, time_zone="UTC")["triggers"] == [
        {"lane": "b", "job": "spyre/nightly", "in_stages": [3], "cron": ["0 3 * * *"]}
    ]


def test_what_is_exported_is_printed_and_what_is_not_is_said(tmp_path: Path) -> None:
    code, out, err = called(tmp_path, "github")
    assert code == 0
    assert out.splitlines() == [
        "# o/r: .github/workflows/nightly.yml",
        "on:",
        "  schedule:",
        "    # lane night",
        '    - cron: "17 2 * * *"',
    ]
    assert err.splitlines() == [
        "lane weekly is begun by the worker",
        "lane big runs in stage 3 only, and stage 1 is in force",
        "lane resting is disabled",
    ]


def test_a_machine_gets_one_document(tmp_path: Path) -> None:
    _, out, _ = called(tmp_path, "github", "--json")
    assert json.loads(out)["workflows"][0]["lanes"] == {"night": [{"cron": "17 2 * * *", "timezone": "UTC"}]}
    _, out, _ = called(tmp_path, "jenkins")
    assert json.loads(out) == {
        "schema": "spyre-ci/triggers/1",
        "time_zone": "UTC",
        "triggers": [{"lane": "jobs", "job": "spyre/nightly", "in_stages": [], "cron": ["30 6,18 * * *"]}],
    }


def test_files_that_are_not_there_or_not_ours_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"nightly\.yml"):
        called(tmp_path, "github", "--check", str(tmp_path / "none"))
    with pytest.raises(MissingInputError, match=r"triggers\.json"):
        called(tmp_path, "jenkins", "--check", str(tmp_path / "triggers.json"))
    (tmp_path / "triggers.json").write_text("[]", encoding="utf-8")
    with pytest.raises(BadFileError):
        called(tmp_path, "jenkins", "--check", str(tmp_path / "triggers.json"))


def test_a_workflow_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a workflow is written by people"):
        called(tmp_path, "github", "--out", str(tmp_path / "nightly.yml"))


def test_a_folder_has_the_workflows_of_one_repository(tmp_path: Path) -> None:
    (tmp_path / "nightly.yml").write_text(WORKFLOW, encoding="utf-8")
    two = SETTINGS.replace("in_stages: [3]", "in_stages: [1]").replace("o/r, workflow", "o/s, workflow", 1)
    with pytest.raises(UsageError, match="lanes have workflows of o/r, o/s"):
        called(tmp_path, "github", "--check", str(tmp_path), settings=two)
    assert called(tmp_path, "github", "--check", str(tmp_path), "--repository", "o/s", settings=two)[0] == 0


@pytest.mark.parametrize(
    "changed",
    [
        SETTINGS.replace("  night:\n", "  night:\n    enabled: false\n"),
        SETTINGS.replace("  night:\n", "  night:\n    in_stages: [4]\n"),
    ],
    ids=["disabled", "of another stage"],
)
def test_a_workflow_that_goes_on_beginning_what_is_no_longer_its_own_differs(
    tmp_path: Path, changed: str
) -> None:
    (tmp_path / "nightly.yml").write_text(WORKFLOW, encoding="utf-8")
    with pytest.raises(TriggersDifferError, match=r'has \[{"cron": "17 2 .*}\], and the settings say \[\]'):
        called(tmp_path, "github", "--check", str(tmp_path), settings=changed)
    for text in (None, "on: workflow_dispatch\njobs: {}\n"):
        (tmp_path / "nightly.yml").unlink()
        if text is not None:
            (tmp_path / "nightly.yml").write_text(text, encoding="utf-8")
        assert called(tmp_path, "github", "--check", str(tmp_path), settings=changed)[0] == 0
        (tmp_path / "nightly.yml").touch()


@pytest.mark.parametrize("words", [(), ("--check", ".")])
def test_a_repository_that_no_lane_names_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        called(tmp_path, "github", "--repository", "o/typo", *words)
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith("--repository: no lane has a workflow of 'o/typo'")
    assert caught.value.remedy == "lanes name o/r"


def test_where_no_lane_is_begun_by_a_ci_that_is_said(tmp_path: Path) -> None:
    ours = SETTINGS.replace("begun_by: ci", "begun_by: ci\n    enabled: false")
    code, out, err = called(tmp_path, "github", settings=ours)
    assert (code, out, err.splitlines()[0]) == (0, "", "no lane is begun by GitHub itself")
    _, out, err = called(tmp_path, "jenkins", settings=ours)
    assert (json.loads(out)["triggers"], err.splitlines()[0]) == ([], "no lane is begun by Jenkins itself")


def test_this_checkouts_workflow_and_jobs_are_what_its_settings_say() -> None:
    app = typer.Typer()

    @app.callback()
    def root(ctx: typer.Context) -> None:
        ctx.obj = load_settings(path=ROOT / "spyre-ci.yaml", environ={}, flags={}, cwd=ROOT)

    app.command()(export)
    for words in (
        ["github", "--check", str(ROOT / ".github" / "workflows")],
        ["jenkins", "--check", str(ROOT / "jenkins" / "resources" / "triggers.json")],
    ):
        done = CliRunner().invoke(app, ["export", *words], catch_exceptions=False)
        assert (done.exit_code, done.stdout) == (0, "")


def test_every_lane_of_this_checkout_is_in_one_of_these_files() -> None:
    model = load_settings(path=ROOT / "spyre-ci.yaml", environ={}, flags={}, cwd=ROOT).model
    told = triggers(model.lanes, time_zone="UTC")["triggers"]
    named = {row["lane"] for row in told} | {
        name for one in workflows(model.lanes, time_zone="UTC", stage=model.stage) for name in one.lanes
    }
    assert named == set(model.lanes)
    # Each job has something that begins it in every stage.
    for stage in model.stages:
        jobs = [row["job"] for row in told if stage in row["in_stages"]]
        assert sorted(jobs) == ["spyre/nightly-main", "spyre/nightly-pinned"]


@pytest.mark.parametrize("line", ["17 2 * * *", "*/15 1-5 * * 1-5", "5,35 0-23/2 1,15 * *", "0 */6 * 3-9 *"])
def test_numbers_ranges_and_steps_stay_as_they_are(line: str) -> None:
    assert for_github(line, WHERE) == line
    assert for_jenkins(line, WHERE) == line


def test_names_become_numbers_and_sunday_is_0() -> None:
    assert for_jenkins("0 2 * JAN-MAR SUN,SAT", WHERE) == "0 2 * 1,2,3 0,6"
    assert for_github("0 2 * * 5-7", WHERE) == "0 2 * * 0,5,6"


def test_a_step_from_a_number_on_is_a_list() -> None:
    assert for_jenkins("10/20 2 * * *", WHERE) == "10,30,50 2 * * *"


@pytest.mark.parametrize("field", ["0 2 L * *", "0 2 LW * *", "0 2 * * MON#1", "0 2 * * 5L"])
def test_last_days_and_nth_weekdays_are_refused(field: str) -> None:
    for dialect in (for_github, for_jenkins):
        with pytest.raises(SettingsError) as caught:
            dialect(field, WHERE)
        assert "which neither GitHub nor Jenkins knows" in str(caught.value)
        assert "lanes.a.cadence: " in str(caught.value)


def test_days_of_the_month_or_of_the_week_are_refused_for_jenkins_which_takes_both() -> None:
    assert for_github("0 2 1-7 * 1", WHERE) == "0 2 1-7 * 1"
    with pytest.raises(SettingsError, match="a day that is either, Jenkins one that is both"):
        for_jenkins("0 2 1-7 * 1", WHERE)


def test_a_step_over_days_beside_a_weekday_is_refused_for_github() -> None:
    assert for_jenkins("0 2 */2 * 1", WHERE) == "0 2 */2 * 1"
    with pytest.raises(SettingsError, match="which crons read differently"):
        for_github("0 2 */2 * 1", WHERE)


@pytest.mark.parametrize(
    ("line", "gap"), [("*/4 * * * *", 4), ("* * * * *", 1), ("0,3 2 * * *", 3), ("58,0 * * * *", 2)]
)
def test_what_is_due_more_often_than_github_begins_is_refused(line: str, gap: int) -> None:
    assert for_jenkins(line, WHERE) == line
    with pytest.raises(
        SettingsError, match=f"has times {gap} min apart, and GitHub begins nothing more often"
    ):
        for_github(line, WHERE)


def test_five_minutes_are_enough_for_github() -> None:
    assert for_github("*/5 * * * *", WHERE) == "*/5 * * * *"
    assert for_github("58 23 * * *", WHERE) == "58 23 * * *"


@given(FIELDS.map(" ".join))
def test_whatever_is_exported_has_the_times_of_the_settings(line: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for dialect in (for_github, for_jenkins):
        try:
            found = dialect(line, WHERE)
        except SettingsError:
            continue
        times = [list(itertools.islice(CronSim(one, start), 30)) for one in (line, found)]
        assert times[0] == times[1]
