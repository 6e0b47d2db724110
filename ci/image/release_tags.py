"""The tags of an image: those that people choose, and those of a release; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.version import Version

from ci.core.errors import EXIT_TEST_FAILED, CommandError, UsageError
from ci.core.registry import TAG, WHOLE_DIGEST

LATEST = "latest"
# Before the tag of an image whose tests did not run: nobody finds it in the place of one that passed.
UNTESTED = "untested-"
# What is found by these was built from what their hash says; nothing else may stand there.
_OURS = ("stack-", UNTESTED)
_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)((a|b|rc)[0-9]+)?")


class OtherImageError(CommandError):
    """What the registry has is not the image that was tested."""

    exit_code = EXIT_TEST_FAILED


def check_expected(name: str, there: str | None, expected: str) -> None:
    """Refuse whatever is not the very image that is expected.

    Args:
        name: repository and own tag of what would be pushed, or get tags.
        there: the digest the registry has it by; None: it is not there.
        expected: a digest, or a name with one.

    Raises:
        UsageError: no digest is expected.
        OtherImageError: it is another image, or would be a new one.
    """
    digest = expected.rpartition("@")[2]
    if not WHOLE_DIGEST.fullmatch(digest):
        raise UsageError(
            f"{expected!r:.200} names no digest", where="--expect", remedy="give NAME@sha256:… or sha256:…"
        )
    if there != digest:
        raise OtherImageError(
            f"{name} is {there or 'not in the registry'}, and {digest} was expected",
            where="--expect",
            remedy="something that the stack file names has moved since: test what it comes to now",
        )


def check_version(version: str) -> None:
    """Refuse what is no version of three numbers, perhaps of a candidate (`1.2.3`, `1.3.0rc1`).

    Raises:
        UsageError: it is none.
    """
    if not _VERSION.fullmatch(version):
        raise UsageError(
            f"{version!r} is no version X.Y.Z", where="--version", remedy="write three numbers, such as 1.2.3"
        )


def release_tags(version: str, there: Iterable[str]) -> list[str]:
    """The tags that a release moves besides its own: those whose highest version it is.

    A candidate moves none; `X.Y` moves to the highest of its line, `X` and `latest` likewise.

    Args:
        version: of the release.
        there: tags that the registry has.
    """
    released = Version(version)
    if released.is_prerelease:
        return []
    others = [known for known in map(_version, there) if known is not None and known > released]
    lines = {
        f"{released.major}.{released.minor}": [
            one for one in others if one.release[:2] == released.release[:2]
        ],
        f"{released.major}": [one for one in others if one.major == released.major],
        LATEST: others,
    }
    return [tag for tag, higher in lines.items() if not higher]


def _version(tag: str) -> Version | None:
    """The release a tag is of; None where it is of none, or of a candidate."""
    version = Version(tag) if _VERSION.fullmatch(tag) else None
    return None if version is None or version.is_prerelease else version


def check_tags(tags: Sequence[str]) -> None:
    """Refuse tags to move, such as latest, nightly and pr-123, that cannot be taken.

    Raises:
        UsageError: one is no tag, or looks like a version, which does not move.
    """
    for tag in tags:
        if not TAG.fullmatch(tag):
            raise UsageError(f"{tag!r} is no tag", where="--tag", remedy="letters, digits, dots and dashes")
        if tag.startswith(_OURS):
            raise UsageError(
                f"{tag!r} would be taken for the name of another image",
                where="--tag",
                remedy="choose another",
            )
        if re.fullmatch(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?", tag):
            raise UsageError(f"{tag!r} is a version", where="--tag", remedy="release it with --version")
