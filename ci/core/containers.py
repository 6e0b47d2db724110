"""Running a container of an image for a bounded time: what it says is handed on, and none is left behind."""

from __future__ import annotations

import tarfile
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any

import docker
import requests
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.types import Mount

from ci.core.errors import CommandError

LAST_LINES = 20
# A longer line is handed on in parts.
LINE_BYTES = 64 * 1024
# What is taken out of a container was made by what ran in it.
MOST_BYTES = 512 * 1024 * 1024
MOST_FILES = 10_000
# 128 and SIGKILL, of a container that somebody removed.
GONE = 137
# By this label whoever cleans up after a killed build finds what it left.
LABEL = "io.github.torch-spyre.spyre-ci"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a container runs.

    Attributes:
        environment: besides the image's.
        user: number of the user, perhaps with a group; None: the image's.
        workdir: None: the image's.
        entrypoint: None: the image's.
        read_only: whether its root can be written.
        scratch: folders in memory that can be written all the same.
        mounts: folders of the host by where they are seen, read and written.
        read_only_mounts: the same, and can only be read.
        devices: of the host, such as /dev/vfio/1.
        network: `none`, `host` or another of the engine's; bridges are not everywhere.
        ports: of the container, by those of this machine's loopback that lead to them.
        memory_bytes: it may take, swap with it; None: any.
        scratch_bytes: each folder of scratch may hold; None: half of the machine's memory.
        processes: there may be in it at once, with threads; None: any.
        shared_memory_bytes: size of its /dev/shm; None: the engine's default.
        restricted: no capabilities, and none to be had.
        grace_s: seconds it has to end by itself where whoever runs it is interrupted, or fails.
        labels: besides the one that all have.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    workdir: str | None = None
    entrypoint: Sequence[str] | None = None
    read_only: bool = False
    scratch: Sequence[str] = ()
    mounts: Mapping[str, Path] = field(default_factory=dict)
    read_only_mounts: Mapping[str, Path] = field(default_factory=dict)
    devices: Sequence[str] = ()
    network: str = "none"
    ports: Mapping[int, int] = field(default_factory=dict)
    memory_bytes: int | None = None
    scratch_bytes: int | None = None
    processes: int | None = None
    shared_memory_bytes: int | None = None
    restricted: bool = False
    grace_s: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a container ended.

    Attributes:
        exit_code: of its command; 128 and a signal's number where one ended it.
        out_of_memory: whether the kernel ended it for want of memory.
        timed_out: whether we did, as it took too long.
        last: lines it said.
    """

    exit_code: int
    out_of_memory: bool = False
    timed_out: bool = False
    last: tuple[str, ...] = ()


def create(
    client: docker.DockerClient, image: str, command: Sequence[str], conditions: Conditions
) -> Container:
    """A container that is there and does not run yet; whoever asks for it sees to its end.

    Args:
        client: the engine, which has the image.
        image: name or id.
        command: words, no shell between.
        conditions: how it runs.

    Raises:
        docker.errors.APIError: the engine refuses; see ci.core.container_engine.engine.
    """
    options: dict[str, Any] = {}
    size = "" if conditions.scratch_bytes is None else f",size={conditions.scratch_bytes}"
    if conditions.memory_bytes is not None:
        options |= {"mem_limit": conditions.memory_bytes, "memswap_limit": conditions.memory_bytes}
    if conditions.restricted:
        options |= {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges", "label=disable"]}
    if conditions.entrypoint is not None:
        options["entrypoint"] = list(conditions.entrypoint)
    return client.containers.create(
        image,
        list(command),
        environment=dict(conditions.environment),
        user=conditions.user,
        working_dir=conditions.workdir,
        read_only=conditions.read_only,
        tmpfs=dict.fromkeys(conditions.scratch, f"mode=1777{size}"),
        mounts=[
            Mount(target, str(path), type="bind", read_only=group is conditions.read_only_mounts)
            for group in (conditions.mounts, conditions.read_only_mounts)
            for target, path in sorted(group.items())
        ],
        devices=[f"{path}:{path}:rwm" for path in conditions.devices],
        network_mode=conditions.network,
        ports={f"{inside}/tcp": ("127.0.0.1", outside) for outside, inside in conditions.ports.items()},
        labels={LABEL: "", **conditions.labels},
        shm_size=conditions.shared_memory_bytes,
        pids_limit=conditions.processes,
        **options,
    )


@contextmanager
def container(
    client: docker.DockerClient, image: str, command: Sequence[str], conditions: Conditions
) -> Iterator[Container]:
    """A container that runs while the block does; killed and removed at its end, with what it made.

    Raises:
        docker.errors.APIError: see `create`.
    """
    made = create(client, image, command, conditions)
    try:
        # An interrupt that comes before the engine's answer finds it running, too.
        made.start()
        yield made
    except BaseException:
        with suppress(APIError, requests.RequestException):
            made.stop(timeout=conditions.grace_s)
        raise
    finally:
        _remove(made)


def _remove(made: Container) -> None:
    """Remove a container, unless somebody else has or is about to."""
    try:
        made.remove(force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:
            raise


def follow(made: Container, *, timeout_s: float, echo: Callable[[str], None]) -> Ended:
    """Hand on what a container says until it ends, or is ended as it takes too long.

    Args:
        made: runs.
        timeout_s: seconds it may take.
        echo: takes its lines.
    """
    late = threading.Event()

    def end() -> None:
        # It may have ended by itself just now; then it was not late.
        with suppress(APIError, requests.RequestException):
            made.kill()
            late.set()

    last: deque[str] = deque(maxlen=LAST_LINES)
    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        for line in _lines(made.logs(stream=True, follow=True)):
            last.append(line)
            echo(line)
        # Its last line may come before its end.
        code = int(made.wait(timeout=timeout_s)["StatusCode"])
        made.reload()
        state = made.attrs["State"]
    except NotFound:
        code, state = GONE, {}
    finally:
        timer.cancel()
        # The container's end may be heard of before it is known that it was we who ended it.
        timer.join()
    return Ended(
        exit_code=code,
        out_of_memory=bool(state.get("OOMKilled")),
        timed_out=late.is_set(),
        last=tuple(last),
    )


def take_out(made: Container, path: str, folder: Path) -> bool:
    """Copy a folder out of a container, which may have ended in any way; whether it was there.

    Args:
        made: not removed yet.
        path: of the folder in it.
        folder: takes what is in that folder; is made.

    Raises:
        CommandError: it is too large, or holds what must not be unpacked.
    """
    try:
        stream, _ = made.get_archive(path)
    except NotFound:
        return False
    # Not into memory: what comes may be as large as is allowed.
    with tempfile.TemporaryFile() as content:
        for piece in stream:
            content.write(piece)
            if content.tell() > MOST_BYTES:
                raise _too_much(path, f"{MOST_BYTES >> 20} MiB")
        content.seek(0)
        try:
            _unpack(content, path, folder)
        except (tarfile.TarError, OSError) as error:
            raise CommandError(f"{path} of the container cannot be taken: {error}", where=path) from error
    return True


def _unpack(content: IO[bytes], path: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=content) as tar:
        size = 0
        for number, member in enumerate(tar, start=1):
            size += member.size
            if number > MOST_FILES:
                raise _too_much(path, f"{MOST_FILES} files")
            if size > MOST_BYTES:
                raise _too_much(path, f"{MOST_BYTES >> 20} MiB")
            # The archive's first part is the folder's own name.
            member.name = member.name.partition("/")[2]
            if member.name and (member.isdir() or member.isreg()):
                tar.extract(member, folder, filter="data")


def _too_much(path: str, limit: str) -> CommandError:
    return CommandError(
        f"{path} of the container has more than {limit}",
        where=path,
        remedy="make the tests write less there",
    )


def _lines(stream: Iterator[bytes]) -> Iterator[str]:
    """Lines of a stream of pieces; a very long one in parts."""
    rest = b""
    for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace").rstrip("\r")
        if len(rest) > LINE_BYTES:
            yield rest.decode("utf-8", "replace")
            rest = b""
    if rest:
        yield rest.decode("utf-8", "replace")
