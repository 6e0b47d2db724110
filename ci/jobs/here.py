"""What a job's pods are as containers on this machine: image, words, environment, mounts, cards, port.

Everything here is decided without an engine; `ci.jobs.local` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ci.config.explain import variable_of
from ci.core.containers import LABEL, Conditions
from ci.core.errors import DeviceError, SettingsError, UsageError
from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.jobs.job import INDEX_VARIABLE, Fetch, Job, container_of, fetches_of, mounts_of
from ci.jobs.kinds import SCRATCH
from ci.jobs.parts import SecretRef
from ci.jobs.token import without_made_token

JOB_LABEL = f"{LABEL}.job"
EMULATE = "SPYRE_CI_EMULATE"
# As a cluster's pods run: a user that no image knows, with the group of root.
ARBITRARY_USER = 1_000_800_000
GROUP = 0
# Of the volumes; others are read.
WRITABLE = frozenset({"scratch", "results"})
# A cluster's pods have as much as their memory; here it is taken as far as it is used.
SHARED_MEMORY_BYTES = 8 << 30
# Of a secret of many lines; what is shorter, such as a bracket, tells nothing and is in any line.
LINE_LENGTH = 6


class MissingSecretError(SettingsError):
    """A secret of the cluster that the environment here does not stand in for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """How a job runs on this machine.

    Attributes:
        results: folder that stands for the store's volume.
        work: folder below which scratch disks are; what is in them goes with their pods.
        environ: of whoever calls; secrets are read from it.
        user: number that the containers run as.
        devices: real cards, such as /dev/vfio/1; none: they are emulated.
        network: of the containers, as the engine knows it.
        port: of loopback that leads to the job's; None: the same number.
        parallel: pods at a time.
    """

    results: Path
    work: Path
    environ: Mapping[str, str]
    user: int
    devices: Sequence[str] = ()
    network: str = "bridge"
    port: int | None = None
    parallel: int = 1


def user_of(caller: int) -> int:
    """The user that containers run as: the caller, who then owns results; for root, one as clusters give."""
    return caller or ARBITRARY_USER


def check_here(job: Job, here: Here) -> None:
    """Refuse what cannot be had on this machine, before anything runs.

    Raises:
        UsageError: a port that a network of the host cannot lead to, or too many pods at a time.
        DeviceError: fewer cards than a pod wants.
        MissingSecretError: see `secrets_of`.
    """
    if here.parallel < 1:
        raise UsageError(f"--parallel is {here.parallel}", remedy="give a number of pods from 1")
    if here.port is not None and here.network == "host":
        raise UsageError(
            f"--port {here.port} has no meaning with the host's network",
            remedy="leave it out: the job listens at its own port",
        )
    cards = job.spec.resources.cards
    # Beside the groups of cards there may be what all of them share, such as /dev/vfio/vfio.
    if here.devices and cards and len(here.devices) < cards:
        raise DeviceError(
            f"a pod wants {cards} cards, and {len(here.devices)} devices are given",
            where="image.devices",
            remedy="name more of them, or none: then cards are emulated",
        )
    if here.devices and cards and here.parallel > 1:
        raise UsageError(
            f"--parallel is {here.parallel}, and real cards are one pod's at a time",
            remedy="leave --parallel out, or clear image.devices: then cards are emulated",
        )
    secrets_of(job, here.environ)


def made_ready(job: Job, here: Here) -> tuple[Job, Here]:
    """A job as it runs here, where no ConfigMap limits its slices, and folders as an engine wants them.

    A notebook whose token a submit would make takes one of its own, and says it.

    Raises:
        SpyreCiError: see `check_here`.
    """
    job = without_made_token(job)
    check_here(job, here)
    there = replace(here, results=here.results.absolute(), work=here.work.absolute())
    return replace(job, by_volume=False), there


