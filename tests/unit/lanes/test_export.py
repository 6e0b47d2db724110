"""Lanes as schedules of CIs; and that this checkout's workflow, jobs and settings say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.config import load_settings
from ci.core.errors import BadFileError, MissingInputError, SettingsError
from ci.lanes.cadence import cron_lines
from ci.lanes.cli import SchedulesDifferError, export
from ci.lanes.export import as_yaml, schedule_of, schedules, triggers
from tests.lane_settings import call, lane

ROOT = Path(__file__).parent.parent.parent.parent
GITHUB, JENKINS = {"github": "nightly.yml"}, {"jenkins": "spyre/nightly"}
SETTINGS = """\
lanes:
  night:
    run: {session: {name: tests}}
    cadence: {cron: 17 2 * * *}
    begun_by: {github: nightly.yml}
  weekly:
    run: {session: {name: tests}}
    cadence: {after_end: {min: 6, max: 8}}
  big:
    in_stages: [3]
    run: {session: {name: tests}}
    cadence: {times_a_day: 3}
    begun_by: {github: nightly.yml}
  jobs:
    run: {session: {name: tests}}
    cadence: {times_a_day: 2, first: "06:30"}
    begun_by: {jenkins: spyre/nightly}
"""
WORKFLOW = 'on:\n  workflow_dispatch:\n  schedule:\n    - cron: "17 2 * * *"\njobs: {}\n'


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("number", [1, 7, 24])
def test_what_is_written_for_github_is_read_as_the_same(number: int, zone: str) -> None:
    one = lane({"times_a_day": number}, begun_by=GITHUB)
    ((workflow, entries),) = schedules({"a": one}, time_zone=zone, stage=1).items()
    found = schedule_of(yaml.safe_load(as_yaml(workflow, entries)))
    assert found == entries["a"]
    assert [entry["cron"] for entry in found] == list(cron_lines(one.cadence))
    assert {entry.get("timezone", "UTC") for entry in found} == {zone}


@pytest.mark.parametrize("content", [{}, {True: None}, {"on": ["push"]}, {True: {"schedule": None}}, None])
def test_a_workflow_without_schedules_has_none(content: Any) -> None:
    assert schedule_of(content) == []


@pytest.mark.parametrize("schedule", [5, [5], {"cron": "1 2 * * *"}])
def test_what_is_no_schedule_is_named_with_its_file(schedule: Any) -> None:
    with pytest.raises(BadFileError, match=r"n\.yml: on\.schedule is not a list of entries"):
        schedule_of({"on": {"schedule": schedule}}, "n.yml")


def test_jenkins_gets_lanes_of_all_stages_and_github_those_of_the_one_in_force() -> None:
    lanes = {
        "a": lane("0 1 * * *", begun_by=GITHUB, in_stages=[1]),
        "b": lane("0 2 * * *", begun_by=GITHUB, in_stages=[2]),
        "c": lane("0 3 * * *", begun_by=JENKINS, in_stages=[2]),
        "d": lane("0 4 * * *", begun_by=JENKINS, enabled=False),
        "e": lane("0 5 * * *"),
    }
    assert schedules(lanes, time_zone="UTC", stage=1) == {"nightly.yml": {"a": [{"cron": "0 1 * * *"}]}}
    assert schedules(lanes, time_zone="UTC", stage=3) == {"nightly.yml": {}}
    row = {"lane": "c", "job": "spyre/nightly", "in_stages": [2], "cron": ["0 3 * * *"]}
    assert triggers(lanes, time_zone="UTC") == {"time_zone": "UTC", "triggers": [row]}


@pytest.mark.parametrize(
    ("when", "why"),
    [
        (
            {"after_end": {"min": 6, "max": 8}},
            "is due 6 to 8 hours after the end of the last run, which cron cannot express",
        ),
        ("*/4 * * * *", "cron */4 * * * * has times 4 min apart"),
        ("0,58 * * * *", "cron 0,58 * * * * has times 2 min apart"),
    ],
)
def test_what_github_cannot_begin_is_refused(when: str | dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=r"without `begun_by`") as caught:
        schedules({"a": lane(when, begun_by=GITHUB)}, time_zone="UTC", stage=1)
    assert why in caught.value.what
    assert caught.value.where == "lanes.a.cadence"
    schedules({"a": lane("*/5 * * * *", begun_by=GITHUB)}, time_zone="UTC", stage=1)


def test_what_is_exported_is_printed_and_held_to_files(tmp_path: Path) -> None:
    said = call(export, tmp_path, SETTINGS, "github").stdout
    assert (
        said
        == '# .github/workflows/nightly.yml\non:\n  schedule:\n    # lane night\n    - cron: "17 2 * * *"\n\n'
    )
    (tmp_path / "nightly.yml").write_text(WORKFLOW, encoding="utf-8")
    call(export, tmp_path, SETTINGS, "github", "--check", str(tmp_path))
    path = tmp_path / "triggers.json"
    path.write_text(call(export, tmp_path, SETTINGS, "jenkins").stdout, encoding="utf-8")
    assert [row["lane"] for row in json.loads(path.read_text("utf-8"))["triggers"]] == ["jobs"]
    call(export, tmp_path, SETTINGS, "jenkins", "--check", str(path))
    # What goes on beginning a lane that is no longer its own differs, too.
    disabled = SETTINGS.replace("    cadence: {cron", "    enabled: false\n    cadence: {cron")
    for words, changed in (
        (["github", "--check", str(tmp_path)], SETTINGS.replace("17 2", "18 2")),
        (["github", "--check", str(tmp_path)], disabled),
        (["jenkins", "--check", str(path)], SETTINGS.replace("06:30", "06:31")),
    ):
        with pytest.raises(SchedulesDifferError, match=r"the settings have") as caught:
            call(export, tmp_path, changed, *words)
        assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("target", "path", "error"),
    [
        ("github", "nowhere", MissingInputError),
        ("jenkins", "nowhere.json", MissingInputError),
        ("jenkins", "spyre-ci.yaml", BadFileError),
    ],
)
def test_files_that_are_not_there_or_not_ours_are_told(
    tmp_path: Path, target: str, path: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=path):
        call(export, tmp_path, SETTINGS, target, "--check", str(tmp_path / path))


def test_this_checkouts_workflow_and_jobs_are_what_its_settings_say(tmp_path: Path) -> None:
    text = (ROOT / "spyre-ci.yaml").read_text(encoding="utf-8")
    call(export, tmp_path, text, "github", "--check", str(ROOT / ".github" / "workflows"))
    call(export, tmp_path, text, "jenkins", "--check", str(ROOT / "jenkins" / "resources" / "triggers.json"))
    model = load_settings(path=ROOT / "spyre-ci.yaml", environ={}, flags={}, cwd=ROOT).model
    rows = triggers(model.lanes, time_zone="UTC")["triggers"]
    # Each job has something that begins it in every stage.
    for stage in model.stages:
        jobs = [row["job"] for row in rows if stage in row["in_stages"]]
        assert sorted(jobs) == ["spyre/nightly-main", "spyre/nightly-pinned"]
