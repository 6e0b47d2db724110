"""Upload one file with twine, and read what twine and the index say of it.

Twine's word alone does not count: an index that answers 500 may have kept the file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.addresses import without_secrets
from ci.core.commands import LAST_LINES, stream_command
from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED, CommandError, SettingsError, SpyreCiError
from ci.core.text import plain
from ci.package.artifacts import Artifact, sha256_of
from ci.package.credentials import Credentials, twine_environ

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
    """A file that is not taken or must not go out, whoever uploads it."""

    exit_code = EXIT_TEST_FAILED


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


def refuse_changed(one: Artifact) -> None:
    """Raise where a file is not what it was when it was compared with what was verified.

    Raises:
        UploadRefusedError: it has other bytes.
    """
    if (found := sha256_of(one.path)) != one.sha256:
        raise UploadRefusedError(
            f"changed since it was checked: sha256 {found}, not {one.sha256}; it was not uploaded",
            where=one.path,
            remedy="verify the file again, or restore the one that was verified",
        )


def upload_file(
    one: Artifact, url: str, credentials: Credentials, *, environ: Mapping[str, str], timeout_s: float
) -> Answer:
    """Upload a file with twine, which gets the token by its environment; return what it said."""
    lines: list[str] = []
    words: list[str | Path] = [sys.executable, "-m", "twine", "upload", "--non-interactive", "--verbose"]
    words += ["--disable-progress-bar", "--repository-url", url, one.path]
    env = twine_environ(environ, credentials, url)
    try:  # in a folder where no file could stand in for a module of twine's
        code = stream_command(words, timeout_s=timeout_s, line=lines.append, env=env, cwd=Path(os.sep))
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


def refusal(answer: Answer, what: str, *, where: str) -> SpyreCiError:
    """The error for a file that twine could not upload and the index does not have.

    Args:
        answer: of twine.
        what: what is published and what is not.
        where: the index.
    """
    told = f"{what}{answer.text}"
    if answer.status in _LOGIN:
        remedy = "check the token, its user, and that they may upload this project; then repeat the command"
        return SettingsError(told, where=where, remedy=remedy)
    if answer.doubtful or answer.status in _LATER:
        remedy = "repeat the command when the index is available: it continues where it stopped"
        return UnfinishedError(told, where=where, remedy=remedy)
    remedy = "fix what the index reports, or raise the version where the name was used before and was deleted"
    return UploadRefusedError(told, where=where, remedy=remedy)
