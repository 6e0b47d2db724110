"""What looks are handed of the outside world, and the processes they start: none outlasts the doctor."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ci
from ci.config import Settings
from ci.core.errors import CommandError
from ci.core.process import Ended, finish_command
from ci.core.text import last_line

# The folder our own code is in: a child has it last in its path, so that it hides nothing there.
CODE = Path(ci.__path__[0]).parent
_ASK = (
    "import signal, sys; signal.alarm(int(sys.argv[1])); sys.path.append(sys.argv[2]); "
    "from {module} import main; main(sys.argv[3:])"
)
# After which a process of ours ends by itself: whoever kills the doctor kills not what it waits for.
ALONE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world of a look.

    Attributes:
        settings: resolved.
        environ: the environment.
        clock: seconds since the epoch.
        monotonic: seconds that never go back.
        cwd: where the doctor was called.
        cores: CPU cores there are.
        processes: starts them.
    """

    settings: Settings
    environ: Mapping[str, str]
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    cwd: Path
    cores: int
    processes: Processes


class Processes:
    """Starts processes for looks, and ends those that are left when it is enough."""

    def __init__(self, run: Callable[..., Ended] = finish_command) -> None:
        self._run = run
        self._over = threading.Event()
        self._none = threading.Condition()
        self._running = 0

    def finish(self, argv: Sequence[str | Path], *, env: Mapping[str, str], limit_s: float) -> Ended:
        """Run a command to its end, or until it is enough.

        Raises:
            CommandError: it is not installed, or took longer than `limit_s` seconds.
        """
        with self._none:
            if self._over.is_set():
                raise CommandError("it is enough", remedy="do it again")
            self._running += 1
        try:
            return self._run(argv, timeout_s=limit_s, env=env, stop=self._over.is_set)
        finally:
            with self._none:
                self._running -= 1
                self._none.notify_all()

    def end(self, wait_s: float) -> bool:
        """Have all that still runs ended, and wait for that; whether none is left."""
        self._over.set()
        with self._none:
            return self._none.wait_for(lambda: self._running == 0, wait_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a child of ours said: values, or why there are none.

    Attributes:
        row: JSON values; empty where it said nothing of use.
        why: it did not; empty where it did.
        late: whether that is because its time was over.
    """

    row: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    late: bool = False


def ask_module(
    world: World, module: str, *arguments: str, limit_s: float, environ: Mapping[str, str] | None = None
) -> Told:
    """Let a module of ours look in a process of its own, in which a library may hang or start what it likes.

    Args:
        world: hands on its environment.
        module: has `main`, which prints a JSON object.
        arguments: of `main`; none of them secret.
        limit_s: after which the process and all it started are killed.
        environ: of the process; None: the world's.
    """
    code = _ASK.format(module=module)
    return ask(
        world,
        [sys.executable, "-P", "-c", code, str(ALONE_S), str(CODE), *arguments],
        environ or world.environ,
        limit_s=limit_s,
    )


def ask(world: World, argv: Sequence[str], env: Mapping[str, str], *, limit_s: float) -> Told:
    """The JSON object that a command prints as its last line, whatever else it prints."""
    try:
        ended = world.processes.finish(argv, env=env, limit_s=limit_s)
    except CommandError as error:
        late = "took longer" in error.what
        return Told(why="took longer than its time" if late else error.what, late=late)
    said = ended.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
    try:
        row = json.loads(said)
        if isinstance(row, dict):
            return Told(row=row)
    except ValueError:
        pass
    why = last_line(ended.stderr.decode("utf-8", "replace"))
    return Told(why=why or f"ended with code {ended.code} and said nothing")
