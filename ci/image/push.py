"""Pushing an image: its own tag, the tags that move, and the versions that never do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import docker

from ci.core.errors import EXIT_TEST_FAILED, CommandError, UsageError
from ci.image.registry import WHOLE_DIGEST, find_digest, registry_error

_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_DIGEST = re.compile(r"\bdigest: (sha256:[0-9a-f]{64})")
# What is found by these was built from what their hash says; nothing else may stand there.
_OURS = ("stack-", "untested-", "wheel-", "cache-")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class OtherImageError(CommandError):
    """What the registry has is not the image that was tested."""

    exit_code = EXIT_TEST_FAILED


def check_expected(name: str, there: str | None, expected: str) -> None:
    """Refuse whatever is not the very image that is expected; pure.

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


def version_tags(version: str) -> list[str]:
    """The tags of a release: `X.Y.Z`, `X.Y`, `X`.

    Raises:
        UsageError: it is no version of three numbers.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        raise UsageError(f"{version!r} is no version X.Y.Z", where="--version", remedy="write three numbers")
    major, minor, _ = found.groups()
    return [version, f"{major}.{minor}", major]


def checked_tags(tags: Sequence[str]) -> list[str]:
    """Tags that move, such as latest, nightly and pr-123.

    Raises:
        UsageError: one is no tag, or looks like a version, which does not move.
    """
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise UsageError(f"{tag!r} is no tag", where="--tag", remedy="letters, digits, dots and dashes")
        if tag.startswith(_OURS):
            raise UsageError(
                f"{tag!r} would be taken for the name of another image",
                where="--tag",
                remedy="choose another",
            )
        if re.fullmatch(r"[0-9]+(\.[0-9]+)*", tag):
            raise UsageError(f"{tag!r} is a version", where="--tag", remedy="release it with --version")
    return list(tags)


def push(
    client: docker.DockerClient,
    image: str,
    *,
    tags: Sequence[str],
    version: str | None,
    echo: Callable[[str], None],
    there: str | None = None,
) -> str:
    """Push an image under its own tag, then let tags point to it; returns its digest.

    The own tag goes first: until it is there nobody sees a tag that moved.

    Args:
        client: the engine, which has the image.
        image: repository and own tag.
        tags: that move, looked at by `check_tags` where a user gave them.
        version: of a release; None: it is none.
        echo: takes lines for people.
        there: the digest the registry has it by already; None: it is not there, and pushed.

    Raises:
        CommandError: the registry cannot be reached or refuses; the version is there already.
        UsageError: the version cannot be taken.
    """
    repository = image.rpartition(":")[0]
    if version is not None:
        # Somebody may have been faster since `check_tags`.
        _check_free(client, f"{repository}:{version}", image)
    moving = [*(version_tags(version) if version is not None else ()), *tags]
    digest = there or _push_one(client, image, echo)
    for tag in moving:
        client.api.tag(image, repository, tag)
        if _push_one(client, f"{repository}:{tag}", echo) != digest:
            raise CommandError(f"{repository}:{tag} is not what was pushed", where=repository)
    return digest


def check_tags(client: docker.DockerClient, image: str, *, tags: Sequence[str], version: str | None) -> None:
    """Refuse tags and a version before anything is built for them.

    Raises:
        CommandError: the registry cannot be reached; the version is there already.
        UsageError: a tag or the version cannot be taken.
    """
    checked_tags(tags)
    if version is not None:
        whole = version_tags(version)[0]
        _check_free(client, f"{image.rpartition(':')[0]}:{whole}", image)


def _check_free(client: docker.DockerClient, name: str, image: str) -> None:
    there = find_digest(client, name)
    if there is not None and there != find_digest(client, image):
        raise CommandError(
            f"{name} is there already, with {there}",
            where="--version",
            remedy="a version never moves: release the next one",
        )


def _push_one(client: docker.DockerClient, name: str, echo: Callable[[str], None]) -> str:
    repository, _, tag = name.rpartition(":")
    digest = ""
    for message in client.api.push(repository, tag=tag, stream=True, decode=True):
        if "error" in message:
            raise registry_error(name, str(message["error"]))
        digest = message.get("aux", {}).get("Digest", digest)
        # podman says it in words alone.
        if told := _DIGEST.search(str(message.get("status", ""))):
            digest = told[1]
    echo(f"pushed {name} {digest}")
    return digest
