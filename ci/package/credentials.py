"""Who may publish: a token; and whom it is sent to (law 9)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from ci.config import Settings
from ci.config.explain import variable_of
from ci.config.package_model import PYPI, TESTPYPI, Index
from ci.core.addresses import is_loopback
from ci.core.errors import SettingsError
from ci.core.provider import in_log
from ci.core.secrets import checked_token, read_secret, secret
from ci.core.withheld import without_job_secrets

TOKEN_VARIABLE = "SPYRE_CI_INDEX_TOKEN"  # noqa: S105  # the variable's name, not a secret
_CERTIFICATES = "TWINE_CERT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What an upload is allowed by: a user and its token."""

    user: str
    token: str = field(repr=False)

    def hidden_in(self, text: str) -> str:
        """The text, without the token should it be in it, as it is or as a header or an address has it."""
        header = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        for shown in (header, header.rstrip("="), self.token, quote(self.token, safe="")):
            text = text.replace(shown, "***")
        return text


def find_credentials(settings: Settings, name: str, index: Index, environ: Mapping[str, str]) -> Credentials:
    """The token of the environment, else of `token_file`.

    Args:
        settings: say where the index is.
        name: of the index.
        index: as the settings have it.
        environ: may hold a token, or name a file with it.

    Raises:
        SettingsError: there is none, it cannot stand in a header, or it would go to an address that a pull
            request can change.
        MissingInputError: the file that was named is not found.
    """
    if index.token_file is not None and not environ.get(TOKEN_VARIABLE, "").strip():
        file = settings.resolve(index.token_file)
        token = checked_token(read_secret(file, "token"), str(file))
    else:
        token = secret(environ, TOKEN_VARIABLE, f"token for {name}")
    check_recipient(settings, name, index, environ)
    return Credentials(user=index.user, token=token)


def check_recipient(settings: Settings, name: str, index: Index, environ: Mapping[str, str]) -> None:
    """Refuse to send a token to an address that stands in a settings file alone.

    Whoever may change a committed file would be told the token, or what any other file holds; in a CI a
    process of a pull request's could listen on this machine, too. PyPI's address is not one of the settings.

    Raises:
        SettingsError: the address is that of a settings file.
    """
    is_here = is_loopback(urlsplit(index.upload).hostname or "") and not in_log(environ)
    key = f"package.indexes.{name}.upload"
    if name in {PYPI, TESTPYPI} or is_here or settings.origins.get(key, "file") != "file":
        return
    raise SettingsError(
        f"the token is not sent to {index.upload}: the address is that of the settings file, which a pull "
        "request can change",
        where=key,
        remedy=f"give the address in the environment as well, as {variable_of(key)}",
    )


def twine_environ(environ: Mapping[str, str], credentials: Credentials, url: str) -> dict[str, str]:
    """What twine sees: the token, and nothing else that could say whom to upload as.

    Args:
        environ: this process's.
        credentials: what it uploads with.
        url: where to.
    """
    made = without_job_secrets(environ)
    # Of the job's secrets twine is given the one that it needs.
    made |= {"COLUMNS": "1000", "LINES": "50", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    made["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    made |= {"TWINE_USERNAME": credentials.user, "TWINE_PASSWORD": credentials.token}
    if _CERTIFICATES in environ:
        made[_CERTIFICATES] = environ[_CERTIFICATES]
    return past_proxies(made, url)


def past_proxies(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment, in which this machine's own servers are not asked through a proxy."""
    host = urlsplit(url).hostname or ""
    if not is_loopback(host):
        return dict(environ)
    known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    value = ",".join(filter(None, [known, host]))
    return {**environ, "no_proxy": value, "NO_PROXY": value}
