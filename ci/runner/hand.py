"""A child that a worker holds: one file set up, ordered piece by piece over pipes."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci.runner.child import Child, start
from ci.runner.messages import DONE, UNWRITTEN, Sender, wait_for
from ci.runner.plugin import run_group
from ci.runner.watchdog import Watch


class Hand:
    """A child at one file.

    Attributes:
        file: the file it has set up, or does so.
        child: the process.
        forked: whether it began as a copy of the worker.
        watch: what it said.
        unwritten: whether it said that it cannot write to the journal, and ended for it.
    """

    def __init__(
        self,
        file: str,
        spec: Mapping[str, Any],
        *,
        log: Path,
        method: str,
        watch: Watch,
        keep_back: Sequence[int] = (),
    ) -> None:
        """Start the child; a copy of this process closes the descriptors that are kept back."""
        self.file, self.watch, self.forked = file, watch, method == "fork"
        to_child, self._orders = os.pipe()
        self._answers, from_child = os.pipe()
        try:
            self.child: Child = start(
                run_group,
                {**spec, "file": file, "orders": to_child, "answers": from_child},
                log=log,
                method=method,
                hand_on=(to_child, from_child),
                keep_back=(self._orders, self._answers, *keep_back),
            )
        finally:
            os.close(to_child)
            os.close(from_child)
        self._sender = Sender(self._orders)
        self._open = True
        self._hears = True
        self.unwritten = False
        self._owed = 1  # it answers when the file is set up
        watch.child = self.child

    def order(
        self,
        ids: Sequence[str],
        expectations: Mapping[str, Any],
        attempt: int = 1,
        chains: Sequence[Sequence[str]] = (),
    ) -> None:
        """Have it run `ids`, for the so manieth time; those of a chain in its order, with none between."""
        wanted = set(ids)
        content = {
            "ids": list(ids),
            "chains": [list(chain) for chain in chains],
            "expectations": {name: one for name, one in expectations.items() if name in wanted},
            "try": attempt,
        }
        # It may be setting the file up, and read nothing meanwhile.
        self._sender.send(json.dumps(content, separators=(",", ":")).encode() + b"\n")
        self._owed += 1

    @property
    def answered(self) -> bool:
        """Whether it has done all it was told to, as far as was heard."""
        return self._owed <= 0

    def listen(self, timeout_s: float) -> None:
        """Wait for an answer, at most so long."""
        if self._open:
            self._sender.push()
        if not self._hears:
            time.sleep(timeout_s)  # a test has closed the pipe; how the child ends is seen all the same
        elif wait_for([self._answers], timeout_s):
            heard = os.read(self._answers, 4096)
            self._owed -= heard.count(DONE)
            self._hears = bool(heard)
            self.unwritten = self.unwritten or UNWRITTEN in heard

    def dismiss(self) -> None:
        """Tell it that there is nothing more; what it does then is its ending."""
        if self._open:
            self._open = False
            os.close(self._orders)

    def close(self) -> None:
        """Let go of its pipes; the child has ended."""
        self.dismiss()
        with contextlib.suppress(OSError):
            os.close(self._answers)
