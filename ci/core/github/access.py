"""Where GitHub's API is and with which token: from the environment, or a file for the token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ci.core.errors import SettingsError
from ci.core.github.client import PUBLIC_API, Client, Effects
from ci.core.secrets import checked_token, read_secret

API_VARIABLE = "GITHUB_API_URL"
# Who writes, for the token of an app, which may not ask; without it such a token counts as Actions' own.
LOGIN_VARIABLE = "SPYRE_CI_GITHUB_LOGIN"
# The first that is set counts: ours is for a token that may do more than a job's own.
TOKEN_VARIABLES = ("SPYRE_CI_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")


def connect(
    environ: Mapping[str, str], *, token_file: Path | None = None, effects: Effects | None = None
) -> Client:
    """The client of this job's GitHub.

    Which API the token is shown to is said by the environment only: a file of a pull request could name
    somebody else's.

    Args:
        environ: the environment.
        token_file: file with the token, where no variable holds one.
        effects: time and chance.

    Raises:
        SettingsError: there is no token, it is none, or the address is none.
        MissingInputError: there is no such file.
    """
    return Client(
        api=environ.get(API_VARIABLE) or PUBLIC_API,
        token=find_token(environ, token_file=token_file),
        effects=effects,
        login=environ.get(LOGIN_VARIABLE) or None,
    )


def find_token(environ: Mapping[str, str], *, token_file: Path | None = None) -> str:
    """The token of the environment, else the file's.

    Raises:
        SettingsError: there is none, or it is none; the message never holds it.
        MissingInputError: there is no such file.
    """
    for name in TOKEN_VARIABLES:
        if environ.get(name, "").strip():
            return checked_token(environ[name], name)
    if token_file is not None:
        return checked_token(read_secret(token_file, "token"), str(token_file))
    raise SettingsError(
        "there is no token for GitHub",
        where=TOKEN_VARIABLES[0],
        remedy="set it; in a workflow: GITHUB_TOKEN: ${{ github.token }}",
    )
