"""Whom a token may be sent to: a committed file names addresses, and whoever may change it is not trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from ci.config.explain import variable_of
from ci.config.load import Settings
from ci.core.addresses import host_of, shown
from ci.core.errors import SettingsError

# A committed file says where tokens go, and whoever may change it could have them sent to himself.
TRUSTED = "SPYRE_CI_TRUSTED_HOSTS"
_PUBLIC = "api.github.com"


def check_recipient(environ: Mapping[str, str], address: str, what: str) -> None:
    """A token is sent to github.com, and where whoever keeps the tokens said.

    Raises:
        SettingsError: the environment does not name the host.
    """
    host = host_of(address)
    if urlsplit(address).scheme == "https" and host == _PUBLIC:
        return
    if host not in {one.lower() for one in re.split(r"[\s,]+", environ.get(TRUSTED, "")) if one}:
        raise SettingsError(
            f"the {what} is not sent to {shown(address)}: that address is of a file which a pull request can "
            "change",
            where=TRUSTED,
            remedy=f"name the host in the environment as well: {TRUSTED}={host}",
        )


def check_address(settings: Settings, key: str, *, shown: str, what: str = "token") -> None:
    """A secret is sent only where whoever keeps secrets said, which is not the settings file.

    Whoever may change a committed file would be told the secret, or what any other file holds.

    Args:
        settings: say where to.
        key: of the setting that names the address.
        shown: the address, for people.
        what: would be sent, in errors.

    Raises:
        SettingsError: the address is that of the settings file.
    """
    if settings.origins.get(key) == "file":
        raise SettingsError(
            f"the {what} is not sent to {shown}: the address is that of the settings file, which a pull "
            "request can change",
            where=key,
            remedy=f"give the address in the environment as well, as {variable_of(key)}",
        )
