"""Release records: `pins/<track>/<version>-<sha>.json`, a file a release, written once, never changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from ci.core.errors import EXIT_TEST_FAILED, BadFileError, SpyreCiError
from test_selection.files import read_json, write_json

KIND = "pin-record"
Flag = Literal["major", "performance"]
# As `inspect` names them.
ParameterKind = Literal["positional-only", "positional or keyword", "variadic positional", "keyword-only",
                        "variadic keyword"]  # fmt: skip
# What of a record does not describe the release itself.
_NOT_OF_THE_RELEASE = {"recorded_at"}


class RecordedOtherwiseError(SpyreCiError):
    """A release that is recorded already, with another content."""

    exit_code = EXIT_TEST_FAILED


class Table(BaseModel):
    """The base of records and events: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(Table):
    """A parameter of an entry point; `default` is its source text, None where it has none."""

    name: str
    kind: ParameterKind
    default: str | None = None


Signature = tuple[Parameter, ...]


class PackageChange(Table):
    """A package in two releases; None where the release does not have it."""

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """For people: `torch 2.12 -> 2.13`."""
        if self.before is None:
            return f"{self.name} {self.after} is new"
        return f"{self.name} {self.before} " + ("was removed" if self.after is None else f"-> {self.after}")


class Record(Table):
    """A release of a track.

    Attributes:
        track: its name in the settings.
        version: tag of the image, or version of the package.
        sha: digest of the image, or SHA-256 of the wheel, in hexadecimal.
        source: image name or index, without credentials.
        released_at: as the source says; None where it does not.
        recorded_at: when it was read.
        flags: what people said of the release when it was recorded.
        yanked: why its index had taken it back when it was read, perhaps empty; None: it had not.
        packages: version by canonical name; for a package, its requirements as its metadata has them.
        origins: where packages come from that are from no index, without credentials.
        read_by: what listed the packages, such as `METADATA`.
        direct: the tracked direct dependencies; None where the release does not have one.
        signatures: parameters by entry point; None where the release has no such entry point. One that only
            running the release would tell is left out.
        previous: file of the release before; empty for the first.
        changes: of the direct dependencies since then.
    """

    schema_: Literal["spyre-ci/pin-record/1"] = Field(default="spyre-ci/pin-record/1", alias="schema")
    track: str
    version: str
    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{12,64}$")]
    source: str
    released_at: AwareDatetime | None = None
    recorded_at: AwareDatetime
    flags: tuple[Flag, ...] = ()
    yanked: str | None = None
    packages: dict[str, str]
    origins: dict[str, str] = {}
    read_by: str = ""
    direct: dict[str, str | None]
    signatures: dict[str, Signature | None] = {}
    previous: str = ""
    changes: tuple[PackageChange, ...] = ()

    @property
    def at(self) -> datetime:
        """When it was released, where that is known; else when it was recorded."""
        return self.released_at or self.recorded_at

    @property
    def label(self) -> str:
        """Version and SHA for people."""
        return f"{self.version} ({self.sha[:12]})"


def parsed(version: str) -> Version | None:
    """A version that can be compared; None for any other word."""
    try:
        return Version(version)
    except InvalidVersion:
        return None


def changes(
    names: Iterable[str], before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> tuple[PackageChange, ...]:
    """The packages of these names that differ between two releases, by name."""
    return tuple(
        PackageChange(name=name, before=before.get(name), after=after.get(name))
        for name in sorted(set(names))
        if before.get(name) != after.get(name)
    )


def file_name(version: str, sha: str) -> str:
    """The name of a record's file; what a file system might refuse becomes a dash."""
    return f"{re.sub(r'[^A-Za-z0-9.+_-]', '-', version)[:100]}-{sha[:12]}.json"


def in_order(record: Record) -> tuple[Any, ...]:
    """A sort key: by time, then by version (1.9 before 1.10); words that are no versions last."""
    version = parsed(record.version)
    return (record.at, version is None, version or record.version, record.sha)


def read_records(folder: Path) -> list[Record]:
    """The releases of a track's folder, oldest first; none where there is no folder.

    Raises:
        BadFileError: a file is no record, or its name or folder does not fit its content.
    """
    return sorted(map(_read, sorted(folder.glob("*.json"))), key=in_order)


def write_record(folder: Path, record: Record) -> Path:
    """Write a release into its track's folder; the same content again changes nothing.

    Raises:
        RecordedOtherwiseError: it is there with another content.
        BadFileError: what is there is no record.
    """
    path = folder / file_name(record.version, record.sha)
    if path.exists():
        was = _read(path).model_dump(exclude=_NOT_OF_THE_RELEASE)
        now = record.model_dump(exclude=_NOT_OF_THE_RELEASE)
        if other := [key for key, value in now.items() if was[key] != value]:
            said = f"this release is already recorded with other content ({', '.join(other)})"
            remedy = "a record is never changed; find out why the same release reads differently now"
            raise RecordedOtherwiseError(said, where=path, remedy=remedy)
        return path
    content = record.model_dump(mode="json", by_alias=True)
    for key in ("packages", "origins", "direct", "signatures"):
        content[key] = dict(sorted(content[key].items()))
    write_json(path, KIND, content)
    return path


def _read(path: Path) -> Record:
    try:
        record = Record.model_validate(read_json(path, KIND))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = f"is not a record: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise BadFileError(said, where=path, remedy="restore it from version control") from error
    if path.name != file_name(record.version, record.sha) or path.parent.name != record.track:
        said = f"is the record of {record.track} {record.label}, which has another file name"
        remedy = "restore it from version control; a record is neither renamed nor moved"
        raise BadFileError(said, where=path, remedy=remedy)
    return record
