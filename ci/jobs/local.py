"""Run a job on the container engine here, pod by pod, with a cluster's mounts and failure policy."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from pathlib import Path, PurePosixPath

import docker
from docker.errors import APIError

from ci.core.container_engine import TIMEOUT_S, check_is_here, engine, fetch
from ci.core.containers import Conditions, Ended, container, follow
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
from ci.core.text import shell_line
from ci.jobs.here import (
    GROUP,
    JOB_LABEL,
    Here,
    conditions_of,
    fetching,
    images_of,
    made_ready,
    secrets_of,
    shown_line,
    url_of,
)
from ci.jobs.job import Job, container_of, fetches_of, mounts_of
from ci.jobs.kinds import SCRATCH

# A run that is told to end writes its account first; whoever pressed Ctrl-C waits for it.
GRACE_S = 30.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnd:
    """How an index ended.

    Attributes:
        index: of the pods.
        code: exit code of the last of them.
        pods: how many there were.
    """

    index: int
    code: int
    pods: int


def run_here(
    job: Job,
    here: Here,
    *,
    echo: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    grace_s: float = GRACE_S,
) -> tuple[list[PodEnd], int]:
    """Run all pods of a job; how each index ended, and the exit code of it all.

    Args:
        job: what is run.
        here: this machine.
        echo: takes lines for people, of several pods at once.
        clock: seconds, monotonic.
        grace_s: seconds that pods have to end in when all of it is interrupted.

    Raises:
        SpyreCiError: the engine refuses, there is no such image, or the job cannot run here.
    """
    job, here = made_ready(job, here)
    with folders_of(job, here) as configs, engine(here.environ) as client:
        check_is_here(client)
        for image in images_of(job):
            fetch(client, image)
        secrets = list(secrets_of(job, here.environ).values())
        local = Local(job=job, here=here, configs=configs, secrets=secrets, echo=echo, clock=clock)
        if (url := url_of(job, here)) is not None:
            echo(f"{url} leads to it once it listens; Ctrl-C ends it")
        ends = _all_of(local, range(job.pods), client, grace_s)
    return ends, exit_code_of([one.code for one in ends])


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """A job that runs here; its methods are called by a thread for each pod.

    Attributes:
        job: what is run.
        here: this machine.
        configs: folder with the job's files.
        secrets: values that are not to be shown.
        echo: takes lines for people.
        clock: seconds, monotonic.
        stopping: no more containers are begun.
        lock: held while a line is shown.
    """

    job: Job
    here: Here
    configs: Path
    secrets: Sequence[str]
    echo: Callable[[str], None]
    clock: Callable[[], float]
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def index(self, index: int, until: float) -> PodEnd:
        """Run pods of an index until one is done, or none is to follow."""
        retries, tries = self.job.spec.retries, 0
        # A pod may say nothing for all the time it has.
        patience_s = max(TIMEOUT_S, self.job.deadline_s + int(GRACE_S))
        # A connection of its own: those of the library are not for several threads.
        with engine(self.here.environ, timeout_s=patience_s) as client:
            while True:
                tries += 1
                code = self._pod(client, index, until)
                what = decide(code, tries=tries, retries=retries)
                if what is not Next.AGAIN or self.stopping.is_set() or self.clock() >= until:
                    return PodEnd(index=index, code=code, pods=tries)
                self.say(index, f"ended with code {code}: another pod takes it up, {tries} of {retries}")

    def _pod(self, client: docker.DockerClient, index: int, until: float) -> int:
        """Run a pod, what it fetches first; its exit code."""
        if self.job.pod_deadline_s:
            until = min(until, self.clock() + self.job.pod_deadline_s)
        with pod_disk(self.job, index, self.here) as scratch:
            main = conditions_of(self.job, index, self.here, scratch=scratch, configs=self.configs)
            # A cluster takes no code of an init container for a verdict: the pod is tried again.
            if not self.fetch(client, index, main, until):
                return EXIT_INCOMPLETE
            return self._run(client, index, (self.job.image, container_of(self.job).args, main), until)

    def fetch(self, client: docker.DockerClient, index: int, main: Conditions, until: float) -> bool:
        """Fetch what a pod's container finds when it begins; whether all of it could be had."""
        fetcher = self.job.spec.source_image or self.job.image
        for one in fetches_of(self.job):
            self.say(index, f"{one.name}: {shell_line(one.command)}")
            if code := self._run(client, index, (fetcher, (), fetching(main, one)), until):
                self.say(index, f"{one.name} ended with code {code}")
                return False
        return True

    def _run(
        self,
        client: docker.DockerClient,
        index: int,
        what: tuple[str, Sequence[str], Conditions],
        until: float,
    ) -> int:
        """Run a container to its end; its exit code."""
        if self.stopping.is_set() or (left := until - self.clock()) <= 0:
            return EXIT_INCOMPLETE
        with container(client, *what) as made:
            ended = follow(made, timeout_s=left, echo=lambda line: self.say(index, line))
        return self._code(index, ended)

    def _code(self, index: int, ended: Ended) -> int:
        if ended.timed_out:
            self.say(index, "ended: its time is over")
            return EXIT_INCOMPLETE
        if ended.out_of_memory:
            self.say(index, "ended: it ran out of memory")
        return ended.exit_code

    def say(self, index: int, line: str) -> None:
        """Show a line of a pod."""
        with self.lock:
            self.echo(shown_line(line, index, self.secrets))


