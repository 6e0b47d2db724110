"""Images made in a moment, and pushed to the test's registry."""

from __future__ import annotations

import base64
import io
import json
import secrets
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import docker
from docker.errors import APIError

from tests.engine import build_image


def tells(found: Mapping[str, tuple[str, str]], source: Mapping[str, str] | None = None) -> str:
    """What an image's Python prints of distributions and source, as a line of shell."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in (source or {}).items():
            archive.writestr(name, text)
    content = {"found": found, "source": base64.b64encode(packed.getvalue()).decode()}
    return f"echo spyre-ci {base64.b64encode(json.dumps(content).encode()).decode()}"


TELL = tells({"torch": ("2.13.0", ""), "Demo_X": ("1.4", "")})


@dataclass(slots=True, kw_only=True)
class Repository:
    """A repository of images that only a test has.

    Attributes:
        client: the engine.
        registry: its address.
        base: an image to begin with.
        name: of the repository.
    """

    client: docker.DockerClient
    registry: str
    base: str
    name: str = field(default_factory=lambda: f"pins-{secrets.token_hex(4)}")

    @property
    def address(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.name}"

    def push(
        self, tag: str, lines: str = "", files: Mapping[str, str | bytes] | None = None, *, base: str = ""
    ) -> str:
        """Build an image, push it, and leave it in the registry alone; its digest."""
        name = f"{self.address}:{tag}"
        # A layer that others' images share goes from under this build where theirs are removed.
        build_image(self.client, name, f"FROM {base or self.base}\nLABEL tests={self.name}\n{lines}\n", files)
        self.client.images.push(name)
        found = self.client.images.get(name).attrs["RepoDigests"][0].rpartition(":")[2]
        self.client.api.remove_image(name, force=True)
        return str(found)

    def push_fake(self, tag: str, *, tell: str = TELL, lines: str = "") -> str:
        """The same, with a stand-in for Python that says what it is told to."""
        copied = "COPY python3 /usr/local/bin/python3\nRUN chmod 755 /usr/local/bin/python3\n"
        return self.push(tag, copied + lines, {"python3": f"#!/bin/sh\n{tell}\n"})

    def remains(self) -> list[str]:
        """What of it the engine still has: images, and containers of it."""
        images = [
            name
            for one in self.client.api.images()
            for name in (*(one["RepoTags"] or ()), *(one["RepoDigests"] or ()))
            if self.name in name
        ]
        containers = [
            one["Image"] for one in self.client.api.containers(all=True) if self.name in one["Image"]
        ]
        return [*images, *containers]

    def remove(self) -> None:
        """Whatever of it the engine has."""
        for name in self.remains():
            with suppress(APIError):
                self.client.api.remove_image(name, force=True)