def secrets_of(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """The values of the job's references to secrets: of the caller's variables of the same names.

    Raises:
        MissingSecretError: variables that are not set, each with the secret and key it stands for.
    """
    wanted = {
        name: value for name, value in container_of(job).environment.items() if isinstance(value, SecretRef)
    }
    missing = [f"{name} ({ref.key} of {ref.secret})" for name, ref in wanted.items() if not environ.get(name)]
    if missing:
        raise MissingSecretError(
            f"secrets of the cluster are wanted here as variables that are not set: {', '.join(missing)}",
            where="environment",
            remedy="export them; they reach the containers and are shown nowhere",
        )
    return {name: environ[name] for name in wanted}


def environment_of(job: Job, index: int, here: Here) -> dict[str, str]:
    """The environment of a pod's containers; the spec's own words win over what emulates cards.

    Args:
        job: its spec says how many cards.
        index: of the pod.
        here: secrets are read from its environment.

    Raises:
        MissingSecretError: see `secrets_of`.
    """
    found = {INDEX_VARIABLE: str(index)}
    cards = job.spec.resources.cards
    if cards:
        found[variable_of("run.cards")] = str(cards)
        if not here.devices:
            found[EMULATE] = "1"
    given = container_of(job).environment
    found |= {name: value for name, value in given.items() if not isinstance(value, SecretRef)}
    return found | secrets_of(job, here.environ)


def conditions_of(job: Job, index: int, here: Here, *, scratch: Path, configs: Path) -> Conditions:
    """How a pod's own container runs.

    Args:
        job: what is run.
        index: of the pod.
        here: this machine.
        scratch: folder that is the pod's disk.
        configs: folder with the job's files.

    Raises:
        MissingSecretError: see `secrets_of`.
    """
    folders = {"scratch": scratch, "config": configs, "results": here.results}
    mounts = mounts_of(job)
    if "model" in mounts:
        folders["model"] = scratch / PurePosixPath(fetches_of(job)[0].at).relative_to(SCRATCH)
    port = container_of(job).port
    return Conditions(
        environment=environment_of(job, index, here),
        entrypoint=container_of(job).command or None,
        user=f"{here.user}:{GROUP}",
        restricted=True,
        mounts={at: folders[name] for name, at in mounts.items() if name in WRITABLE},
        read_only_mounts={at: folders[name] for name, at in mounts.items() if name not in WRITABLE},
        devices=here.devices if job.spec.resources.cards else (),
        network=here.network,
        # The host's network has the container's own port.
        ports={here.port or port: port} if port is not None and here.network != "host" else {},
        shared_memory_bytes=SHARED_MEMORY_BYTES,
        labels={JOB_LABEL: job.name},
    )


def fetching(conditions: Conditions, fetch: Fetch) -> Conditions:
    """How a container runs that fetches something before: it has the pod's disk, and no cards and no port.

    Args:
        conditions: of the pod's own container.
        fetch: what it fetches.
    """
    disk = {SCRATCH: conditions.mounts[SCRATCH]}
    return replace(
        conditions, entrypoint=fetch.command, mounts=disk, read_only_mounts={}, devices=(), ports={}
    )


def shown_line(line: str, index: int, secrets: Sequence[str]) -> str:
    """A line of a pod, with its index: no colours, no commands to a CI, none of the secrets handed to it."""
    # A key of many lines is printed line by line.
    lines = {
        one for secret in secrets for raw in secret.splitlines() if len(one := raw.strip()) >= LINE_LENGTH
    }
    # The longest first: one may be a part of another.
    for secret in sorted(filter(None, {*secrets, *lines}), key=len, reverse=True):
        line = line.replace(secret, "***")
    return defused(f"[{index}] {plain(line)}")


def images_of(job: Job) -> list[str]:
    """The images a job's containers run in."""
    fetcher = [job.spec.source_image] if job.spec.source_image and fetches_of(job) else []
    return [job.image, *fetcher]


def url_of(job: Job, here: Here) -> str | None:
    """Where a job that listens is found on this machine."""
    port = container_of(job).port
    return None if port is None else f"http://127.0.0.1:{here.port or port}"
