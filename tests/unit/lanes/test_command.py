"""What a lane's run is called with: the nox session that people and CIs call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.config.lanes_model import Lane
from ci.lanes.command import Command, command
from ci.lanes.order import Order

TOOLKIT = Path("/toolkit/noxfile.py")


def called(run: dict[str, Any], **given: Any) -> Command:
    lane = Lane.model_validate({"run": run, "cadence": {"cron": "0 2 * * *"}, **given})
    order = Order(lane="nightly", due=1000, attempt=2, seed=lane.seed, folder=Path("/attempts/2"))
    return command(lane, order, toolkit=TOOLKIT, base=Path("/project"))


def test_the_main_job_is_the_session_pytorch_with_stage_and_bucket() -> None:
    found = called(
        {"pytorch": {"stage": 3, "variant": "main", "arguments": ["--cards", "4"]}}, bucket="weekly", seed=7
    )
    assert found.words == (
        "nox", "-f", "/toolkit/noxfile.py", "-s", "pytorch", "--",
        "--stage", "3", "--bucket", "weekly", "--cards", "4",
    )  # fmt: skip
    assert found.environ == {
        "SPYRE_CI__RUNS": "/attempts/2/runs",
        "SPYRE_CI__IMAGE__VARIANT": "main",
        "SPYRE_CI_LANE": "nightly",
        "SPYRE_CI_LANE_ATTEMPT": "2",
        "SPYRE_CI_LANE_BUCKET": "weekly",
        "SPYRE_CI_LANE_SEED": "7",
    }


def test_without_a_stage_the_one_in_force_is_left_to_the_settings() -> None:
    assert called({"pytorch": {}}).words[5:] == ("--", "--bucket", "nightly")


@pytest.mark.parametrize(("push", "behind"), [(True, ("--", "--push")), (False, ())])
def test_an_image_is_built_and_pushed_where_the_lane_says_so(push: bool, behind: tuple[str, ...]) -> None:
    found = called({"image": {"push": push}})
    assert found.words == ("nox", "-f", "/toolkit/noxfile.py", "-s", "image", *behind)
    assert "SPYRE_CI__IMAGE__VARIANT" not in found.environ


def test_a_session_is_the_toolkits_or_that_of_a_noxfile_of_the_projects_own() -> None:
    assert called({"session": {"name": "heavy"}}).words == ("nox", "-f", str(TOOLKIT), "-s", "heavy")
    own = {"session": {"name": "train", "noxfile": "ml/noxfile.py", "arguments": ["--steps", "9"]}}
    assert called(own).words == (
        "nox", "-f", "/project/ml/noxfile.py", "-s", "train", "--", "--steps", "9",
    )  # fmt: skip
