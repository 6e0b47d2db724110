"""A process of its own: one prepared parent that forks a child for each file to collect.

Started as `python -m ci.runner.collect_process` with its task on standard input; prints a JSON line a
finished file. What one file does (crash, hang, exit) stays in its child.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core import interrupts
from ci.core.commands import signal_name
from ci.core.other_processes import die_with_parent
from ci.runner import prepared_parent, reexec
from ci.runner.child import EXIT_TERMINATED, ChildProcess, log_of, start
from ci.runner.collect import KIND
from ci.runner.session import collect_file
from test_selection.files import read_json

POLL_S = 0.01


@dataclass(slots=True, kw_only=True)
class _Running:
    file: str
    out: Path
    child: ChildProcess
    started: float


def main() -> None:
    """Collect every file of the task."""
    inherited = reexec.open_descriptors()
    task = reexec.told_again(sys.argv[1:]) or json.load(sys.stdin)
    die_with_parent(int(task["parent"]), signal.SIGTERM)
    with interrupts.raised() as heard:
        try:
            _answer(task, inherited, heard)
        except KeyboardInterrupt:
            if signal.SIGTERM in heard:
                sys.exit(EXIT_TERMINATED)
            raise


def _answer(task: Mapping[str, Any], inherited: Collection[int], heard: Sequence[int]) -> None:
    prepared_parent.single_thread(os.environ)
    if task["method"] == "fork":
        prepared_parent.import_torch(task["device"], machinery=task["machinery"])
        if task["may_change"] and (why := reexec.device_open(task["device"])):
            # What opens the card when it is imported does so in every child: one at a time.
            reexec.begin_again("ci.runner.collect_process", {**task, "workers": 1}, why=why, kept=inherited)
    for row in collect_all(task, heard):
        print(json.dumps(row), flush=True)  # noqa: T201  # the answer to whoever started this process


def collect_all(task: Mapping[str, Any], heard: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield `{"file", "out"}` or `{"file", "error", "detail", "collect_s"}` as files end, in any order.

    Args:
        task: `tests`, `device`, `files`, `folder` (for results and logs), `workers`, `timeout_s`,
            `method`, `threads`, `machinery` (whether files want it).
        heard: interrupts that came. Python drops what a handler raises while os.fork calls its hooks.
    """
    waiting = list(enumerate(task["files"]))[::-1]
    running: list[_Running] = []
    try:
        while waiting or running:
            if heard:
                raise KeyboardInterrupt
            while waiting and len(running) < int(task["workers"]):
                running.append(_begin(task, *waiting.pop()))
            ended = [(one, row) for one in running if (row := _ended(one, float(task["timeout_s"])))]
            for one, row in ended:
                running.remove(one)
                yield row
            if not ended:
                time.sleep(POLL_S)
    finally:
        for one in running:
            one.child.kill()


def _begin(task: Mapping[str, Any], number: int, file: str) -> _Running:
    folder = Path(task["folder"])
    out = folder / f"{number}.json"
    spec = {**task, "files": [], "file": file, "out": str(out)}
    child = start(collect_file, spec, log=log_of(folder, number), method=task["method"])
    return _Running(file=file, out=out, child=child, started=time.monotonic())


def _ended(one: _Running, timeout_s: float) -> dict[str, Any] | None:
    """What became of a file, or None while its child works on it."""
    code = one.child.poll()
    seconds = round(time.monotonic() - one.started, 3)
    if code is None and seconds < timeout_s:
        return None
    one.child.kill()  # the child itself when it hangs, and in every case what it left behind
    if code is None:
        while one.child.poll() is None:
            time.sleep(POLL_S)
        error = f"collecting took longer than {timeout_s:g} s and was ended"
    elif code == 0 and one.out.is_file() and read_json(one.out, KIND):
        return {"file": one.file, "out": str(one.out)}
    elif code < 0:
        error = f"collecting died by {signal_name(-code)}"
    else:
        error = f"collecting ended the process with code {code}"
    return {"file": one.file, "error": error, "detail": one.child.last_lines(), "collect_s": seconds}


if __name__ == "__main__":
    main()
