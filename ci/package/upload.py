"""Upload the files of a release with twine, one by one; after each the index is asked, and its answer counts.

Twine's word alone does not: an index that answers 500 may have kept the file, and a proxy before one may
answer 200 where nothing was kept.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ci.core.addresses import without_secrets
from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED, CommandError, SettingsError, SpyreCiError
from ci.core.process import LAST_LINES, stream_command
from ci.core.text import plain
from ci.package.artifacts import Artifact, sha256_of
from ci.package.credentials import Credentials, twine_environ
from ci.package.index_client import IndexAwayError, IndexClient

State = Literal["absent", "there", "uploaded", "unsure"]
_STATUS = re.compile(r"HTTPError: (\d{3})\b")
# What twine says of every upload.
_NOISE = re.compile(r"^Uploading |^INFO |Error during upload|--verbose option")
_TRACEBACK = "Traceback (most recent call last):"
_TAG = re.compile(r"<[^<>]{0,1000}>")
_LINE = 300
_LOGIN = (401, 403)
# Not now: a later try may be taken.
_LATER = (408, 425, 429)
_SERVER = 500


class UnfinishedError(SpyreCiError):
    """An upload that did not come to its end; the same command continues."""

    exit_code = EXIT_INCOMPLETE


class UploadRefusedError(SpyreCiError):
    """An index that does not take a file, whoever uploads it."""

    exit_code = EXIT_TEST_FAILED


class ChangedError(SpyreCiError):
    """A file that is not the one that was verified any more."""

    exit_code = EXIT_TEST_FAILED


@dataclass(slots=True, kw_only=True)
class UploadState:
    """Files of a release, each with what became of it.

    Attributes:
        artifacts: all of them, in the order they are uploaded in.
        states: by file name: there before, uploaded by this command, absent, or unsure: an upload was begun,
            and the index could not be asked since.
    """

    artifacts: Sequence[Artifact]
    states: dict[str, State] = field(default_factory=dict)

    def names(self, *states: State) -> list[str]:
        """Files in one of these states."""
        known = [one.filename for one in self.artifacts]
        return [name for name in known if self.states.get(name, "absent") in states]

    @property
    def line(self) -> str:
        """Which files are published and which are not."""
        published, unsure = self.names("there", "uploaded"), self.names("unsure")
        if not published and not unsure:
            return "nothing was published"
        parts = [f"{len(published)} of {len(self.artifacts)} files {_is(published)} published"]
        parts[0] += f": {', '.join(published)}" if published else ""
        if missing := self.names("absent"):
            parts.append(f"not published: {', '.join(missing)}")
        if unsure:
            parts.append(f"it is not known whether {', '.join(unsure)} {_is(unsure)}")
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """For machines, and the record."""
        states: tuple[State, ...] = ("uploaded", "there", "absent", "unsure")
        return {
            "files": [
                {**one.as_json(), "state": self.states.get(one.filename, "absent")} for one in self.artifacts
            ],
            "state": {state: self.names(state) for state in states},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What twine said of one file.

    Attributes:
        code: its exit code; None where it did not end.
        status: the index's HTTP status; None where there was none.
        text: its last lines, for people.
    """

    code: int | None
    status: int | None = None
    text: str = ""

    @property
    def doubtful(self) -> bool:
        """Whether the file may be there though twine failed."""
        return self.code != 0 and (self.status is None or self.status >= _SERVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploader:
    """Uploads files to an index.

    Attributes:
        client: of the index.
        credentials: what allows it.
        environ: this process's.
        timeout_s: seconds one upload may take.
        say: takes a line for people.
        note: writes down how far it is, before and after each file: a process can be killed in between.
    """

    client: IndexClient
    credentials: Credentials
    environ: Mapping[str, str]
    timeout_s: float
    say: Callable[[str], None]
    note: Callable[[], object]

    def upload(self, state: UploadState) -> None:
        """Upload what is absent, and keep what became of each file in the state.

        What goes out are copies whose hashes were taken as they were made: other processes can write to the
        folder of the files.

        Raises:
            ChangedError: a file has other bytes than its hash says; nothing was uploaded.
            TakenError: the index has other bytes of it by now.
            SettingsError: the index does not know the token, or it may not upload this.
            UploadRefusedError: the index does not take the file.
            UnfinishedError: the index is away, or did not keep the file.
            KeyboardInterrupt: Ctrl-C; what was published is said before.
        """
        absent = [one for one in state.artifacts if one.filename in state.names("absent")]
        with tempfile.TemporaryDirectory(prefix="spyre-ci-upload-") as folder:
            copies = [copied(one, Path(folder)) for one in absent]
            for one, path in zip(absent, copies, strict=True):
                try:
                    self._one(one, path, state)
                except KeyboardInterrupt:
                    self.say(f"interrupted: {state.line}; the same command continues")
                    raise
                finally:
                    self.note()

    def _one(self, one: Artifact, path: Path, state: UploadState) -> None:
        index = self.client.index
        self.say(f"uploads {one.filename} to {self.client.name}")
        state.states[one.filename] = "unsure"
        self.note()
        answer = by_twine(
            path, index.upload, self.credentials, environ=self.environ, timeout_s=self.timeout_s
        )
        if answer.code == 0:
            # A page is a copy that may come later: it is waited for when all is uploaded.
            state.states[one.filename] = "uploaded"
        try:
            found = self.client.compare([one])
        except (IndexAwayError, SettingsError) as error:
            raise UnfinishedError(
                f"the index cannot be asked any more: {error.what}; {state.line}",
                where=error.where,
                remedy="the same command continues when the index is well",
            ) from error
        if found.there:
            state.states[one.filename] = "uploaded"
        elif found.taken or (answer.code != 0 and not answer.doubtful):
            state.states[one.filename] = "absent"
        found.refuse_taken(f"{self.client.name}, where somebody else uploads, too; {state.line}")
        if state.states[one.filename] != "uploaded":
            raise refused(answer, one, state, where=f"{self.client.name} ({index.upload})")
        if answer.code != 0:
            said = answer.status or "nothing"
            self.say(f"the index answered {said} and kept {one.filename} all the same")


def copied(one: Artifact, folder: Path) -> Path:
    """A copy of a file, with the bytes that its hash is of.

    Raises:
        ChangedError: it has other bytes by now.
        UnfinishedError: it cannot be copied.
    """
    try:
        made = Path(shutil.copyfile(one.path, folder / one.filename))
    except OSError as error:
        raise UnfinishedError(
            f"cannot be copied for the upload: {error}; nothing was uploaded",
            where=one.path,
            remedy="make room below TMPDIR and check that it is there; then the same command continues",
        ) from error
    if (found := sha256_of(made)) != one.sha256:
        raise ChangedError(
            f"changed since it was looked at: sha256 {found}, not {one.sha256}; nothing was uploaded",
            where=one.path,
            remedy="verify what is there now, or put back what was verified",
        )
    return made


def by_twine(
    path: Path, url: str, credentials: Credentials, *, environ: Mapping[str, str], timeout_s: float
) -> Answer:
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
        return Answer(code=None, text=f"\n  | {credentials.hidden_in(error.what)}")
    return read(code, without_secrets(credentials.hidden_in("\n".join(lines))))


def read(code: int, text: str) -> Answer:
    """What twine said, by its exit code and all it printed.

    What an index answers is anybody's text: behind the bar no line of it is a command to a CI.
    """
    status = _STATUS.search(text)
    told, found, trace = text.partition(_TRACEBACK)
    if found:  # of a network that failed, only the last line is of use
        told += trace.rstrip().rpartition("\n")[2]
    lines = (" ".join(plain(_TAG.sub(" ", line)).split()) for line in told.splitlines())
    kept = list(dict.fromkeys(line for line in lines if line and not _NOISE.search(line)))
    return Answer(
        code=code,
        status=int(status[1]) if status else None,
        text="".join(f"\n  | {line[:_LINE]}" for line in kept[-LAST_LINES:]),
    )


def refused(answer: Answer, one: Artifact, state: UploadState, *, where: str) -> SpyreCiError:
    """The error for a file that twine could not upload and the index does not have."""
    status = answer.status
    told = f"{one.filename} was not taken{f' ({status})' if status else ''}; {state.line}{answer.text}"
    if status in _LOGIN:
        remedy = "check the token, its user, and that they may upload this project; then repeat the command"
        return SettingsError(told, where=where, remedy=remedy)
    if answer.doubtful or status in _LATER:
        remedy = "the same command continues when the index is well"
        return UnfinishedError(told, where=where, remedy=remedy)
    remedy = "mend what the index says, or raise the version where the name was used before and was deleted"
    return UploadRefusedError(told, where=where, remedy=remedy)


def _is(names: Sequence[object]) -> str:
    return "is" if len(names) == 1 else "are"
