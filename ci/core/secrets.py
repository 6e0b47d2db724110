"""Secrets that are given: read from files, and fit for a header; none is ever in a message (law 9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ci.core.errors import MissingInputError, SettingsError


def read_secret(path: Path, what: str) -> str:
    """What a file with one secret holds; `what` names it in errors.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise MissingInputError(f"there is no {what} file", where=path, remedy="check the path") from error
    except OSError as error:
        raise SettingsError(
            f"the {what} file cannot be read: {error.strerror}", where=path, remedy="check its permissions"
        ) from error


def checked_token(text: str, where: str) -> str:
    """A token without the blanks around it.

    Raises:
        SettingsError: it is empty or no header can carry it; the message never holds it.
    """
    token = text.strip()
    if not re.fullmatch(r"[\x21-\x7e]{1,8192}", token):
        raise SettingsError(
            "is empty, or contains blanks or characters no header can carry",
            where=where,
            remedy="put the bare token there, on one line",
        )
    return token


def secret(environ: Mapping[str, str], name: str, what: str) -> str:
    """The value of a variable, or of the file that NAME_FILE names.

    Args:
        environ: the environment.
        name: of the variable.
        what: it is, in errors.

    Raises:
        SettingsError: there is neither, or no header could carry it; the message never holds it.
        MissingInputError: there is no such file.
    """
    if environ.get(name, "").strip():
        return checked_token(environ[name], name)
    if file := environ.get(f"{name}_FILE", "").strip():
        return checked_token(read_secret(Path(file), what), file)
    raise SettingsError(
        f"there is no {what}", where=name, remedy=f"set {name}, or {name}_FILE to a file that contains it"
    )
