"""What releases name: the runs and images that prove them, which stay however old they are.

Every `release.json` counts, not only the newest. One that cannot be read may name anything, so while it is
there nothing that a release can name goes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ci.config import Settings
from test_selection.errors import SpyreCiError
from test_selection.files import load_json, schema_name

MAX_BYTES = 64 << 20
_WORDS = re.compile(r"[\s/=,'\"@?#&]+")
_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(slots=True, kw_only=True)
class Released:
    """What all releases name.

    Attributes:
        words: every word of them, the names of runs among them.
        run_ids: whole numbers of runs.
        digests: SHA-256 of images and files, in hexadecimal.
        files: how many were read.
        broken: what could not be read, and why.
    """

    words: set[str] = field(default_factory=set)
    run_ids: set[int] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)
    files: int = 0
    broken: list[tuple[Path, str]] = field(default_factory=list)

    def names_run(self, name: str, run_id: int | None) -> bool:
        """Whether a release names a run, by its readable id or its number."""
        return name in self.words or (run_id is not None and run_id in self.run_ids)


def read_released(places: Iterable[Path], *, named: Iterable[Path] = ()) -> Released:
    """What the releases in some places name.

    Args:
        places: files and folders, which need not be there.
        named: the same, by somebody who says that they are there: one that is not counts as broken.
    """
    found = Released()
    named = dict.fromkeys(named)
    for place in {**dict.fromkeys(places), **named}:
        if place in named and not place.exists():
            found.broken.append((place, "is not found"))
        for path in _files(place, found):
            _read(path, found, sure=path.name.startswith("release") or (place in named and path == place))
    return found


def _files(place: Path, found: Released) -> Iterator[Path]:
    if not place.is_dir():
        if os.path.lexists(place):
            yield place
        return

    def refused(error: OSError) -> None:
        found.broken.append((Path(error.filename or place), error.strerror or str(error)))

    # Links are followed: nothing is removed here, and a release behind one names its runs all the same.
    seen: set[str] = set()
    for folder, folders, names in os.walk(place, onerror=refused, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names) if name.endswith((".json", ".jsonl")))


def _read(path: Path, found: Released, *, sure: bool) -> None:
    """Note what a file names; what is none of a release is passed over, where nobody is sure that it is."""
    try:
        seen = path.stat()
        if not stat.S_ISREG(seen.st_mode):
            raise ValueError("is no plain file")  # a named pipe would wait for whoever writes into it
        if seen.st_size > MAX_BYTES:
            raise ValueError("is larger than any release")  # told as any other
        content = _content(path)
        if content is None and sure:
            raise ValueError("is no release.json")
    except (SpyreCiError, OSError, ValueError, RecursionError) as error:
        if sure:
            said = error.what if isinstance(error, SpyreCiError) else getattr(error, "strerror", None)
            found.broken.append((path, said or str(error)))
        return
    if content is not None:
        found.files += 1
        _note(content, found)


def _content(path: Path) -> Any:
    """What a release file says, whose runs and image are checked to be there; None for any other file."""
    content = load_json(path, "release")
    if not isinstance(content, Mapping) or content.get("schema") != schema_name("release"):
        return None
    try:
        _want_text(content["image"], "its image is no text")
        for run in content["runs"]:
            _want_text(run["identity"]["run"], "a run has no name")
    except (KeyError, TypeError) as error:
        raise ValueError(f"a key is missing or of the wrong kind: {error}") from error
    return content


def _want_text(value: Any, otherwise: str) -> None:
    if not isinstance(value, str):
        raise TypeError(otherwise)


def words_of(text: str) -> set[str]:
    """What a text may name: itself, the last part of it as a path, and each word of it."""
    return {text, PurePath(text).name, *_WORDS.split(text)} - {""}


def _note(value: Any, found: Released, key: str = "") -> None:
    if isinstance(value, str):
        found.words.update(words_of(value))
        found.digests.update(_DIGEST.findall(value))
    elif isinstance(value, Mapping):
        for name, one in value.items():
            _note(one, found, str(name))
    elif isinstance(value, list):
        for one in value:
            _note(one, found, key)
    elif isinstance(value, int) and not isinstance(value, bool) and key == "run_id":
        found.run_ids.add(value)


def read_releases(settings: Settings) -> Released:
    """What all releases name that the settings lead to."""
    model = settings.model
    places = [settings.resolve(model.package.dist), settings.resolve(model.package.records)]
    return read_released(places, named=[settings.resolve(path) for path in model.retention.releases])


def why_kept(released: Released, run: str, run_id: int) -> str:
    """Why a run of the history stays, by what the history calls it and its number; empty: it may go."""
    # A CI's runs have its workflow and lane before their readable id.
    if released.names_run(run.rpartition("/")[2], run_id):
        return "a release names it"
    return "a release that cannot be read may name it" if released.broken else ""
