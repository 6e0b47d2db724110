"""The cycle collector rests for a block and is as before afterwards."""

from __future__ import annotations

import gc

import pytest

from test_selection.collector import collector_paused


def test_the_collector_rests_and_runs_again_after_an_error() -> None:
    assert gc.isenabled()
    seen = []

    def fail() -> None:
        with collector_paused():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
