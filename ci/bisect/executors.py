"""Who makes commits ready and tries them: trees of our own, a builder, and the runner in a process a try.

A try within the image of a commit is the same process in a container of its own.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import requests
from docker.errors import APIError
from docker.models.containers import Container

import ci
from ci.bisect.answers import Answer
from ci.bisect.builders import Builder, Made
from ci.bisect.child import KIND, answers_in
from ci.bisect.trees import Trees
from ci.config.model import SettingsModel
from ci.core.container_engine import check_is_here, engine
from ci.core.containers import Conditions, container, follow
from ci.core.errors import CommandError, SpyreCiError
from ci.core.process import finish_command
from ci.core.text import last_line
from ci.core.withheld import without_job_secrets
from ci.runner.orphans import end_orphans
from ci.steps.context import Context
from test_selection.files import write_json

_POLL_S = 0.5
# What collecting, planning and starting may take besides the tries.
_BESIDE_S = 900
# By this variable processes of a search are found again, whoever became their parent.
MARK = "SPYRE_CI_BISECT"


def conditions_of(context: Context, *, tree: Path, folder: Path, search: Path) -> Conditions:
    """How the container runs: no network, no secret, and nothing of this machine but what the try is of.

    Args:
        context: the outside world.
        tree: the commit's files.
        folder: of the job; it takes what the try leaves.
        search: of the whole search; leases in it keep tries from each other's cards.
    """
    project = Path(ci.__file__).parent.parent
    settings = context.settings
    ours = {
        name: value
        for name, value in without_job_secrets(context.environ).items()
        if name.startswith("SPYRE_CI__")
    }
    leases = search / "leases"
    return Conditions(
        environment={
            **ours,
            "PYTHONPATH": str(project),
            "HOME": "/tmp",  # noqa: S108  # the container's own
            "SPYRE_CI__STATE": str(folder / "state"),
            "SPYRE_CI__RUN__LEASES": str(leases),
        },
        user=f"{os.getuid()}:{os.getgid()}",
        workdir=str(folder),
        entrypoint=("python3",),
        scratch=("/tmp",),  # noqa: S108  # the container's own
        mounts={str(one): one for one in (tree, folder, leases)},
        read_only_mounts={
            str(one): one
            for one in (project / "ci", project / "test_selection", *filter(None, [settings.path]))
        },
        devices=tuple(settings.model.image.devices),
        restricted=True,
    )


def try_in_image(
    environ: Mapping[str, str],
    image: str,
    job: Path,
    conditions: Conditions,
    *,
    timeout_s: float,
    stop: threading.Event,
) -> list[str]:
    """Run a job in an image, and return the lines it printed.

    Raises:
        CommandError: no engine answers, it has no such image, the try took too long or was ended.
    """
    for one in conditions.mounts.values():
        one.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    with engine(environ) as client:
        check_is_here(client)
        command = ("-m", "ci.bisect.child", str(job))
        with container(client, image, command, conditions) as made, _ended_by(stop, made):
            ended = follow(made, timeout_s=timeout_s, echo=lines.append)
    if ended.timed_out:
        raise CommandError(f"the try took longer than {timeout_s:g} s", where=image)
    return lines


@contextmanager
def _ended_by(stop: threading.Event, made: Container) -> Iterator[None]:
    """Within, the container is killed when the search is to end."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            if stop.is_set():
                with suppress(APIError, requests.RequestException):
                    made.kill()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@dataclass(kw_only=True)
