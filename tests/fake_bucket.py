"""A bucket in memory, for tests of what puts there and takes from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ci.core.errors import BucketAwayError, MissingInputError
from ci.core.object_store import Held


class FakeBucket:
    """Objects by name, as a bucket gives them.

    Attributes:
        held: content by name.
        away: nothing can be put.
        got: names that were read.
        put_names: names that were put.
    """

    def __init__(self, held: dict[str, bytes]) -> None:
        self.held = held
        self.away = False
        self.got: list[str] = []
        self.put_names: list[str] = []

    def objects(self, below: str = "") -> Iterator[Held]:
        for name in sorted(name for name in self.held if name.startswith(f"{below}/")):
            yield Held(name=name, size=len(self.held[name]), etag="")

    def get(self, name: str) -> bytes:
        self.got.append(name)
        if name not in self.held:
            raise MissingInputError("there is no such object", where=name)
        return self.held[name]

    def download(self, name: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.get(name))

    def put(self, name: str, content: bytes | Path) -> str:
        if self.away:
            raise BucketAwayError("the bucket cannot be reached")
        self.put_names.append(name)
        self.held[name] = content.read_bytes() if isinstance(content, Path) else content
        return self.address(name)

    def delete(self, names: list[str]) -> None:
        for name in names:
            self.held.pop(name, None)

    def address(self, name: str = "") -> str:
        return f"s3://b/{name}"
