"""Run a job on the container engine here, a container a pod, with a cluster's mounts and environment."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

import docker

from ci.config.explain import variable_of
from ci.core.container_engine import TIMEOUT_S, check_is_here, engine, fetch
from ci.core.containers import LABEL, Conditions, container, follow
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    DeviceError,
    SettingsError,
    UsageError,
)
from ci.core.text import counted, plain, shell_line
from ci.core.workflow_commands import defused
from ci.jobs.job import (
    INDEX_VARIABLE,
    SCRATCH,
    Job,
    container_of,
    environment_of,
    helpers_of,
    mounts_of,
)
from ci.jobs.prepare import token_secret
from ci.jobs.spec import SecretRef

JOB_LABEL = f"{LABEL}.job"
EMULATE = "SPYRE_CI_EMULATE"
# As a cluster's pods run: a user that no image knows, with the group of root.
ARBITRARY_USER, GROUP = 1_000_800_000, 0
# A cluster's pods have as much as their memory; here it is taken as far as it is used.
SHARED_MEMORY_BYTES = 8 << 30
# Of the lines of a secret; a shorter one, such as a bracket, tells nothing and is in any line.
LINE_LENGTH = 6
# A run that is told to end writes its account first; whoever pressed Ctrl-C waits for it.
GRACE_S = 30
Say = Callable[[str], None]
_FINAL = {EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """How a job runs on this machine.

    Attributes:
        results: folder that stands for the store's volume.
        work: folder below which scratch disks are made.
        environ: of the caller; secrets are read from it.
        user: number that the containers run as.
        devices: real cards, such as /dev/vfio/1; none: they are emulated.
        network: of the containers, as the engine knows it.
        port: of loopback that leads to the job's; None: the same number.
    """

    results: Path
    work: Path
    environ: Mapping[str, str]
    user: int
    devices: Sequence[str] = ()
    network: str = "bridge"
    port: int | None = None


def user_of(caller: int) -> int:
    """The user that containers run as: the caller, who then owns results; for root, one as clusters give."""
    return caller or ARBITRARY_USER


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """A container of a pod; only the pod's own has no name."""

    name: str
    image: str
    args: Sequence[str]
    conditions: Conditions


def run_here(job: Job, here: Here, *, echo: Say, grace_s: int = GRACE_S) -> int:
    """Run each pod of a job once, one after another; the worst exit code: usage, incomplete, failed tests.

    Nothing replaces a pod: run again, the job goes on.

    Args:
        job: what is run.
        here: this machine.
        echo: takes lines for people.
        grace_s: seconds that a pod has to end in when all of it is interrupted.

    Raises:
        SpyreCiError: the engine refuses, there is no such image, or the job cannot run here.
    """
    job = _with_own_token(job)
    secrets = check_here(job, here)
    here = replace(here, results=here.results.absolute(), work=here.work.absolute())
    own_folder(here.results, here.user)
    here.work.mkdir(parents=True, exist_ok=True)
    # A pod may say nothing for all the time it has.
    timeout_s = max(TIMEOUT_S, job.deadline_s + GRACE_S)
    prefix, codes = f"{job.name}-config-", set[int]()
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=here.work) as folder,
        engine(here.environ, timeout_s=timeout_s) as client,
    ):
        check_is_here(client)
        for image in dict.fromkeys([job.image, *(one.image for one in helpers_of(job))]):
            fetch(client, image)
        configs = put_files(job.files, Path(folder) / "files")
        if (port := container_of(job).port) is not None:
            echo(f"http://127.0.0.1:{here.port or port} reaches the job once it listens; Ctrl-C stops it")
        end = time.monotonic() + job.deadline_s
        for index in range(job.pods):
            until = min(end, time.monotonic() + (job.pod_deadline_s or job.deadline_s))
            say = _teller(echo, index, secrets)
            run = partial(_run, client, until=until, say=say, grace_s=grace_s)
            with _scratch_disk(job, index, here) as scratch:
                code = _run_pod(containers_of(job, index, here, scratch=scratch, configs=configs), run, say)
            echo(f"pod {index}: " + ("done" if code == EXIT_OK else f"ended with code {code}"))
            codes.add(code if code in _FINAL else EXIT_INCOMPLETE)
    if "results" in mounts_of(job):
        echo(f"results are in {here.results}")
    return next((code for code in (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED) if code in codes), EXIT_OK)


def _run_pod(containers: Iterable[PodContainer], run: Callable[[PodContainer], int], say: Say) -> int:
    """Run a pod's containers one after another; the exit code of its own.

    What runs beside that on a cluster finds everything there when it begins after it.
    """
    own = EXIT_OK
    for one in containers:
        if not one.name:
            own = run(one)
            continue
        say(f"{one.name}: {shell_line(one.conditions.entrypoint or ())}")
        if code := run(one):
            say(f"{one.name} ended with code {code}")
            # A cluster takes no code of such a container for a verdict.
            return EXIT_INCOMPLETE
    return own


def _run(client: docker.DockerClient, one: PodContainer, *, until: float, say: Say, grace_s: int) -> int:
    """Run a container to its end; its exit code."""
    if (left := until - time.monotonic()) <= 0:
        return EXIT_INCOMPLETE
    with container(client, one.image, one.args, replace(one.conditions, grace_s=grace_s)) as made:
        ended = follow(made, timeout_s=left, echo=say)
    if ended.timed_out:
        say("stopped: its time limit is over")
        return EXIT_INCOMPLETE
    if ended.out_of_memory:
        say("ended: it ran out of memory")
    return ended.exit_code


