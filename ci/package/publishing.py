"""Publish a release to an index: asked before, continued where it stopped, looked at after.

Only files that were verified, and that the index takes, may go there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ci.config.package_model import Index
from ci.core.errors import EXIT_INCOMPLETE, BadFileError, MissingInputError, SpyreCiError, UsageError
from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.package.account import Account, note
from ci.package.artifacts import Artifact
from ci.package.asking import Asker, IndexAwayError
from ci.package.credentials import Credentials
from ci.package.listing import Decision, preview_is_there, refuse_taken, upload_order
from ci.package.project import Source
from ci.package.proving import Prover
from ci.package.records import Published, Record, checked
from ci.package.uploading import Uploader
from test_selection.files import read_json, write_json

_SHOWN = 3
_DIGITS = 12
_VERIFY = "verify what was built: spyre-ci package verify"
_COMMIT = "build and verify this commit: spyre-ci package build, spyre-ci package verify"
KIND = "package-published"
# Asked with the name of an index, its settings and the files that would go there; raises where it is shut.
Gate = Callable[[str, Index, Sequence[Artifact]], None]


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


class OtherPreviewError(SpyreCiError):
    """A preview of which another build is published in part."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is published.

    Attributes:
        artifacts: files of one release.
        commit: it was built from; empty where nobody knows.
    """

    artifacts: Sequence[Artifact]
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """What publishes.

    Attributes:
        asker: the index.
        gate: is asked before anything is uploaded; raises where it is shut.
        credentials: finds what allows an upload, or raises; only asked where something is to be uploaded.
        records: folder of what is noted.
        environ: this process's.
        constraints: that hold wherever something is installed.
        timeout_s: seconds one upload may take, and within which the index must show all.
        now: seconds since the epoch.
        say: takes a line for people.
    """

    asker: Asker
    gate: Gate
    credentials: Callable[[], Credentials]
    records: Path
    environ: Mapping[str, str]
    constraints: Sequence[str]
    timeout_s: float
    now: Callable[[], float]
    say: Callable[[str], None]

    def publish(
        self, release: Release, *, dry_run: bool = False, skip_existing_version: bool = False
    ) -> dict[str, Any]:
        """Publish a release, or what of it is not there yet; what was done, for machines.

        Args:
            release: its files.
            dry_run: whether everything is asked and nothing uploaded.
            skip_existing_version: whether it is well when a preview of another build is there.

        Raises:
            SpyreCiError: the gate is shut, nobody may upload, the version is taken, or it is not finished.
        """
        if skip_existing_version:
            _refuse_no_preview(release)
        decision = self._asked(release)
        self._tell(decision)
        if skip_existing_version and decision.taken:
            return self._passed_over(release, decision)
        refuse_taken(decision, self.asker.name)
        account = Account(artifacts=upload_order(release.artifacts))
        account.states = {one.filename: "there" for one in decision.there}
        credentials = self._allowed(release, decision)
        if dry_run:
            return self._would(release, decision, credentials)
        if credentials is not None:
            self._upload(release, account, credentials)
        installed = self._proved(release, account)
        account.proved = True
        return {**self._note(release, account, installed), "dry_run": False}

    def _asked(self, release: Release) -> Decision:
        try:
            return self.asker.decision(release.artifacts)
        except IndexAwayError as error:
            what = f"{error.what}; nothing was published"
            raise IndexAwayError(what, where=error.where, remedy=error.remedy) from error

    def _allowed(self, release: Release, decision: Decision) -> Credentials | None:
        """What allows the upload; None where there is nothing to upload."""
        if not decision.absent:
            return None
        self.gate(self.asker.name, self.asker.index, release.artifacts)
        return self.credentials()

    def _upload(self, release: Release, account: Account, credentials: Credentials) -> None:
        uploader = Uploader(
            asker=self.asker,
            credentials=credentials,
            environ=self.environ,
            timeout_s=self.timeout_s,
            say=self.say,
            note=lambda: self._note(release, account, []),
        )
        try:
            uploader.upload(account)
        finally:
            # Half done too, so that whoever comes next reads what is there.
            self._note(release, account, [])
        self.say(account.line)

    def _proved(self, release: Release, account: Account) -> list[str]:
        """Files that were installed from the index; looked at once for each release."""
        earlier = self._earlier(release, account)
        if earlier and not account.names("uploaded"):
            self.say(f"was installed from {self.asker.name} before: {', '.join(earlier)}")
            return earlier
        prover = Prover(
            asker=self.asker,
            environ=self.environ,
            constraints=self.constraints,
            timeout_s=self.timeout_s,
            say=self.say,
        )
        # Should it fail, nobody is to read that it once did not.
        self._note(release, account, [])
        return prover.prove(release.artifacts)

    def _earlier(self, release: Release, account: Account) -> list[str]:
        """Files that an earlier command installed, where it published the same ones."""
        try:
            known = read_published(note_path(self.records, self.asker.name))
        except (MissingInputError, BadFileError):
            return []
        same = {one.name: one.sha256 for one in known.files} == {
            one.filename: one.sha256 for one in release.artifacts
        }
        same = same and known.simple == self.asker.index.simple and account.complete and known.proved
        return known.installed if same else []

    def _would(self, release: Release, decision: Decision, credentials: Credentials | None) -> dict[str, Any]:
        for one in decision.absent:
            self.say(f"would upload {one.filename} (sha256 {one.sha256}) to {self.asker.index.upload}")
        if credentials is not None:
            self.say(f"would upload with {credentials.shown}")
        account = Account(artifacts=upload_order(release.artifacts))
        account.states = {one.filename: "there" for one in decision.there}
        return {**self._content(release, account, []), "dry_run": True}

    def _passed_over(self, release: Release, decision: Decision) -> dict[str, Any]:
        version = release.artifacts[0].version
        if not preview_is_there(decision):
            raise OtherPreviewError(
                f"another build of the preview {version} is there in part; not there: "
                f"{', '.join(one.filename for one in decision.absent)}",
                where=self.asker.name,
                remedy="delete it there and publish this build, or wait for the preview of the next commit",
            )
        self.say(f"a preview {version} is there already, of another build: nothing to upload")
        account = Account(artifacts=upload_order(release.artifacts))
        account.states = {one.filename: "there" for one in decision.there}
        return {**self._content(release, account, []), "dry_run": False, "skipped": True}

    def _note(self, release: Release, account: Account, installed: Sequence[str]) -> dict[str, Any]:
        content = self._content(release, account, installed)
        write_json(note_path(self.records, self.asker.name), KIND, content)
        return content

    def _content(self, release: Release, account: Account, installed: Sequence[str]) -> dict[str, Any]:
        first = release.artifacts[0]
        about = {
            "index": self.asker.name,
            "simple": self.asker.index.simple,
            "project": first.name,
            "version": str(first.version),
            "commit": release.commit,
        }
        when = datetime.fromtimestamp(self.now(), UTC).isoformat(timespec="seconds")
        return note(account, about=about, installed=installed, when=when)

    def _tell(self, decision: Decision) -> None:
        for line in decision.lines:
            self.say(line)


def read_published(path: Path) -> Published:
    """What is noted of an index.

    Raises:
        MissingInputError: nothing is.
        BadFileError: a key is missing or of the wrong kind.
    """
    remedy = "delete it and publish again, which looks and uploads nothing twice"
    return checked(Published, read_json(path, KIND), path, remedy)


def note_path(records: Path, index: str) -> Path:
    """Where it is noted what is published on an index."""
    return records / f"published-{index}.json"


def _refuse_no_preview(release: Release) -> None:
    version = release.artifacts[0].version
    if not version.is_devrelease:
        raise UsageError(
            f"{version} is no preview: what is released twice must have the same bytes",
            where="--skip-existing-version",
            remedy="leave the flag out",
        )
