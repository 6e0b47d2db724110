"""Collections kept for the next time: a file's tests stay valid while nothing they depend on has changed."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.core.errors import SpyreCiError
from test_selection.files import read_bounded, read_json, write_json

KIND = "collected-file"
# PyTorch's test code reads these when it is imported, and they decide which tests there are.
VARIABLE_PREFIXES = ("PYTORCH_", "TORCH", "ATEN_", "TEST_", "NUM_", "SPYRE", "AIU_", "KINETO_", "DISABLE_")
VARIABLES = frozenset({"CI", "IN_CI", "BUILD_ENVIRONMENT", "SANDCASTLE", "SHARD_NUMBER", "TW_JOB_USER"})


def collection_key(environ: Mapping[str, str], *, device: str, extra: Iterable[Path]) -> str:
    """A hash of all that decides a collection besides the tree's own files.

    Args:
        environ: the environment the collection runs in.
        device: the device under test.
        extra: more files it depends on: the device's test base, the hooks, the suite file.
    """
    facts = {
        "python": platform.python_version(),
        "packages": installed_packages(),
        "device": device,
        "environment": {
            name: value
            for name, value in sorted(environ.items())
            if name in VARIABLES or name.startswith(VARIABLE_PREFIXES)
        },
        "files": [hashlib.sha256(path.read_bytes()).hexdigest() for path in extra],
    }
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def installed_packages() -> list[str]:
    """Name and version of everything installed: a test file may import any of it, and skip without it."""
    found = {f"{one.name}=={one.version}" for one in importlib.metadata.distributions()}
    return sorted(name for name in found if not name.startswith("spyre-ci=="))


@dataclass(slots=True, kw_only=True)
class CollectCache:
    """Collected files by what they depend on.

    Attributes:
        folder: where the records are.
        root: the tree's root; test files and helper modules are below it.
        tests: the folder test files are named relative to.
        key: what `collection_key` gave.
    """

    folder: Path
    root: Path
    tests: Path
    key: str
    _hashes: dict[Path, str] = field(default_factory=dict)

    def get(self, file: str) -> dict[str, Any] | None:
        """The record of a file, or None where there is none or something it imports has changed."""
        try:
            record = read_json(self._path(file), KIND)
            fresh = all(self._hash(self.root / name) == seen for name, seen in record["hashes"].items())
        except (SpyreCiError, KeyError, AttributeError):
            return None  # a record that cannot be read is as none, and is written anew
        return record if fresh else None

    def put(self, file: str, record: Mapping[str, Any]) -> None:
        """Keep the record of a file with the hash of each module of the tree it imported."""
        hashes = {name: self._hash(self.root / name) for name in record["modules"]}
        # A cache that cannot be written (a full disk, a read-only state folder) costs time, not the run.
        with contextlib.suppress(OSError):
            write_json(self._path(file), KIND, {**record, "hashes": hashes})

    def _path(self, file: str) -> Path:
        parts = (self.key.encode(), os.fsencode(file), self._hash(self.tests / file).encode())
        name = hashlib.sha256(b"\0".join(parts)).hexdigest()
        return self.folder / name[:2] / f"{name}.json.gz"

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = _content_hash(path)
        return self._hashes[path]


def _content_hash(path: Path) -> str:
    try:
        return hashlib.sha256(read_bounded(path)).hexdigest()
    except OSError as error:  # gone, unreadable, a folder: each is a state of its own
        return f"errno {error.errno}"
