"""Upload the files of a release one by one; after each the index is asked, and its answer counts.

Twine's word alone does not: an index that answers 500 may have kept the file, and a proxy before one may
answer 200 where nothing was kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci.core.addresses import without_secrets
from ci.core.errors import EXIT_TEST_FAILED, CommandError, SettingsError, SpyreCiError
from ci.core.process import LAST_LINES, stream_command
from ci.core.text import plain
from ci.package.account import Account, Said, UnfinishedError, refused
from ci.package.artifacts import Artifact
from ci.package.asking import Asker, IndexAwayError
from ci.package.credentials import Credentials, twine_environ
from ci.package.listing import Decision, refuse_taken

_STATUS = re.compile(r"HTTPError: (\d{3})\b")
_UNTRUSTED = re.compile(r"TrustedPublishingFailure|NonInteractive:|InvalidConfiguration:")
# GitHub is not well, which says nothing of the job.
_PASSES = re.compile(r"OIDC token request (timed out|failed \(code=5)")
# What twine says of every upload.
_NOISE = re.compile(
    r"^Uploading |^INFO +(Using configuration|username|password|repository|Trying to use|Querying)|"
    r"^INFO +\S+ \([\d.]+ [KM]B\)|Error during upload|--verbose option"
)
_TRACEBACK = "Traceback (most recent call last):"
_TAG = re.compile(r"<[^<>]{0,1000}>")
_LINE = 300
_MOMENT_S = 5.0
# Pages are copies that come after the file.
_PAUSES_S = (1.0, 2.0)
_SERVER = 500
_CHUNK = 1 << 20


class ChangedError(SpyreCiError):
    """A file that is not the one that was verified any more."""

    exit_code = EXIT_TEST_FAILED


def _nothing() -> None:
    """What is noted where nobody wants a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploader:
    """What uploads files.

    Attributes:
        asker: the index.
        credentials: what allows it.
        environ: this process's.
        timeout_s: seconds one upload may take.
        say: takes a line for people.
        note: writes down how far it is, before each file: a process can be killed in the middle of one.
    """

    asker: Asker
    credentials: Credentials
    environ: Mapping[str, str]
    timeout_s: float
    say: Callable[[str], None]
    note: Callable[[], object] = field(default=_nothing)

    def upload(self, account: Account) -> None:
        """Upload what is absent, and note each file in the account.

        What goes out are copies of its own, whose hashes were taken as they were made: other processes can
        write to the folder of the files.

        Raises:
            ChangedError: a file has other bytes than its hash says; nothing was uploaded.
            TakenError: the index has other bytes of it by now.
            SettingsError: the index does not know the token, or it may not upload this.
            UploadRefusedError: the index does not take the file.
            UnfinishedError: the index is away, or did not keep the file.
            KeyboardInterrupt: Ctrl-C; what was published is said before.
        """
        absent = [one for one in account.artifacts if account.state(one) == "absent"]
        with tempfile.TemporaryDirectory(prefix="spyre-ci-upload-") as folder:
            copies = copied(absent, Path(folder), self.asker.name)
            for one, path in zip(absent, copies, strict=True):
                try:
                    self._one(one, path, account)
                except KeyboardInterrupt:
                    self._after_interrupt(one, account)
                    raise

    def _one(self, one: Artifact, path: Path, account: Account) -> None:
        self.say(f"uploads {one.filename} to {self.asker.name}")
        account.unsure.add(one.filename)
        self.note()
        said = by_twine(
            path,
            self.asker.index.upload,
            self.credentials,
            environ=self.environ,
            timeout_s=self.timeout_s,
        )
        decision = self._look(one, account, said)
        if decision.there or decision.taken or not _doubtful(said):
            account.unsure.discard(one.filename)
        refuse_taken(decision, f"{self.asker.name}, where somebody else uploads, too; {account.line}")
        if decision.there or said.code == 0:
            # What twine says it took and the page does not show yet is waited for, when all is uploaded.
            account.states[one.filename] = "uploaded"
            if said.code != 0:
                self.say(
                    f"the index answered {said.status or 'nothing'} and kept {one.filename} all the same"
                )
            return
        raise refused(said, one, account, index=self.asker.name, upload=self.asker.index.upload)

    def _look(self, one: Artifact, account: Account, said: Said) -> Decision:
        """What the index has of a file now."""
        try:
            found = self.asker.decision([one])
            for pause in _PAUSES_S if _doubtful(said) else ():
                if not found.absent:
                    break
                self.asker.sleep(pause)
                found = self.asker.decision([one])
        except (IndexAwayError, SettingsError) as error:
            if said.code == 0:
                account.unsure.discard(one.filename)
                account.states[one.filename] = "uploaded"
            raise UnfinishedError(
                f"the index cannot be asked any more: {error.what}; {account.line}",
                where=error.where,
                remedy="the same command continues when the index is well",
            ) from error
        return found

    def _after_interrupt(self, one: Artifact, account: Account) -> None:
        """Find out what is published, in a moment, and say it."""
        index = self.asker.index.model_copy(update={"timeout_s": min(_MOMENT_S, self.asker.index.timeout_s)})
        asker = replace(self.asker, index=index)
        try:
            found = asker.decision([one], attempts=1)
        except (IndexAwayError, SettingsError):
            pass
        else:
            # A page that does not show it yet says nothing: it is a copy that comes later.
            if found.there:
                account.unsure.discard(one.filename)
                account.states[one.filename] = "uploaded"
        self.say(f"interrupted: {account.line}; the same command continues")


