"""Which files may go to an index: those that were verified, and that it takes; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ci.config.package_model import Index
from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.package.artifacts import Artifact
from ci.package.project import Source
from ci.package.records import Record

_SHOWN = 3
_DIGITS = 12
_VERIFY = "verify what was built: spyre-ci package verify"
_COMMIT = "build and verify this commit: spyre-ci package build, spyre-ci package verify"


def verified(
    artifacts: Sequence[Artifact], record: Record | None, source: Source, project: str
) -> Iterator[Finding]:
    """Whether files are the very ones that were verified, of this commit and nothing else.

    Args:
        artifacts: to publish, of one release.
        record: of the step `verify`; None where it was not made.
        source: where the checkout stands.
        project: its canonical name.
    """
    named = artifacts[0].name
    yield judged(
        "project", named, holds=named == project, remedy=f"name the folder with the files of {project}"
    )
    if record is None:
        yield judged("verified", "nothing says so", holds=False, remedy=_VERIFY)
        return
    yield judged(
        "verified",
        "every check passed" if record.passed else "a check failed",
        holds=record.passed and record.project == project,
        remedy="mend what failed, then verify again",
    )
    for one in artifacts:
        yield _hash(one, record.hashes)
    yield judged(
        "commit",
        f"verified {_short(record.commit)}, checked out {_short(source.commit)}",
        holds=record.commit == source.commit,
        remedy=f"check out the commit that was verified, or {_COMMIT}",
    )
    yield _clean("checkout", source.dirty)
    yield _clean("checkout when it was built or verified", record.dirty)


def taken_by(artifacts: Sequence[Artifact], name: str, index: Index) -> Iterator[Finding]:
    """Whether an index takes files of this version, these tags and this size."""
    version = artifacts[0].version
    yield judged(
        "version",
        str(version),
        holds=index.local_versions or version.local is None,
        remedy=f"{name} takes no local versions: spyre-ci package build --index {name} makes one without",
    )
    for one in artifacts:
        linux = sorted(tag for tag in one.platforms if tag.startswith("linux_"))
        yield judged(
            f"tag of {one.filename}",
            ", ".join(sorted(one.platforms)) or "an sdist",
            holds=index.linux_tags or not linux,
            remedy=f"{name} wants a manylinux tag: set package.repair: true and build again",
        )
        size = one.size / (1 << 20)
        yield judged(
            f"size of {one.filename}",
            f"{size:.1f} MiB",
            holds=size <= index.max_mib,
            remedy=f"{name} takes {index.max_mib:g} MiB: leave out what need not be in it",
        )


def _hash(one: Artifact, hashes: Mapping[str, str]) -> Finding:
    known = hashes.get(one.filename)
    if known is None:
        return judged(one.filename, "was not among what was verified", holds=False, remedy=_VERIFY)
    return judged(
        one.filename,
        f"sha256 {one.sha256}" if known == one.sha256 else f"sha256 {one.sha256}, verified was {known}",
        holds=known == one.sha256,
        remedy="it changed after it was verified: verify it again, or take the file that was verified",
    )


def _clean(what: str, dirty: Sequence[str]) -> Finding:
    return judged(
        what,
        f"differs from its commit: {listed(dirty, _SHOWN)}" if dirty else "as committed",
        holds=not dirty,
        remedy=f"commit the changes or put them away; then {_COMMIT}",
    )


def _short(commit: str) -> str:
    return commit[:_DIGITS] or "no commit"
