"""The ledger of a track: a folder with a file a release, each written once, whole, and never changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ci.config.load import Settings
from ci.core.errors import EXIT_TEST_FAILED, BadFileError, SpyreCiError, UsageError
from ci.pins.record import KIND, Record, file_name
from ci.pins.releases import parsed
from test_selection.files import read_json, write_json

# When a release was read says nothing of it.
_NOT_OF_THE_RELEASE = {"recorded_at"}


class RecordedOtherwiseError(SpyreCiError):
    """A release that the ledger has already, with another content."""

    exit_code = EXIT_TEST_FAILED


def track_folder(settings: Settings, name: str) -> Path:
    """Where the ledger of a track is.

    Args:
        settings: have the track.
        name: of it.

    Raises:
        UsageError: there is no such track.
    """
    pins = settings.model.pins
    if name not in pins.tracks:
        raise UsageError(
            f"there is no track {name!r}",
            where="pins.tracks",
            remedy=f"known ones: {', '.join(sorted(pins.tracks))}"
            if pins.tracks
            else "set one, with `image` or `package`, and `direct`",
        )
    return settings.resolve(pins.ledger) / name


def read_records(folder: Path) -> list[Record]:
    """Every release of a ledger, the oldest first; none where the folder is not there.

    Args:
        folder: of the track.

    Raises:
        BadFileError: a file is no record, or of another release or track than its name and folder say.
    """
    return sorted((_read(path) for path in sorted(folder.glob("*.json"))), key=in_order)


def in_order(record: Record) -> tuple[Any, ...]:
    """A key by which records are sorted: by time, then by version, as versions are (1.10 after 1.9).

    Versions come before the tags that are none.
    """
    version = parsed(record.version)
    return (record.at, version is None, version or record.version, record.sha)


def write_record(folder: Path, record: Record) -> Path:
    """Write a release into its ledger; where it is there with the same content, nothing is done.

    Args:
        folder: of the track; is made.
        record: of the release.

    Raises:
        RecordedOtherwiseError: it is there with another content.
        BadFileError: what is there is no record.
    """
    path = folder / file_name(record.version, record.sha)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as beside:
        written = Path(beside) / path.name
        write_json(written, KIND, _content(record))
        try:
            # Unlike a replacement, a link never takes the place of what somebody else wrote meanwhile.
            os.link(written, path)
        except FileExistsError:
            _refuse_other(path, _read(path), record)
    return path


def _refuse_other(path: Path, there: Record, record: Record) -> None:
    was = there.model_dump(exclude=_NOT_OF_THE_RELEASE)
    now = record.model_dump(exclude=_NOT_OF_THE_RELEASE)
    other = [key for key, value in now.items() if was[key] != value]
    if other:
        raise RecordedOtherwiseError(
            f"this release is recorded with another content ({', '.join(other)})",
            where=path,
            remedy="a record is never changed; find out why the same release reads differently now",
        )


def _read(path: Path) -> Record:
    content = read_json(path, KIND)
    try:
        record = Record.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise BadFileError(
            f"is no record: {key}: {first['msg']}", where=path, remedy="take it from version control again"
        ) from error
    if path.name != file_name(record.version, record.sha) or path.parent.name != record.track:
        raise BadFileError(
            f"is the record of {record.track} {record.version} ({record.sha[:12]}), which has another name",
            where=path,
            remedy="take it from version control again; a record is neither renamed nor moved",
        )
    return record


def _content(record: Record) -> dict[str, Any]:
    """A record as it is written: packages in order, so that a person can compare two files."""
    content = record.model_dump(mode="json", by_alias=True)
    for key in ("packages", "origins", "direct", "signatures"):
        content[key] = dict(sorted(content[key].items()))
    return content