def copied(artifacts: Sequence[Artifact], folder: Path, index: str) -> list[Path]:
    """Copies of files, each with the bytes that its hash is of.

    Args:
        artifacts: the files.
        folder: for the copies, which nobody else writes to.
        index: the name of the one they are for.

    Raises:
        ChangedError: one has other bytes by now.
        UnfinishedError: one cannot be copied.
    """
    made = []
    for one in artifacts:
        target = folder / one.filename
        try:
            found = _copied(one.path, target)
        except OSError as error:
            raise UnfinishedError(
                f"cannot be copied for the upload: {error}; nothing was uploaded",
                where=one.path,
                remedy="make room below TMPDIR and check that it is there; then the same command continues",
            ) from error
        if found != one.sha256:
            raise ChangedError(
                f"changed since it was looked at: sha256 {found}, not {one.sha256}; nothing was uploaded to "
                f"{index}",
                where=one.path,
                remedy="verify what is there now, or put back what was verified",
            )
        made.append(target)
    return made


def _copied(source: Path, target: Path) -> str:
    """Copy a file; the SHA-256 of the bytes that were written."""
    digest = hashlib.sha256()
    with source.open("rb") as given, target.open("xb") as taken:
        while chunk := given.read(_CHUNK):
            digest.update(chunk)
            taken.write(chunk)
    return digest.hexdigest()


def _doubtful(said: Said) -> bool:
    """Whether a file may be there though twine says that it failed."""
    return said.code != 0 and not said.untrusted and (said.status is None or said.status >= _SERVER)


def by_twine(
    path: Path, url: str, credentials: Credentials, *, environ: Mapping[str, str], timeout_s: float
) -> Said:
    """Upload a file; what came of it, as far as twine knows.

    Args:
        path: the file, absolute.
        url: where to.
        credentials: what it is allowed by; twine gets them by its environment.
        environ: this process's.
        timeout_s: seconds it may take; twine itself would wait for ever.
    """
    lines: list[str] = []
    words: list[str | Path] = [sys.executable, "-m", "twine", "upload", "--non-interactive", "--verbose"]
    try:
        code = stream_command(
            [*words, "--disable-progress-bar", "--repository-url", url, path],
            timeout_s=timeout_s,
            line=lines.append,
            env=twine_environ(environ, credentials, url),
            # Where no file could stand in for a module of twine's.
            cwd=Path(os.sep),
        )
    except CommandError as error:
        return Said(code=None, text=f"  | {credentials.hidden_in(error.what)}")
    return read(code, without_secrets(credentials.hidden_in("\n".join(lines))))


def read(code: int, text: str) -> Said:
    """What twine said, by its exit code and all it printed."""
    status = _STATUS.search(text)
    return Said(
        code=code,
        status=int(status[1]) if status else None,
        untrusted=_UNTRUSTED.search(text) is not None and _PASSES.search(text) is None,
        text=_shown(text),
    )


def _shown(text: str) -> str:
    """The lines that say what failed, without the tags of a page.

    What an index answers is anybody's text: behind the bar no line of it is a command to a CI.
    """
    told, found, trace = text.partition(_TRACEBACK)
    if found:  # of a network that failed, only the last line is of use
        told += trace.rstrip().rpartition("\n")[2]
    lines = (" ".join(plain(_TAG.sub(" ", line)).split()) for line in told.splitlines())
    kept = list(dict.fromkeys(line for line in lines if line and not _NOISE.search(line)))
    return "\n".join(f"  | {line[:_LINE]}" for line in kept[-LAST_LINES:])