class RunnerHands:
    """The hands of a search here.

    Attributes:
        context: the outside world.
        test: its canonical id.
        commits: SHAs by position.
        trees: where files of commits are written.
        builder: makes them ready.
        folder: takes what tries leave.
        stop: set when the search is to end.
    """

    context: Context
    test: str
    commits: Sequence[str]
    trees: Trees
    builder: Builder
    folder: Path
    stop: threading.Event
    _made: dict[int, Made] = field(default_factory=dict)
    _one: dict[int, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    _git: threading.Lock = field(default_factory=threading.Lock)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def ready(self, position: int) -> Made:
        """Write a commit's files and build it, once a round; two hands at one commit share it.

        Raises:
            UnbuildableError: it cannot be built.
            CommandError: git or the builder could not work.
        """
        with self._git:
            lock = self._one[position]
        with lock:
            if position not in self._made:
                sha = self.commits[position]
                with self._git:
                    tree = self.trees.make(sha)
                try:
                    self._made[position] = self.builder.build(sha, tree)
                except SpyreCiError:
                    with self._git:  # what half a build left is no part of the next, and takes room
                        self.trees.drop(tree)
                    raise
            return self._made[position]

    def attempt(self, made: Made, position: int, tries: int) -> list[Answer]:
        """Try some times in one process.

        Raises:
            CommandError: it took too long, or ended without an answer.
        """
        with self._git:
            number = next(self._numbers)
        folder = self.folder / "tries" / f"{self.commits[position][:12]}-{os.getpid()}-{number}"
        settings = self.context.settings
        flags = {"device.name": settings.model.device.name}
        job = {
            "test": self.test,
            "tree": str(made.tree),
            "folder": str(folder),
            "tries": tries,
            "settings": None if settings.path is None else str(settings.path.resolve()),
            "base": str(settings.base),
            "flags": flags if made.cached else {**flags, "collect.cache": False},
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "job.json", KIND, job)
        lines, said = self._run(made, folder, timeout_of(settings.model, tries))
        found = answers_in(lines)
        if found and not any(folder.glob("try-*")):  # nothing failed, so there is nothing to look at
            shutil.rmtree(folder, ignore_errors=True)
        if not found and not self.stop.is_set():
            raise CommandError(f"the try ended without an answer: {said or 'no word'}", where=folder)
        return found

    def _run(self, made: Made, folder: Path, timeout_s: float) -> tuple[list[str], str]:
        """The lines of a try, and the last word of one that failed."""
        job = folder / "job.json"
        if made.image:
            conditions = conditions_of(self.context, tree=made.tree, folder=folder, search=self.folder)
            environ = self.context.environ
            lines = try_in_image(environ, made.image, job, conditions, timeout_s=timeout_s, stop=self.stop)
            return lines, last_line("\n".join(lines))
        ended = finish_command(
            [made.python, "-m", "ci.bisect.child", job],
            timeout_s=timeout_s,
            cwd=folder,
            env=child_environment(self.context, self.folder),
            stop=self.stop.is_set,
        )
        said = last_line(ended.stderr.decode("utf-8", "replace"))
        return ended.stdout.decode("utf-8", "replace").splitlines(), said

    def put_down(self) -> None:
        """Remove the trees of a round; what was built of them is kept by its builder."""
        for made in self._made.values():
            made.release()
            self.trees.drop(made.tree)
        self._made.clear()


def timeout_of(settings: SettingsModel, tries: int) -> float:
    """Seconds some tries may take: to wait while others have every card is no fault of a try's."""
    waits = 0.0 if settings.device.name == "cpu" else settings.run.lease_timeout_s
    return _BESIDE_S + tries * (settings.bisect.try_timeout_s + waits)


def child_environment(context: Context, folder: Path) -> dict[str, str]:
    """The environment of a try: no secret of ours, our own code before any other, and whose it is."""
    path = [str(Path(ci.__file__).parent.parent), *filter(None, [context.environ.get("PYTHONPATH")])]
    environ = without_job_secrets(context.environ)
    return {**environ, "PYTHONPATH": os.pathsep.join(path), MARK: str(folder)}


def end_left(folder: Path) -> None:
    """End what tries of a search left running, as those of one that was killed."""
    end_orphans(str(folder), spare=[os.getpid()], variable=MARK)
