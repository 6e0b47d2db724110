"""A pod's run folder that another still holds is waited for, and not for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE
from ci.core.locks import run_lock
from ci.jobs.cli_pod import LOCK_S, wait_for_lock
from ci.jobs.pod import StoreError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps = 0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.now += 60 * seconds


def test_a_folder_that_is_free_is_not_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    wait_for_lock(tmp_path, clock, clock.sleep)
    assert clock.sleeps == 0


def test_a_lock_that_outlasts_its_pod_is_waited_for_and_then_the_next_pod_tries(tmp_path: Path) -> None:
    clock = Clock()
    with (
        run_lock(tmp_path, alone=True),
        pytest.raises(StoreError, match="another pod of this index") as caught,
    ):
        wait_for_lock(tmp_path, clock, clock.sleep)
    assert caught.value.exit_code == EXIT_INCOMPLETE
    assert clock.now >= LOCK_S
