"""Secrets by the name of a variable, from the environment or a file; and whom they may be sent to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ci.addresses import shown
from ci.config.secret import checked_token, read_secret
from ci.errors import SettingsError
from ci.webhooks.model import GITHUB_API
from ci.webhooks.urls import host_of

# A committed file says where tokens go, and whoever may change it could have them sent to himself.
TRUSTED = "SPYRE_CI_TRUSTED_HOSTS"
# GitHub signs with whatever it is given; of this length nobody finds it out by trying.
LEAST_SECRET = 16


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
        f"there is no {what}", where=name, remedy=f"set {name}, or {name}_FILE to a file that holds it"
    )


def hook_secret(environ: Mapping[str, str], name: str) -> str:
    """The secret of a webhook, or a token that starts jobs.

    Raises:
        SettingsError: there is none, or one so short that trying finds it out.
        MissingInputError: the file that was named is not there.
    """
    value = secret(environ, name, "secret of the webhook")
    if len(value) < LEAST_SECRET:
        raise SettingsError(
            f"the webhook's secret has fewer than {LEAST_SECRET} characters",
            where=name,
            remedy="make a longer one, such as by `openssl rand -hex 32`, and give it to Jenkins as well",
        )
    return value


def check_recipient(environ: Mapping[str, str], address: str, what: str) -> None:
    """A token is sent to github.com, and where whoever keeps the tokens said.

    Raises:
        SettingsError: the environment does not name the host.
    """
    host = host_of(address)
    if urlsplit(address).scheme == "https" and host == host_of(GITHUB_API):
        return
    if host not in {one.lower() for one in re.split(r"[\s,]+", environ.get(TRUSTED, "")) if one}:
        raise SettingsError(
            f"the {what} is not sent to {shown(address)}: that address is of a file which a pull request can "
            "change",
            where=TRUSTED,
            remedy=f"name the host in the environment as well: {TRUSTED}={host}",
        )
