"""What a lane's run is called with: the nox session that people and CIs call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.config import load_settings
from ci.config.lanes_model import Lane
from ci.config.load import Settings
from ci.core.errors import MissingInputError, SettingsError
from ci.lanes.command import Command, command, source_of
from ci.lanes.order import Order

TOOLKIT = Path("/toolkit/noxfile.py")
STACK = """\
version: 1
name: runtime
base: {image: "docker.io/library/python:3.12-slim", python: /usr/bin/python3, python_version: "3.12"}
variants:
  pinned: {version: 2.13.0}
  main: {nightly: true}
  fork: {git: {url: "https://github.example.com/aiu/pytorch.git", ref: dev, steps: [make]}}
"""


def called(
    run: dict[str, Any], *, config: Path | None = None, source: str | None = None, **given: Any
) -> Command:
    lane = Lane.model_validate({"run": run, "cadence": {"cron": "0 2 * * *"}, **given})
    order = Order(lane="nightly", due=1000, attempt=2, seed=lane.seed, folder=Path("/attempts/2"))
    return command(lane, order, toolkit=TOOLKIT, base=Path("/project"), config=config, source=source)


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


def test_a_settings_file_of_another_name_and_a_source_are_handed_on_to_the_main_job() -> None:
    found = called({"pytorch": {}}, config=Path("/project/lanes.yaml"), source="git+https://x/y@v1")
    assert found.words[6:] == (
        "--pytorch-src", "git+https://x/y@v1", "--config", "/project/lanes.yaml", "--bucket", "nightly",
    )  # fmt: skip


def test_an_image_whose_session_would_read_other_settings_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"lane nightly builds the image, and that session reads spyre-ci\.yaml"
    ):
        called({"image": {}}, config=Path("/project/lanes.yaml"))


@pytest.mark.parametrize(
    ("job", "source"),
    [
        ({"variant": "pinned"}, "git+https://github.com/pytorch/pytorch.git@v2.13.0"),
        ({"variant": "main"}, "git+https://github.com/pytorch/pytorch.git@main"),
        ({"variant": "fork"}, "git+https://github.example.com/aiu/pytorch.git@dev"),
        ({"variant": "main", "arguments": ["--pytorch-src", "../pytorch"]}, None),
        ({}, None),
    ],
)
def test_the_tests_of_a_variant_are_of_the_pytorch_that_the_stack_says(
    tmp_path: Path, job: dict[str, Any], source: str | None
) -> None:
    assert source_of(*of_variant(tmp_path, job)) == source


def test_a_variant_that_the_stack_lacks_is_refused_with_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        source_of(*of_variant(tmp_path, {"variant": "newest"}))
    assert "stack.yaml: has no variant 'newest', which a lane is of" in str(caught.value)
    assert "known variants: pinned, main, fork" in str(caught.value)


def test_without_a_stack_there_is_no_variant(tmp_path: Path) -> None:
    lane, settings = of_variant(tmp_path, {"variant": "main"})
    (tmp_path / "images" / "stack.yaml").unlink()
    with pytest.raises(MissingInputError, match=r"stack\.yaml"):
        source_of(lane, settings)


def of_variant(folder: Path, job: dict[str, Any]) -> tuple[Lane, Settings]:
    (folder / "images").mkdir()
    (folder / "images" / "stack.yaml").write_text(STACK, encoding="utf-8")
    lane = Lane.model_validate({"run": {"pytorch": job}, "cadence": {"cron": "0 2 * * *"}})
    return lane, load_settings(path=None, environ={}, flags={}, cwd=folder)
