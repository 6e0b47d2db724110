from __future__ import annotations

import os
import signal
import threading

import pytest

from ci.core import operating_system, parent_death


def test_a_process_whose_parent_goes_is_sent_the_signal_and_not_before() -> None:
    seen = iter([7, 7, 1])
    slept: list[float] = []
    sent: list[tuple[int, int]] = []
    parent_death.watch_parent(
        7, signal.SIGTERM, now=lambda: next(seen), sleep=slept.append,
        kill=lambda pid, number: sent.append((pid, number)),
    )  # fmt: skip
    assert slept == [parent_death.POLL_S] * 2
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_where_the_kernel_does_not_see_to_it_a_thread_does(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Event()
    monkeypatch.setattr(operating_system, "name", lambda: "darwin")
    monkeypatch.setattr(parent_death, "watch_parent", lambda parent, _: looked.set() if parent == 7 else None)
    parent_death.die_with_parent(7)
    assert looked.wait(10)
