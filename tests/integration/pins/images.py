"""Images made in a moment, and pushed to the test's registry."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import docker
from docker.errors import APIError

from tests.engine import build_image

# What stands in for Python where a test is about the container: it says what it is told to, and what it sees.
PYTHON = """#!/bin/sh
case "$1" in
    -c) {tell} ;;
    *) {freeze} ;;
esac
"""
TELL = """echo 'spyre-ci packages {"path": ["", "/site"], "found": {"torch": "2.13.0", "Demo_X": "1.4"}}'"""


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

    def push_fake(
        self, tag: str, *, tell: str = TELL, freeze: str = "echo torch==2.13.0", lines: str = ""
    ) -> str:
        """The same, with a stand-in for Python."""
        script = PYTHON.format(tell=tell, freeze=freeze)
        copied = "COPY --chmod=755 python3 /usr/local/bin/python3\n"
        return self.push(tag, copied.replace(" --chmod=755", "") + lines, {"python3": script})

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
