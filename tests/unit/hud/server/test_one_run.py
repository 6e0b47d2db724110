"""The line on a run's page that brings a test back: what of a job stands in it, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from ci.hud.callback import RunDetails
from ci.hud.server.pages.one_run import LONGEST, command_of
from ci.record.reproduce_line import attempt_of
from test_selection.seeds import MOST

SHA = "a" * 40
JOB = {"pytorch_head_sha": SHA, "upstream_repo": "me/fork", "run_id": "77", "run_attempt": 2}


def line(*, attempt: int = 1, job: dict[str, Any] | None = None, test: str = "a.py::t", **said: Any) -> str:
    details = RunDetails.model_validate({"device": "spyre", "run": "calm-otter", "seed": 7} | said)
    return command_of(JOB | (job or {}), details, test, attempt=attempt)


def test_it_names_sources_device_seed_try_and_run() -> None:
    assert line(attempt=2) == (
        f"spyre-ci reproduce --run --pytorch-src git+https://github.com/me/fork@{SHA} --device spyre "
        "--seed 7 --attempt 2 -- a.py::t calm-otter"
    )
    assert line(provider="github").endswith(" -- a.py::t github-77.2")


@pytest.mark.parametrize(
    ("job", "said", "lacking"),
    [
        ({"pytorch_head_sha": "main; rm -rf ~"}, {}, "--pytorch-src"),
        ({"upstream_repo": "https://evil.example/x"}, {}, "evil"),
        ({}, {"seed": MOST + 1}, "--seed"),
        ({}, {"run": "$(touch pwned)"}, "pwned"),
        ({"run_id": "many"}, {"provider": "github"}, "many"),
    ],
)
def test_what_is_not_as_it_has_to_be_is_left_out(
    job: dict[str, Any], said: dict[str, Any], lacking: str
) -> None:
    assert "-- a.py::t" in line(job=job, **said)
    assert lacking not in line(job=job, **said)


@pytest.mark.parametrize("device", ["", "--run", "Spyre"])
def test_without_a_device_there_is_none(device: str) -> None:
    assert line(device=device) == ""


def test_no_name_makes_it_endless() -> None:
    assert len(line(test="x" * 9000)) == LONGEST


@pytest.mark.parametrize(
    ("verdict", "attempts", "meant"),
    [("failed", 1, 1), ("failed", 3, 3), ("flaky", 3, 2), ("flaky", 1, 1), ("not_run", 0, 1)],
)
def test_the_try_that_failed_is_meant(verdict: str, attempts: int, meant: int) -> None:
    assert attempt_of(verdict, attempts) == meant
