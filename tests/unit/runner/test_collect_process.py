"""The process that collects files, without the children that it starts."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ci.runner import collect_process


def test_a_signal_that_comes_within_a_fork_ends_the_process_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, heard = [], []

    class Child:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            ended.append(self)

    def start(*_: object, **__: object) -> Child:
        heard.append(signal.SIGTERM)  # what its handler raised, a hook of os.fork dropped
        return Child()

    monkeypatch.setattr(collect_process, "start", start)
    task = {
        "files": ["test_kills.py"],
        "folder": str(tmp_path),
        "workers": 1,
        "timeout_s": 60,
        "method": "fork",
    }
    with pytest.raises(KeyboardInterrupt):
        next(collect_process.collect_all(task, heard))
    assert len(ended) == 1
