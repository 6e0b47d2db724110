"""Running twine for one file, and reading what it says of it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from ci.core.addresses import without_secrets
from ci.core.errors import CommandError
from ci.core.process import LAST_LINES, stream_command
from ci.core.text import plain
from ci.package.account import Said
from ci.package.credentials import Credentials, twine_environ

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