def check_here(job: Job, here: Here) -> list[str]:
    """Refuse what this machine cannot give, before anything runs; returns the values of the job's secrets.

    Raises:
        UsageError: a port that a network of the host cannot lead to.
        DeviceError: fewer cards than a pod wants.
        SettingsError: a secret's variable is not set; each with the secret and key it stands for.
    """
    if here.port is not None and here.network == "host":
        raise UsageError(
            f"--port {here.port} has no meaning with the host's network",
            remedy="leave it out: the job listens at its own port",
        )
    cards = job.spec.resources.cards
    # Beside the groups of cards there may be what all of them share, such as /dev/vfio/vfio.
    if here.devices and len(here.devices) < cards:
        raise DeviceError(
            f"{counted(len(here.devices), 'device')} for a pod that needs {counted(cards, 'card')}",
            where="image.devices",
            remedy="list more devices, or none to emulate the cards",
        )
    secrets = {name: one for name, one in environment_of(job).items() if isinstance(one, SecretRef)}
    missing = [
        f"{name} ({one.key} of {one.secret})" for name, one in secrets.items() if not here.environ.get(name)
    ]
    if missing:
        raise SettingsError(
            f"variables that replace the cluster's secrets are not set: {', '.join(missing)}",
            where="environment",
            remedy="export them; they are passed to the containers and never shown",
        )
    return [here.environ[name] for name in secrets]


def _with_own_token(job: Job) -> Job:
    """A notebook whose token a submit would make takes one of its own, and prints it."""
    section = job.spec.notebook
    if section is None or section.token != token_secret(job):
        return job
    unnamed = section.model_copy(update={"token": None})
    return replace(job, spec=job.spec.model_copy(update={"notebook": unnamed}))


def containers_of(job: Job, index: int, here: Here, *, scratch: Path, configs: Path) -> list[PodContainer]:
    """The containers of a pod in the order they run here.

    Args:
        job: what is run; its secrets are in the environment (`check_here`).
        index: of the pod.
        here: this machine.
        scratch: folder that is the pod's disk.
        configs: folder with the job's files.
    """
    helpers, own, cards = helpers_of(job), container_of(job), job.spec.resources.cards
    writable = {"scratch": scratch, "results": here.results}
    folders, mounts = {**writable, "config": configs}, mounts_of(job)
    if "model" in mounts:
        folders["model"] = scratch / PurePosixPath(helpers[0].at).relative_to(SCRATCH)
    given = {INDEX_VARIABLE: str(index)}
    if cards:
        # The spec's own variables win over these.
        given |= {variable_of("run.cards"): str(cards)} | ({} if here.devices else {EMULATE: "1"})

    def environment(known: Mapping[str, str | SecretRef]) -> dict[str, str]:
        return given | {
            name: one if isinstance(one, str) else here.environ[name] for name, one in known.items()
        }

    # A helper has the pod's disk, all keys, and no cards and no port.
    bare = Conditions(
        environment=environment(environment_of(job)),
        user=f"{here.user}:{GROUP}",
        restricted=True,
        mounts={SCRATCH: scratch},
        network=here.network,
        shared_memory_bytes=SHARED_MEMORY_BYTES,
        labels={JOB_LABEL: job.name},
    )
    # The host's network has the container's own port.
    port = None if here.network == "host" else own.port
    main = replace(
        bare,
        environment=environment(own.environment),
        entrypoint=own.command or None,
        mounts={at: folders[name] for name, at in mounts.items() if name in writable},
        read_only_mounts={at: folders[name] for name, at in mounts.items() if name not in writable},
        devices=here.devices if cards else (),
        ports={} if port is None else {here.port or port: port},
    )
    found = [
        PodContainer(
            name=one.name, image=one.image, args=(), conditions=replace(bare, entrypoint=one.command)
        )
        for one in helpers
    ]
    first = sum(not one.beside for one in helpers)
    return [
        *found[:first],
        PodContainer(name="", image=job.image, args=own.args, conditions=main),
        *found[first:],
    ]


def _teller(echo: Say, index: int, secrets: Sequence[str]) -> Say:
    return lambda line: echo(shown_line(line, index, secrets))


def shown_line(line: str, index: int, secrets: Sequence[str]) -> str:
    """A line of a pod behind its index: harmless to a terminal and a CI, and without the secrets."""
    # A key of many lines is printed line by line.
    lines = {
        one for secret in secrets for raw in secret.splitlines() if len(one := raw.strip()) >= LINE_LENGTH
    }
    # The longest first: one may be a part of another.
    for secret in sorted(filter(None, {*secrets, *lines}), key=len, reverse=True):
        line = line.replace(secret, "***")
    return defused(f"[{index}] {plain(line)}")


def put_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write a job's files, for any user to read; returns their folder."""
    folder.mkdir(mode=0o755, parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    return folder


def own_folder(path: Path, user: int) -> Path:
    """A folder that the containers' user can write; only root can give it to another user."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, user, GROUP)
    return path


@contextmanager
def _scratch_disk(job: Job, index: int, here: Here) -> Iterator[Path]:
    """A pod's disk, which ends with it, with the folders that helpers fill."""
    prefix = f"{job.name}-{index}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=here.work, ignore_cleanup_errors=True) as folder:
        scratch = own_folder(Path(folder) / "scratch", here.user)
        for path in (path for one in helpers_of(job) for path in (one.folder, one.at) if path):
            own_folder(scratch / PurePosixPath(path).relative_to(SCRATCH), here.user)
        yield scratch
