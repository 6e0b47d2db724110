"""A release as the ledger has it: `pins/<track>/<version>-<sha>.json`, one file a release, never changed."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

KIND = "pin-record"
Flag = Literal["major", "performance"]
# Kinds of a parameter, in the words of `inspect`.
ParameterKind = Literal["positional-only", "positional or keyword", "variadic positional", "keyword-only",
                        "variadic keyword"]  # fmt: skip


class Table(BaseModel):
    """What records and events are made of: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(Table):
    """A parameter of an entry point; `default` is its source text, None where it has none."""

    name: str
    kind: ParameterKind
    default: str | None = None


class Change(Table):
    """What became of a package from one release to the next; None: it was not, or is no longer there."""

    name: str
    before: str | None
    after: str | None


class Record(Table):
    """A release of a track.

    Attributes:
        track: its name in the settings.
        version: as the release is called: a tag of an image, a version of a package.
        sha: exactly what it is: the digest of an image, the SHA-256 of a wheel; hexadecimal.
        source: where it was read: image name or index, without credentials.
        released_at: as the source says; None where it does not.
        recorded_at: when it was read.
        flags: what people say of the release.
        yanked: why its index had taken it back when it was read, perhaps empty; None: it had not.
        packages: name to version, whole, canonical names; of a package without an installation, what its
            metadata requires, as written there.
        origins: where packages come from that are from no index, by name, without credentials.
        read_by: what told the packages, such as `pip freeze`.
        direct: the tracked direct dependencies; None where the release has none of it.
        signatures: parameters by entry point; None where the release has no such entry point. One that only
            running the release would tell is not among them.
        previous: file of the release before, empty for the first.
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
    signatures: dict[str, tuple[Parameter, ...] | None] = {}
    previous: str = ""
    changes: tuple[Change, ...] = ()

    @property
    def at(self) -> datetime:
        """When it was released, as far as that is known; else when it was recorded."""
        return self.released_at or self.recorded_at


def file_name(version: str, sha: str) -> str:
    """Of a release in its track's folder; what a file system might not take of a version is a dash."""
    return f"{re.sub(r'[^A-Za-z0-9.+_-]', '-', version)[:100]}-{sha[:12]}.json"
