"""What an index has of a release, and what that means for files that are to be published; pure.

An index never gives a file name twice: what is published stays as it is. So every file is one of three: it is
absent and can be uploaded; it is there with the same bytes, and that step was made; or it is there with other
bytes, and the version is taken.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError
from ci.package.artifacts import Artifact

_DIGITS = 16


class TakenError(SpyreCiError):
    """A version that is published already, with other bytes."""

    exit_code = EXIT_TEST_FAILED


class OtherBytesError(SpyreCiError):
    """A file that an index gives is not the one that was published."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file that an index shows.

    Attributes:
        filename: as it names it.
        url: where it can be downloaded.
        sha256: of it, in hex; empty where the index does not say.
        yanked: why installers pass it over; None where they do not.
        uploaded: when it came there; None where the index does not say.
        metadata: SHA-256 of its metadata beside it (PEP 658), empty where the index does not say; None: it
            has none there.
    """

    filename: str
    url: str
    sha256: str = ""
    yanked: str | None = None
    uploaded: datetime | None = None
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done with each file.

    Attributes:
        absent: those to upload, in the order they are uploaded in.
        there: those that are there, with the same bytes.
        taken: those that are there with other bytes, each with what is there.
        others: what else the index has of the version, such as other platforms' wheels.
        yanked: what of the version installers pass over, each with the reason.
    """

    absent: tuple[Artifact, ...]
    there: tuple[Artifact, ...] = ()
    taken: tuple[tuple[Artifact, Listed], ...] = ()
    others: tuple[str, ...] = ()
    yanked: tuple[tuple[str, str], ...] = ()

    @property
    def lines(self) -> list[str]:
        """For people; empty where everything is to be uploaded and nothing else is to be said."""
        found = []
        count = len(self.absent) + len(self.there)
        if self.there and self.absent:
            found.append(f"continues: {len(self.there)} of {count} files is there already")
        elif self.there:
            found.append(f"all {count} files are there already, with the same bytes: nothing to upload")
        if self.others:
            found.append(f"also there, of other builds of this version: {', '.join(self.others)}")
        found += [f"{name} is yanked{f': {reason}' if reason else ''}" for name, reason in self.yanked]
        return found


def key_of(filename: str) -> tuple[Hashable, ...] | None:
    """What a file is, however its name is spelt; None for what is neither an sdist nor a wheel.

    A release has one sdist, and a wheel for each build number and set of tags.
    """
    try:
        if filename.endswith(".whl"):
            name, version, build, tags = parse_wheel_filename(filename)
            return (name, version, "wheel", build, tags)
        name, version = parse_sdist_filename(filename)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return (name, version, "sdist")


def of_version(listed: Sequence[Listed], name: str, version: Version) -> list[Listed]:
    """What an index has of one version of a project, by its canonical name."""
    return [one for one in listed if (key := key_of(one.filename)) and key[:2] == (name, version)]


def upload_order(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Wheels, then the sdist.

    Were the sdist there alone, if only for a minute, everybody who installs would build it. A version that
    has wheels only is one that others pass over until it has what they need.
    """
    return sorted(artifacts, key=lambda one: (one.kind == "sdist", one.filename))


def decide(artifacts: Sequence[Artifact], listed: Sequence[Listed]) -> Decision:
    """What is to be done with each file.

    Args:
        artifacts: files of one release.
        listed: what the index shows of the project; the SHA-256 must be filled in where a name is ours.
    """
    first = artifacts[0]
    known = {key_of(one.filename): one for one in of_version(listed, first.name, first.version)}
    ours = {key_of(one.filename) for one in artifacts}
    absent, there, taken = [], [], []
    for one in upload_order(artifacts):
        seen = known.get(key_of(one.filename))
        if seen is None:
            absent.append(one)
        elif seen.sha256 == one.sha256:
            there.append(one)
        else:
            taken.append((one, seen))
    return Decision(
        absent=tuple(absent),
        there=tuple(there),
        taken=tuple(taken),
        others=tuple(sorted(one.filename for key, one in known.items() if key not in ours)),
        yanked=tuple(sorted((one.filename, one.yanked) for one in known.values() if one.yanked is not None)),
    )


def refuse_taken(decision: Decision, index: str) -> None:
    """Raise where the version is taken, naming every file with both hashes.

    Raises:
        TakenError: it is.
    """
    if not decision.taken:
        return
    lines = "".join(
        f"\n  {seen.filename}: here {_short(one.sha256)}, there {_short(seen.sha256)}"
        for one, seen in decision.taken
    )
    raise TakenError(
        f"{decision.taken[0][0].version} is published with other bytes, and what is published never changes"
        f"{lines}",
        where=index,
        remedy="raise the version, or publish the files that were built then",
    )


def preview_is_there(decision: Decision) -> bool:
    """Whether the version is there as a whole, of this build or another one."""
    return bool(decision.taken) and not decision.absent


def _short(digest: str) -> str:
    return f"sha256:{digest[:_DIGITS]}…"
