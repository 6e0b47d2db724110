"""The bearer token: from the environment or a file, and the embedded server's own, made on first use."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock

from ci.core.errors import SettingsError
from ci.core.secrets import checked_token, read_secret
from test_selection.files import write_text

TOKEN_VARIABLE = "SPYRE_CI_HUD_TOKEN"  # noqa: S105  # the variable's name, not a secret
TOKEN_FILE = "hud-token"  # noqa: S105  # the file's name, not a secret
WAYS = (
    f"set {TOKEN_VARIABLE}, or name a file with the token in report.token_file, or give the GitHub job "
    "`permissions: id-token: write`"
)
LOCK_TIMEOUT_S = 30
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def has_token(environ: Mapping[str, str], token_file: Path | None) -> bool:
    """Whether a token was given, be it a good one or not."""
    return bool(environ.get(TOKEN_VARIABLE, "").strip()) or token_file is not None


def find_token(
    environ: Mapping[str, str],
    token_file: Path | None,
    *,
    variable: str = TOKEN_VARIABLE,
    where: str = "report.token_file",
    remedy: str = WAYS,
) -> str:
    """The token for a configured endpoint; the environment wins over the file.

    Args:
        environ: may hold it in `variable`.
        token_file: holds it; None where no file is named.
        variable: the name of the environment's variable.
        where: the setting that names the file.
        remedy: what to do where there is none.

    Raises:
        SettingsError: there is none, or it cannot stand in a header; the message never holds it.
        MissingInputError: the file that was named is not found.
    """
    if environ.get(variable, "").strip():
        return checked_token(environ[variable], variable)
    if token_file is None:
        raise SettingsError(
            "there is no token for the endpoint",
            where=where,
            remedy=remedy,
        )
    return checked_token(read_secret(token_file, "token"), str(token_file))


def embedded_token(state_dir: Path, *, warn: Callable[[str], None]) -> str:
    """The embedded server's write token, made on first use in a file only the user can read.

    Wider permissions are taken away, and said, because whoever read the file meanwhile can still write.

    Raises:
        SettingsError: the file belongs to somebody else or does not hold a token.
    """
    path = state_dir / TOKEN_FILE
    state_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(state_dir / f".{TOKEN_FILE}.lock", timeout=LOCK_TIMEOUT_S):
        if not path.exists():
            write_text(path, secrets.token_urlsafe(32) + "\n", mode=0o600)
        _keep_private(path, warn)
        return checked_token(read_secret(path, "token"), str(path))


def _keep_private(path: Path, warn: Callable[[str], None]) -> None:
    status = path.stat()
    if status.st_uid != os.getuid():
        raise SettingsError(
            "the token file belongs to another user", where=path, remedy="remove it; a new one is made"
        )
    if status.st_mode & OTHERS:
        path.chmod(0o600)
        warn(
            f"{path}: others could read the HUD token (mode {stat.S_IMODE(status.st_mode):04o}); it is "
            "private again, remove the file to get a new one"
        )
