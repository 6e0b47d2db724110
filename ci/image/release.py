"""What an image is released as: tags that people choose, and those of a version; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.version import Version

from ci.core.errors import EXIT_TEST_FAILED, CommandError, UsageError
from ci.core.registry import TAG, WHOLE_DIGEST
from ci.image.containerfile import TAG_PREFIX

LATEST = "latest"
# Tags that others take for what the stack file says.
RELEASED = frozenset({LATEST, "nightly"})
_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)((a|b|rc)[0-9]+)?")
_LIKE_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?")


class OtherImageError(CommandError):
    """What the registry has is not the image that was tested."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is done with an image that passed.

    Attributes:
        pushes: whether it goes to the registry.
        tags: that move to it there.
        version: it is released as; None: it is no release.
        expected: a digest, or a name with one, that the registry has to have it by already; None: any.
    """

    pushes: bool = False
    tags: Sequence[str] = ()
    version: str | None = None
    expected: str | None = None


def check_release(release: Release, *, replaced: Sequence[str]) -> None:
    """Refuse what an image cannot be released as, before anything is built for it.

    Args:
        release: what is asked for.
        replaced: names of components that are taken from elsewhere.

    Raises:
        UsageError: a tag or the version cannot be taken, or is for another image than this.
    """
    flag = "--version" if release.version is not None else "--tag"
    named = bool(release.tags) or release.version is not None
    if (named or release.expected is not None) and not release.pushes:
        what = "tags, versions and digests need --push"
        raise UsageError(what, where=flag if named else "--expect", remedy="add --push")
    if replaced and (release.version is not None or RELEASED & set(release.tags)):
        raise UsageError(
            f"{replaced[0]} is replaced: such an image cannot be released",
            where=flag,
            remedy="release without --with and --test-with, or use a tag such as pr-123",
        )
    for tag in release.tags:
        if not TAG.fullmatch(tag):
            raise UsageError(f"{tag!r} is not a tag", where="--tag", remedy="use letters, digits, dots, -, _")
        # What is found by our own tags was built from what their hash says; nothing else may stand there.
        if tag.startswith(TAG_PREFIX):
            what = f"{tag!r} is reserved for spyre-ci: it starts with {TAG_PREFIX!r}"
            raise UsageError(what, where="--tag", remedy="choose another")
        if _LIKE_VERSION.fullmatch(tag):
            raise UsageError(f"{tag!r} is a version", where="--tag", remedy="release it with --version")
    if release.version is not None and not _VERSION.fullmatch(release.version):
        what = f"{release.version!r} is not a version X.Y.Z"
        raise UsageError(what, where="--version", remedy="write three numbers, such as 1.2.3 or 1.3.0rc1")


def check_expected(name: str, there: str | None, expected: str) -> None:
    """Refuse whatever is not the very image that is expected.

    Args:
        name: repository and own tag of what would be pushed, or get tags.
        there: the digest the registry has it by; None: it is not found.
        expected: a digest, or a name with one.

    Raises:
        UsageError: no digest is expected.
        OtherImageError: it is another image, or would be a new one.
    """
    digest = expected.rpartition("@")[2]
    if not WHOLE_DIGEST.fullmatch(digest):
        what, remedy = f"{expected!r:.200} has no digest", "give NAME@sha256:… or sha256:…"
        raise UsageError(what, where="--expect", remedy=remedy)
    if there != digest:
        raise OtherImageError(
            f"{name} is {there or 'not in the registry'}, but {digest} was expected",
            where="--expect",
            remedy="a part of the stack has changed since: build and test the image again",
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
    known = [Version(tag) for tag in there if _VERSION.fullmatch(tag)]
    higher = [one.release for one in known if not one.is_prerelease and one > released]
    tags = []
    for length, tag in ((2, f"{released.major}.{released.minor}"), (1, f"{released.major}"), (0, LATEST)):
        if not any(one[:length] == released.release[:length] for one in higher):
            tags.append(tag)
    return tags
