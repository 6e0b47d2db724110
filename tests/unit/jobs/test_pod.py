"""What a pod is told, what it runs, and what it ends with."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ci.core.errors import SettingsError
from ci.jobs.pod import command_of, environment_of, exit_code_of, place_of
from ci.jobs.slices import Opened

TOLD = {
    "JOB_COMPLETION_INDEX": "7", "SPYRE_CI_JOB_RUN": "a-run", "SPYRE_CI_JOB_INPUT": "/etc/spyre-ci/job",
    "SPYRE_CI_JOB_STORE": "/results/", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root",
}  # fmt: skip
BUCKET = TOLD | {"SPYRE_CI_JOB_STORE": "s3://bucket/some"}
OPENED = Opened(run="a-run", shards=(0, 1, 5), cards=2, pods=9)


def test_a_pods_run_folder_is_in_the_volume_or_on_its_own_disk() -> None:
    scratch = Path("/scratch")
    assert place_of(TOLD).folder(scratch) == Path("/results/a-run/pods/7")
    assert place_of(BUCKET).folder(scratch) == Path("/scratch/a-run/pods/7")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("JOB_COMPLETION_INDEX", "-1", "is '-1'"), ("JOB_COMPLETION_INDEX", "", "is not set"),
        ("SPYRE_CI_JOB_RUN", "../x", "is '../x'"), ("SPYRE_CI_JOB_STORE", " ", "is not set"),
        ("SPYRE_CI_JOB_INPUT", "", "is not set"),
    ],
)  # fmt: skip
def test_what_a_pod_must_know_is_asked_for(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        place_of(TOLD | {variable: value})
    assert caught.value.where == variable


def test_pods_that_share_want_a_volume() -> None:
    assert place_of(TOLD | {"SPYRE_CI_JOB_SHARE": "1"}).share
    with pytest.raises(SettingsError, match="want a volume, not a bucket"):
        place_of(BUCKET | {"SPYRE_CI_JOB_SHARE": "1"})


def test_a_pod_runs_its_shards_or_goes_on() -> None:
    folder = Path("/f")
    words = command_of(OPENED, folder, resumes=False)
    assert words[1:] == ["-m", "ci.cli", "run", "--run-dir", "/f", "--shard", "0-1,5", "--cards", "2"]
    words = command_of(OPENED, folder, resumes=True, source="/opt/pytorch")
    assert words[4:6] == ["--resume", "/f"]
    assert words[-2:] == ["--pytorch-src", "/opt/pytorch"]


def test_tests_do_not_see_the_keys_of_the_store_and_hud_hears_of_no_part() -> None:
    keys = {
        "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    }  # fmt: skip
    where = {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}
    environ = BUCKET | dict.fromkeys(keys | where, "x")
    found = environment_of(environ, place_of(environ))
    assert {name for name in found if name.startswith("AWS_")} == where
    # Slices of a bucket want keys as well; without one they are whoever's.
    fetches = environ | {"SPYRE_CI_JOB_STORE": "/results", "SPYRE_CI_JOB_INPUT": "s3://bucket/some"}
    assert "AWS_SECRET_ACCESS_KEY" not in environment_of(fetches, place_of(fetches))
    assert environment_of(TOLD, place_of(TOLD))["AWS_SECRET_ACCESS_KEY"] == "s"
    assert (found["HOME"], found["SPYRE_CI__REPORT__ENDPOINT"]) == ("/root", "none")
    assert "SPYRE_CI__RUN__SHARE" not in found
    sharing = TOLD | {"SPYRE_CI_JOB_SHARE": "1"}
    assert environment_of(sharing, place_of(sharing))["SPYRE_CI__RUN__SHARE"] == "/results/a-run/claims"


@pytest.mark.parametrize(
    ("code", "interrupts", "ends_with"),
    [
        (0, [], 0), (1, [], 1), (2, [], 2), (3, [], 3), (70, [], 3), (-9, [], 3), (130, [], 3),
        (130, [signal.SIGTERM], 143), (130, [signal.SIGINT], 130), (-9, [signal.SIGTERM], 143),
        (1, [signal.SIGTERM], 1),
    ],
)  # fmt: skip
def test_what_a_pod_ends_with(code: int, interrupts: list[int], ends_with: int) -> None:
    assert exit_code_of(code, interrupts) == ends_with
