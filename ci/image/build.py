"""Building a rendered stack with the container engine: the context it gets, and where it stands or failed."""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import docker

from ci.core.addresses import without_secrets
from ci.core.errors import EXIT_TEST_FAILED, CommandError
from ci.core.text import one_line, plain
from ci.core.workflow_commands import defused
from ci.image.engine import NO_SPACE, engine_error, is_no_space
from ci.image.pantry import ARGUMENT, pantry
from ci.image.steps import without_settings

LAST_LINES = 20
MOST_SHOWN = 200
# As docker says it, and podman, which numbers stages besides.
_STEP = re.compile(r"(?:\[\d+/\d+\] )?(?:Step|STEP) (\d+)/(\d+) ?: (.*)", re.DOTALL)
_DOCKERS = "Step "
_CACHED = re.compile(r" ?-{2,3}> Using cache")
_IMAGE = re.compile(r" ?-{2,3}> ([0-9a-f]{3,64})")
_NOISE = ("Removing intermediate", " ---> Running in")
_EXIT = re.compile(r"exit status (\d+)")
CONTAINERFILE = "Containerfile"


class BuildStepError(CommandError):
    """A step of an image's build failed."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is built.

    Attributes:
        containerfile: as rendered; its name in `folder` where that is given.
        sources: the components' files, by name.
        target: the stage; None: the last.
        tag: the image gets when all of it is built; empty: none.
        folder: is the context as it is, in place of a rendered one; its build has no pantry.
        args: of the build.
        labels: besides the rendered ones.
        files: package files, by SHA-256.
        settings: see ci.image.pantry.settings_of.
    """

    containerfile: str
    sources: Mapping[str, Path]
    target: str | None
    tag: str = ""
    folder: Path | None = None
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    settings: str = ""


@dataclass(slots=True)
class Built:
    """What came of it: the image's id, and how many steps ran and were found in the cache."""

    image: str = ""
    ran: int = 0
    cached: int = 0


def build(
    client: docker.DockerClient, order: Order, *, echo: Callable[[str], None], clock: Callable[[], float]
) -> Built:
    """Build one stage.

    Args:
        client: the engine.
        order: what is built.
        echo: takes lines for people: each step with how long the one before took, and its output.
        clock: seconds; for the steps' times.

    Raises:
        BuildStepError: a step failed; with its last lines, and the command to try it by hand.
        SpyreCiError: the engine refuses.
    """
    with tempfile.TemporaryFile() as context, pantry(order.files, settings=order.settings) as address:
        if order.folder is None:
            write_context(context, order.containerfile, order.sources)
        else:
            write_folder(context, order.folder)
        context.seek(0)
        said = client.api.build(
            fileobj=context,
            custom_context=True,
            dockerfile=CONTAINERFILE if order.folder is None else order.containerfile,
            target=order.target,
            tag=order.tag or None,
            rm=True,
            forcerm=True,
            network_mode="host",
            labels=dict(order.labels),
            buildargs={**order.args, **({} if order.folder else {ARGUMENT: address})},
            decode=True,
        )
        built = _followed(said, echo, clock)
    if not built.image:
        raise CommandError(
            "the container engine ended the build without a word of what it made",
            where="DOCKER_HOST",
            remedy="see that it runs and look into its log, then build again",
        )
    return built


def _followed(said: Iterator[Any], echo: Callable[[str], None], clock: Callable[[], float]) -> Built:
    built, step, before = Built(), "", ""
    last: deque[str] = deque(maxlen=LAST_LINES)
    began = clock()
    for message in said:
        if "error" in message:
            raise _failed(message, step, before, list(last))
        built.image = message.get("aux", {}).get("ID", built.image)
        for line in str(message.get("stream", "")).splitlines():
            found = _STEP.match(line)
            # What a step says may look like one.
            if found and (not line.startswith(_DOCKERS) or int(found[1]) == built.ran + 1):
                now = clock()
                shown = one_line(shown_step(found[3]), MOST_SHOWN)
                echo(f"[{found[1]}/{found[2]}] {shown}  ({now - began:.0f} s before)")
                began, step = now, found[3]
                built.ran += 1
                last.clear()
            elif _CACHED.match(line):
                built.cached += 1
            elif image := _IMAGE.fullmatch(line):
                before = image[1]
            elif line.strip() and not line.startswith(_NOISE):
                echo(f"    {harmless(line)}")
                last.append(harmless(line))
    return built


def harmless(line: str) -> str:
    """A line that a step said, for a terminal or a log: no colours, no commands to a CI, no secrets."""
    return defused(without_secrets(plain(line)))


def shown_step(text: str) -> str:
    """A step as people would write it: of a RUN in the form of an array, its script, less what is ours."""
    if not text.startswith("RUN ["):
        return text.strip()
    try:
        return f"RUN {without_settings(json.loads(text.removeprefix('RUN '))[-1])}"
    except (ValueError, IndexError, AttributeError):
        return text.strip()


def _failed(message: Mapping[str, Any], step: str, before: str, last: list[str]) -> Exception:
    code = message.get("errorDetail", {}).get("code")
    if code is None and (told := _EXIT.search(str(message["error"]))):
        code = int(told[1])
    if code is None or not step.startswith("RUN "):
        return engine_error(str(message["error"]))
    lines = "".join(f"\n  | {line}" for line in last)
    script = shown_step(step).removeprefix("RUN ")
    if any(is_no_space(line) for line in last):
        return engine_error(f"{NO_SPACE}: {script}{lines}")
    by_hand = f"docker run --rm -it --network host {before or 'IMAGE'} bash"
    return BuildStepError(
        f"a step ended with code {code}: {script}{lines}",
        remedy=f"try it by hand: {by_hand}",
    )


def write_context(stream: IO[bytes], containerfile: str, sources: Mapping[str, Path]) -> None:
    """Write a context.

    Builders compare what is copied by content, mode and owner, so those are made alike.

    Args:
        stream: takes the tar.
        containerfile: the text.
        sources: folders by the name they have below `sources/`.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        content = containerfile.encode()
        top = tarfile.TarInfo(CONTAINERFILE)
        top.size = len(content)
        tar.addfile(top, io.BytesIO(content))
        for name in sorted(sources):
            _add(tar, sources[name], f"sources/{name}")


def write_folder(stream: IO[bytes], folder: Path) -> None:
    """Write a folder as a context, for a Containerfile that is in it.

    Args:
        stream: takes the tar.
        folder: what its `.dockerignore` leaves out is not in it any more.
    """
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _add(tar, folder, "")


def _add(tar: tarfile.TarFile, folder: Path, inside: str) -> None:
    if inside:
        tar.add(folder, arcname=inside, recursive=False, filter=_alike)
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder).as_posix()
        tar.add(path, arcname=f"{inside}/{below}".lstrip("/"), recursive=False, filter=_alike)


def _alike(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info