def _all_of(
    local: Local, indexes: Sequence[int], client: docker.DockerClient, grace_s: float
) -> list[PodEnd]:
    """Run all indexes, so many at a time; where one cannot be run, or all is interrupted, none goes on."""
    until = local.clock() + local.job.deadline_s
    pool = ThreadPoolExecutor(max_workers=local.here.parallel, thread_name_prefix="pod")
    running: list[Future[PodEnd]] = []
    try:
        running.extend(pool.submit(local.index, index, until) for index in indexes)
        done, _ = wait_for(running, return_when="FIRST_EXCEPTION")
        for one in done:
            one.result()
        return [one.result() for one in running]
    except BaseException:
        local.stopping.set()
        pool.shutdown(wait=False, cancel_futures=True)
        _end(client, local.job.name, running, grace_s, local.clock)
        raise
    finally:
        pool.shutdown()


def _end(
    client: docker.DockerClient,
    name: str,
    running: Sequence[Future[PodEnd]],
    grace_s: float,
    clock: Callable[[], float],
) -> None:
    """Ask a job's containers to end, then end them; whoever waits for one removes it."""
    asked: set[str] = set()
    last = clock() + grace_s
    while not all(one.done() for one in running):
        late = clock() >= last
        for one in client.api.containers(filters={"label": f"{JOB_LABEL}={name}"}):
            if late or one["Id"] not in asked:
                with _already_ended():
                    client.api.kill(one["Id"], "SIGKILL" if late else "SIGTERM")
                asked.add(one["Id"])
        wait_for(running, timeout=_POLL_S)


@contextmanager
def _already_ended() -> Iterator[None]:
    try:
        yield
    except APIError as error:
        if error.status_code not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
            raise


def local(job: Job, here: Here, *, echo: Callable[[str], None]) -> int:
    """Run a job on the engine here, and say how each pod ended; its exit code.

    Args:
        job: ready.
        here: this machine.
        echo: takes lines for people.

    Raises:
        SpyreCiError: see `ci.jobs.local.run_here`.
    """
    ends, code = run_here(job, here, echo=echo)
    for one in ends:
        how = "done" if one.code == EXIT_OK else f"ended with code {one.code}"
        echo(f"pod {one.index}: {how}" + (f" after {one.pods} pods" if one.pods > 1 else ""))
    if "results" in mounts_of(job):
        echo(f"what they left is in {here.results}")
    return code


class Next(Enum):
    """What a cluster's failure policy makes of a pod that ended."""

    DONE = "done"
    FAILED = "failed"
    AGAIN = "again"


def decide(code: int, *, tries: int, retries: int) -> Next:
    """Whether another pod takes up an index: not where a test failed or usage is wrong.

    Args:
        code: the pod's exit code.
        tries: pods of the index so far, this one among them.
        retries: how often one is replaced.
    """
    if code == EXIT_OK:
        return Next.DONE
    if code in {EXIT_TEST_FAILED, EXIT_USAGE} or tries > retries:
        return Next.FAILED
    return Next.AGAIN


def exit_code_of(codes: Sequence[int]) -> int:
    """The whole job's exit code: usage, then what is incomplete, then failed tests.

    Args:
        codes: of the pods that were each index's last.
    """
    told = {code if code in {EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE} else EXIT_INCOMPLETE for code in codes}
    return next((code for code in (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED) if code in told), EXIT_OK)


@contextmanager
def folders_of(job: Job, here: Here) -> Iterator[Path]:
    """Folders that a job wants here; gives the one with its files, which is there while the block runs."""
    own_folder(here.results, here.user)
    here.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{job.name}-config-", dir=here.work) as folder:
        yield put_files(job.files, Path(folder) / "files")


def put_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write a job's files, for any user to read; gives their folder."""
    folder.mkdir(mode=0o755, parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    return folder


def own_folder(path: Path, user: int) -> Path:
    """A folder that the containers' user can write, made where it is not there.

    Args:
        path: of it.
        user: number; only root can give a folder away.
    """
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, user, GROUP)
    return path


@contextmanager
def pod_disk(job: Job, index: int, here: Here) -> Iterator[Path]:
    """The disk of a pod, which ends with it."""
    prefix = f"{job.name}-{index}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=here.work, ignore_cleanup_errors=True) as folder:
        yield make_disk(job, Path(folder) / "scratch", here)


def make_disk(job: Job, scratch: Path, here: Here) -> Path:
    """A pod's disk, with the folders that are fetched to, of which one may be mounted as the model."""
    own_folder(scratch, here.user)
    for one in fetches_of(job):
        for path in (one.to, one.at):
            own_folder(scratch / PurePosixPath(path).relative_to(SCRATCH), here.user)
    return scratch
