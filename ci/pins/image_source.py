"""Releases of an image: the tags of its repository, and what is installed behind each.

An image is a stranger's. It is run once, for a bounded time, without network, mounts, capabilities and its
entry point, and its root cannot be written. Its Python lists distributions and packs the source of modules;
what it prints is data, and never more than so much is taken.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError
from packaging.utils import canonicalize_name

from ci.core.addresses import without_credentials
from ci.core.archives import damage
from ci.core.container_engine import engine_error, fetch, has_image
from ci.core.containers import Conditions, container, follow
from ci.core.registry import digest_of, tags_of
from ci.pins.entry_points import signatures
from ci.pins.record import parsed
from ci.pins.recording import Release, UntoldError

LOOK_S = 180.0
# Packed source of torch and transformers is of 30 MiB.
_MOST_BYTES = 128 << 20
# The Python that the image's path leads to is the one that its users get.
_PYTHON = "python3"
# What the image prints besides, as `sitecustomize` may, does not begin so.
_MARK = "spyre-ci "
PROGRAM = f"""
import base64, io, json, os, sys, zipfile
from importlib import metadata
found = {{}}
for one in metadata.distributions():
    name = one.metadata["Name"]
    if name and name not in found:
        found[name] = [one.version, one.read_text("direct_url.json") or ""]
packed = io.BytesIO()
with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
    for folder in filter(os.path.isabs, sys.path):
        for top in sys.argv[1:]:
            paths = [os.path.join(folder, top + end) for end in (".py", ".pyi")]
            for root, _, names in os.walk(os.path.join(folder, top)):
                paths += [os.path.join(root, name) for name in names if name.endswith((".py", ".pyi"))]
            for path in filter(os.path.isfile, paths):
                name = os.path.relpath(path, folder)
                if name not in archive.NameToInfo:
                    archive.writestr(name, open(path, "rb").read())
told = {{"found": found, "source": base64.b64encode(packed.getvalue()).decode()}}
said = base64.b64encode(json.dumps(told).encode()).decode()
for begin in range(0, len(said), 30000):
    print("\\n" + {_MARK!r} + said[begin : begin + 30000])
"""
# Before, no image was made: reproducible builds say 1970, and some tools the year 1.
_FIRST_YEAR = 2013
_ALONE = Conditions(
    network="none",
    read_only=True,
    scratch=("/tmp",),  # noqa: S108  # the container's
    scratch_bytes=256 << 20,
    memory_bytes=2 << 30,
    processes=256,
    restricted=True,
    entrypoint=(_PYTHON,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """A repository of images.

    Attributes:
        client: the engine.
        name: registry and repository, without a tag.
        entry_points: whose signatures are read.
        tags: which of them are releases, as a glob; None: those that are versions.
        timeout_s: seconds the container may take.
    """

    client: docker.DockerClient
    name: str
    entry_points: Sequence[str]
    tags: str | None = None
    timeout_s: float = LOOK_S

    def releases(self, only: str | None) -> list[Release]:
        """What each tag is now, or the one that is named, whatever it is called.

        Raises:
            MissingInputError: the registry has no such repository or tag.
            CommandError: it cannot be reached, or refuses the credentials.
        """
        chosen = [only] if only is not None else self._chosen(tags_of(self.name))
        return [
            Release(version=tag, sha=digest_of(f"{self.name}:{tag}").removeprefix("sha256:"))
            for tag in chosen
        ]

    def look(self, release: Release) -> dict[str, Any]:
        """What is installed in an image, as fields of a record.

        Raises:
            UntoldError: it has no Python that tells.
            CommandError: it cannot be pulled or run.
        """
        image = f"{self.name}@sha256:{release.sha}"
        try:
            with self._here(image):
                packages, origins, source = told(self._said(image), image)
                with damage(Path(image), "contains damaged source", "check its python3"), source:
                    found = signatures(self.entry_points, source)
                made = created(self.client.images.get(image).attrs)
        except APIError as error:
            raise engine_error(error, where=image) from error
        about = {"sha": release.sha, "released_at": made, "read_by": "importlib.metadata"}
        return {**about, "packages": packages, "origins": origins, "signatures": found}

    def _chosen(self, tags: Sequence[str]) -> list[str]:
        """Those that are releases; `latest`, caches and charts are none unless they are asked for."""
        return [tag for tag in tags if (fnmatchcase(tag, self.tags) if self.tags else parsed(tag))]

    @contextmanager
    def _here(self, image: str) -> Iterator[None]:
        """Have the image while the block runs; where it was not here before, it does not stay."""
        stays = has_image(self.client, image)
        fetch(self.client, image)
        try:
            yield
        finally:
            if not stays:
                # Somebody may have begun to use it meanwhile.
                with suppress(APIError):
                    self.client.images.remove(image)

    def _said(self, image: str) -> str:
        """What the image's Python tells."""
        tops = sorted({entry.partition(":")[0].partition(".")[0] for entry in self.entry_points})
        lines: list[str] = []
        size = 0

        def heard(line: str) -> None:
            nonlocal size
            size += len(line) + 1
            # Counted while it is said: an engine keeps all of it on its disk.
            if size > _MOST_BYTES:
                raise _untold(f"it prints more than {_MOST_BYTES >> 20} MiB", image)
            lines.append(line)

        try:
            with container(self.client, image, ("-c", PROGRAM, *tops), _ALONE) as made:
                ended = follow(made, timeout_s=self.timeout_s, echo=heard)
        except APIError as error:
            # Each engine says in its own way that there is no such program.
            said = str(error.explanation or error).lower()
            if not any(words in said for words in ("not found", "no such file", "permission denied")):
                raise
            raise _untold(f"its {_PYTHON} does not run", image) from error
        if ended.timed_out:
            raise _untold(f"its {_PYTHON} did not end within {self.timeout_s:g} s", image)
        if ended.exit_code:
            raise _untold(f"its {_PYTHON} ended with code {ended.exit_code}", image)
        return "".join(line.removeprefix(_MARK) for line in lines if line.startswith(_MARK))


def told(said: str, where: str) -> tuple[dict[str, str], dict[str, str], zipfile.ZipFile]:
    """Versions by package, origins of those from no index, and packed source, of what a Python tells.

    Raises:
        UntoldError: it is something else.
    """
    try:
        content = json.loads(base64.b64decode(said, validate=True))
        packages: dict[str, str] = {}
        origins: dict[str, str] = {}
        for name, (version, direct) in content["found"].items():
            packages[canonicalize_name(name)] = str(version)
            if direct:
                # As the direct URL data structure of PyPA's specifications has it.
                url = json.loads(direct)
                editable = "editable " if url.get("dir_info", {}).get("editable") else ""
                origins[canonicalize_name(name)] = editable + without_credentials(str(url["url"]))
        return packages, origins, zipfile.ZipFile(io.BytesIO(base64.b64decode(content["source"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile) as error:
        raise _untold("its Python prints no usable list of packages", where) from error


def created(attributes: Mapping[str, Any]) -> datetime | None:
    """When an image was made, as it says; None where that cannot be."""
    try:
        found = datetime.fromisoformat(str(attributes.get("Created"))).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if found.year >= _FIRST_YEAR else None


def _untold(what: str, image: str) -> UntoldError:
    remedy = "check the image's Python; the release was not recorded"
    return UntoldError(what, where=image, remedy=remedy)
