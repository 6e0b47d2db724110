"""Starting the image that is verified, in the ways a check wants it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError

from ci.image.container import Conditions, Ended, container, follow
from ci.image.engine import engine_error

# As OpenShift gives them out: unknown to the image, in group 0; below what engines without root have.
ARBITRARY = "54321:0"
# As Kubernetes starts it: no small init before it, and no network but the container's own.
PLAIN = Conditions()
STRICT = Conditions(user=ARBITRARY, read_only=True, scratch=("/tmp",))  # noqa: S108  # in memory
SHORT_S = 120.0
CANNOT_START = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An image that is verified.

    Attributes:
        client: the engine, which has it.
        image: its id, so that no tag moves while it is looked at.
        attrs: what the engine tells of it.
    """

    client: docker.DockerClient
    image: str
    attrs: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """How it starts, by itself."""
        return self.attrs.get("Config") or {}

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.config.get("Labels") or {}

    def run(
        self,
        words: Sequence[str],
        conditions: Conditions = PLAIN,
        *,
        timeout_s: float = SHORT_S,
        on_line: Callable[[Any, str], None] | None = None,
    ) -> Ended:
        """Start it with words and wait for its end; an image that cannot be started ends with 127.

        Args:
            words: after its entry point.
            conditions: how.
            timeout_s: seconds it may take.
            on_line: takes the container and each line that it says.
        """
        try:
            with container(self.client, self.image, words, conditions) as made:
                return follow(
                    made,
                    timeout_s=timeout_s,
                    echo=lambda line: on_line(made, line) if on_line else None,
                )
        except APIError as error:
            return Ended(exit_code=CANNOT_START, last=(engine_error(error).what,))


def how(ended: Ended) -> str:
    """How a container ended, in one line."""
    last = next((line.strip() for line in reversed(ended.last) if line.strip()), "")
    said = f", last said: {last[:200]}" if last else ""
    if ended.timed_out:
        return f"took too long and was ended{said}"
    memory = ", out of memory" if ended.out_of_memory else ""
    return f"ended with code {ended.exit_code}{memory}{said}"


def told(ended: Ended) -> Mapping[str, Any] | None:
    """The object of the last line of JSON; None where there is none."""
    for line in reversed(ended.last):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            return found if isinstance(found, dict) else None
    return None
