"""The process that collects files, without the children that it starts."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from ci.runner import collect_process
from ci.runner.child import EXIT_TERMINATED


def test_a_signal_that_comes_within_a_fork_ends_the_process_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    class Child:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            ended.append(self)

    def start(*_: object, **__: object) -> Child:
        with suppress(SystemExit):  # as Python does with what a hook of os.fork raises
            collect_process._terminate(signal.SIGTERM, None)
        return Child()

    monkeypatch.setattr(collect_process, "_HEARD", [])
    monkeypatch.setattr(collect_process, "start", start)
    task = {
        "files": ["test_kills.py"],
        "folder": str(tmp_path),
        "workers": 1,
        "timeout_s": 60,
        "method": "fork",
    }
    with pytest.raises(SystemExit) as left:
        next(collect_process.collect_all(task))
    assert left.value.code == EXIT_TERMINATED
    assert len(ended) == 1
