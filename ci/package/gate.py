"""What must be green before files go to an index; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from ci.config.package_model import Gate, Index
from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.package.artifacts import Artifact
from ci.package.records import DEVICE, LINT, UNIT, VERIFY, Record

# Besides `verify`, without which nothing is published anywhere.
STEPS: Mapping[Gate, tuple[str, ...]] = {"none": (), "merge": (LINT, UNIT), "full": (LINT, UNIT, DEVICE)}
_SHOWN = 3
_DIGITS = 12
_AGAIN = "build and verify this commit: spyre-ci package build, spyre-ci package verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is to be published.

    Attributes:
        project: its canonical name.
        commit: that is checked out; empty where there is none.
        dirty: files of the checkout that differ from it.
        artifacts: sdist and wheels, of one version.
    """

    project: str
    commit: str
    dirty: Sequence[str]
    artifacts: Sequence[Artifact]

    @property
    def version(self) -> Version:
        """Of the artifacts."""
        return self.artifacts[0].version


def check_gate(release: Release, gate: Gate, records: Mapping[str, Record | None]) -> Iterator[Finding]:
    """Check that every step passed of this very commit, and that these very files were verified.

    Args:
        release: what is to be published.
        gate: the index's.
        records: of each step; None: it was not made.
    """
    named = release.artifacts[0].name
    remedy = f"name the folder with the files of {release.project}"
    yield judged("project", named, holds=named == release.project, remedy=remedy)
    yield _clean("checkout", release.dirty)
    for step in STEPS[gate]:
        yield _step(step, release, records.get(step))
    verified = records.get(VERIFY)
    if verified is None:
        remedy = "verify what was built: spyre-ci package verify"
        yield Finding(check="verified", seen="not recorded", remedy=remedy)
        return
    yield judged(
        "verified",
        "every check passed" if verified.passed else "a check failed",
        holds=verified.passed and verified.project == release.project,
        remedy="fix what failed, then verify again",
    )
    for one in release.artifacts:
        yield _hash(one, verified.hashes.get(one.filename))
    yield judged(
        "commit",
        f"verified {_short(verified.commit)}, checked out {_short(release.commit)}",
        holds=verified.commit == release.commit,
        remedy=f"check out the commit that was verified, or {_AGAIN}",
    )
    yield _clean("checkout when it was built or verified", verified.dirty)


def check_index(artifacts: Sequence[Artifact], name: str, index: Index) -> Iterator[Finding]:
    """Check that an index takes files of this version, these tags and this size."""
    version = artifacts[0].version
    yield judged(
        "version",
        str(version),
        holds=index.local_versions or version.local is None,
        remedy=f"{name} accepts no local versions: spyre-ci package build --index {name} builds one without",
    )
    for one in artifacts:
        yield judged(
            f"tag of {one.filename}",
            ", ".join(sorted(one.platforms)) or "an sdist",
            holds=index.linux_tags or not any(tag.startswith("linux_") for tag in one.platforms),
            remedy=f"{name} needs a manylinux tag: set package.repair: true and build again",
        )
        size = one.size / (1 << 20)
        yield judged(
            f"size of {one.filename}",
            f"{size:.1f} MiB",
            holds=size <= index.max_mib,
            remedy=f"{name} accepts at most {index.max_mib:g} MiB: leave out what is not needed",
        )


def _step(step: str, release: Release, record: Record | None) -> Finding:
    remedy = f"run spyre-ci package {step} on {release.commit[:_DIGITS] or 'a commit'}"
    if record is None:
        return Finding(check=step, seen="was not run", remedy=remedy)
    seen = f"for {record.project} at {_short(record.commit)}{', changed' if record.dirty else ''}"
    same = (record.project, record.commit) == (release.project, release.commit)
    if not same or record.dirty or not release.commit:
        return Finding(check=step, seen=seen, remedy=remedy)
    if record.details.get("emulated") is True and step == DEVICE:
        return Finding(check=step, seen="ran on the emulated device", remedy=f"{remedy}, on cards")
    return judged(
        step, f"{seen}, {'passed' if record.passed else 'failed'}", holds=record.passed, remedy=remedy
    )


def _hash(one: Artifact, verified: str | None) -> Finding:
    here = f"sha256 {one.sha256}"
    seen = {None: "was not verified", one.sha256: here}
    return judged(
        one.filename,
        seen.get(verified, f"{here}, but {verified} was verified"),
        holds=verified == one.sha256,
        remedy="verify this file (spyre-ci package verify), or restore the one that was verified",
    )


def _clean(what: str, dirty: Sequence[str]) -> Finding:
    return judged(
        what,
        f"differs from its commit: {listed(dirty, _SHOWN)}" if dirty else "as committed",
        holds=not dirty,
        remedy=f"commit or stash the changes; then {_AGAIN}",
    )


def _short(commit: str) -> str:
    return commit[:_DIGITS] or "no commit"
