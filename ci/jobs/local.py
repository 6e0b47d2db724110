"""Run a job on the container engine here, a container a pod, with a cluster's mounts and environment."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from ci.core.text import plain, shell_line
from ci.core.workflow_commands import defused
from ci.jobs.job import (
    INDEX_VARIABLE,
    SCRATCH,
    Helper,
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


def run_here(
    job: Job,
    here: Here,
    *,
    echo: Callable[[str], None],
    grace_s: int = GRACE_S,
) -> int:
    """Run each pod of a job once, one after another; the worst exit code: usage, incomplete, failed tests.

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
    prefix = f"{job.name}-config-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=here.work) as folder,
        engine(here.environ, timeout_s=timeout_s) as client,
    ):
        check_is_here(client)
        for image in dict.fromkeys([job.image, *(one.image for one in helpers_of(job))]):
            fetch(client, image)
        configs = put_files(job.files, Path(folder) / "files")
        local = Local(
            client=client, job=job, here=here, configs=configs, secrets=list(secrets.values()), echo=echo,
            grace_s=grace_s, until=time.monotonic() + job.deadline_s,
        )  # fmt: skip
        if (port := container_of(job).port) is not None:
            echo(f"http://127.0.0.1:{here.port or port} leads to it once it listens; Ctrl-C ends it")
        codes = {local.run(index) for index in range(job.pods)}
    if "results" in mounts_of(job):
        echo(f"what they left is in {here.results}")
    told = {code if code in _FINAL else EXIT_INCOMPLETE for code in codes}
    return next((code for code in (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED) if code in told), EXIT_OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """A job that runs here; see `run_here`. `configs` has the job's files, and lines show no `secrets`."""

    client: docker.DockerClient
    job: Job
    here: Here
    configs: Path
    secrets: Sequence[str]
    echo: Callable[[str], None]
    grace_s: int
    until: float

    def run(self, index: int) -> int:
        """Run a pod with its helpers; its exit code. Nothing replaces it: run again, the job goes on."""
        code = self._pod(index)
        self.echo(f"pod {index}: " + ("done" if code == EXIT_OK else f"ended with code {code}"))
        return code

    def _pod(self, index: int) -> int:
        job, until = self.job, self.until
        if job.pod_deadline_s:
            until = min(until, time.monotonic() + job.pod_deadline_s)
        with _scratch_disk(job, index, self.here) as scratch:
            main = conditions_of(job, index, self.here, scratch=scratch, configs=self.configs)
            helpers = helpers_of(job)
            for helper in (one for one in helpers if not one.beside):
                # A cluster takes no code of an init container for a verdict.
                if self._help(helper, index, main, until):
                    return EXIT_INCOMPLETE
            code = self._run(index, job.image, container_of(job).args, main, until)
            # What runs beside it on a cluster finds everything there when it begins now.
            late = [self._help(helper, index, main, until) for helper in helpers if helper.beside]
            return EXIT_INCOMPLETE if any(late) else code

    def _help(self, helper: Helper, index: int, main: Conditions, until: float) -> int:
        self._say(index, f"{helper.name}: {shell_line(helper.command)}")
        conditions = helping(main, helper, self.job, index, self.here)
        if code := self._run(index, helper.image, (), conditions, until):
            self._say(index, f"{helper.name} ended with code {code}")
        return code

    def _run(self, index: int, image: str, args: Sequence[str], conditions: Conditions, until: float) -> int:
        """Run a container to its end; its exit code."""
        if (left := until - time.monotonic()) <= 0:
            return EXIT_INCOMPLETE
        with container(self.client, image, args, conditions) as made:
            try:
                ended = follow(made, timeout_s=left, echo=lambda line: self._say(index, line))
            except BaseException:
                made.stop(timeout=self.grace_s)
                raise
        if ended.timed_out:
            self._say(index, "ended: its time is over")
            return EXIT_INCOMPLETE
        if ended.out_of_memory:
            self._say(index, "ended: it ran out of memory")
        return ended.exit_code

    def _say(self, index: int, line: str) -> None:
        self.echo(shown_line(line, index, self.secrets))


def check_here(job: Job, here: Here) -> dict[str, str]:
    """Refuse what this machine cannot give, before anything runs; returns the job's secrets.

    Raises:
        UsageError: a port that a network of the host cannot lead to.
        DeviceError: fewer cards than a pod wants.
        SettingsError: see `secrets_of`.
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
            f"a pod wants {cards} cards, and {len(here.devices)} devices are given",
            where="image.devices",
            remedy="name more of them, or none: then cards are emulated",
        )
    return secrets_of(job, here.environ)


def _with_own_token(job: Job) -> Job:
    """A notebook whose token a submit would make takes one of its own, and prints it."""
    section = job.spec.notebook
    if section is None or section.token != token_secret(job):
        return job
    unnamed = section.model_copy(update={"token": None})
    return replace(job, spec=job.spec.model_copy(update={"notebook": unnamed}))


def secrets_of(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the job's references to secrets, from the caller's variables of the same names.

    Raises:
        SettingsError: variables that are not set, each with the secret and key it stands for.
    """
    wanted = {name: value for name, value in environment_of(job).items() if isinstance(value, SecretRef)}
    missing = [f"{name} ({ref.key} of {ref.secret})" for name, ref in wanted.items() if not environ.get(name)]
    if missing:
        raise SettingsError(
            f"secrets of the cluster are wanted here as variables that are not set: {', '.join(missing)}",
            where="environment",
            remedy="export them; they reach the containers and are shown nowhere",
        )
    return {name: environ[name] for name in wanted}


def conditions_of(job: Job, index: int, here: Here, *, scratch: Path, configs: Path) -> Conditions:
    """How a pod's own container runs.

    Args:
        job: what is run.
        index: of the pod.
        here: this machine.
        scratch: folder that is the pod's disk.
        configs: folder with the job's files.
    """
    writable = {"scratch": scratch, "results": here.results}
    folders = {**writable, "config": configs}
    mounts, own = mounts_of(job), container_of(job)
    if "model" in mounts:
        folders["model"] = scratch / PurePosixPath(helpers_of(job)[0].at).relative_to(SCRATCH)
    return Conditions(
        environment=_environment(job, index, here, own.environment),
        entrypoint=own.command or None,
        user=f"{here.user}:{GROUP}",
        restricted=True,
        mounts={at: folders[name] for name, at in mounts.items() if name in writable},
        read_only_mounts={at: folders[name] for name, at in mounts.items() if name not in writable},
        devices=here.devices if job.spec.resources.cards else (),
        network=here.network,
        # The host's network has the container's own port.
        ports={here.port or own.port: own.port} if own.port is not None and here.network != "host" else {},
        shared_memory_bytes=SHARED_MEMORY_BYTES,
        labels={JOB_LABEL: job.name},
    )


def helping(main: Conditions, helper: Helper, job: Job, index: int, here: Here) -> Conditions:
    """How a helper of a pod runs: it has the pod's disk, all keys, and no cards and no port."""
    return replace(
        main,
        environment=_environment(job, index, here, environment_of(job)),
        entrypoint=helper.command,
        mounts={SCRATCH: main.mounts[SCRATCH]},
        read_only_mounts={},
        devices=(),
        ports={},
    )


def _environment(job: Job, index: int, here: Here, given: Mapping[str, str | SecretRef]) -> dict[str, str]:
    """The environment of a pod's container; the spec's own variables win over those that emulate cards."""
    found = {INDEX_VARIABLE: str(index)}
    if cards := job.spec.resources.cards:
        found[variable_of("run.cards")] = str(cards)
        found |= {} if here.devices else {EMULATE: "1"}
    known = secrets_of(job, here.environ)
    return found | {name: value if isinstance(value, str) else known[name] for name, value in given.items()}


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
