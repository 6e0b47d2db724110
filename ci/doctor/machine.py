"""What checks are given of the outside world, and the commands they start: none outlasts the doctor."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.config import Settings
from ci.core import operating_system
from ci.core.commands import Ended, finish_command
from ci.core.errors import CommandError
from ci.core.text import last_line
from ci.runner.child import HOME

# A command ends by itself after this, also where the doctor was killed.
ALONE_S = 60
_ENDS = """\
import os, signal, sys
signal.alarm(int(sys.argv[1]))  # which stays across what follows
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"it cannot be started: {error.strerror}")
"""
_CHILD = "import sys; sys.path.append(sys.argv[1]); from ci.doctor.probes import main; main(sys.argv[2:])"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The outside world of a check.

    Attributes:
        settings: resolved.
        environ: the environment.
        cwd: where the doctor was called.
        cores: CPU cores there are.
        clock: seconds since the epoch.
        open_cards: whether free cards are opened, each under its lease.
        root: below which `dev` and `sys` are.
        system: as `sys.platform` has it.
        run: runs a command to its end, as `finish_command`.
        stop: set when the checks are over, which ends what still runs.
        waiting: threads that wait for a command.
    """

    settings: Settings
    environ: Mapping[str, str]
    cwd: Path
    cores: int
    clock: Callable[[], float]
    open_cards: bool = False
    root: Path = Path("/")
    system: str = field(default_factory=operating_system.name)
    run: Callable[..., Ended] = finish_command
    stop: threading.Event = field(default_factory=threading.Event)
    waiting: set[threading.Thread] = field(default_factory=set)

    def command(
        self, argv: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None
    ) -> tuple[Ended | None, str]:
        """A command that ended, or None and why it did not.

        Args:
            argv: program and arguments.
            limit_s: after which it and all it started are killed.
            env: its environment; None: the machine's.
        """
        argv = [sys.executable, "-I", "-S", "-c", _ENDS, str(ALONE_S), *argv]
        self.waiting.add(threading.current_thread())
        try:
            return self.run(argv, timeout_s=limit_s, env=env or self.environ, stop=self.stop.is_set), ""
        except CommandError as error:
            late = error.what.startswith("took longer")
            return None, f"no answer within {limit_s:g} s" if late else error.what
        finally:
            self.waiting.discard(threading.current_thread())

    def probe(
        self, *arguments: str, limit_s: float, env: Mapping[str, str] | None = None
    ) -> tuple[Mapping[str, Any], str]:
        """What a probe of `ci.doctor.probes` finds, in a process of its own; empty, and why, if nothing.

        Args:
            arguments: its name and arguments; none of them secret.
            limit_s: after which it and all it started are killed.
            env: its environment; None: the machine's.
        """
        # -P: a torch.py of the current folder is not torch. Our own code is last, so that it hides nothing.
        argv = [sys.executable, "-P", "-c", _CHILD, str(HOME), *arguments]
        ended, why = self.command(argv, limit_s=limit_s, env=env)
        if ended is None:
            return {}, why
        try:
            row = json.loads(ended.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
            return dict(row), ""
        except (ValueError, TypeError):
            stderr = last_line(ended.stderr.decode("utf-8", "replace"))
            return {}, stderr or f"exited with code {ended.code} without output"
