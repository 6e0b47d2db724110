"""Publishing a release to an index: asked before, continued where it stopped, looked at after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ci.config.package_model import Index
from ci.core.errors import EXIT_INCOMPLETE, BadFileError, MissingInputError, SpyreCiError, UsageError
from ci.package.account import Account, note
from ci.package.artifacts import Artifact
from ci.package.asking import Asker, IndexAwayError
from ci.package.credentials import Credentials
from ci.package.listing import Decision, preview_is_there, refuse_taken, upload_order
from ci.package.proving import Prover
from ci.package.records import Published, checked
from ci.package.uploading import Uploader
from test_selection.files import read_json, write_json

KIND = "package-published"
# Asked with the name of an index, its settings and the files that would go there; raises where it is shut.
Gate = Callable[[str, Index, Sequence[Artifact]], None]


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
