"""Who may publish: a token; and whom it is sent to (law 9)."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from ci.config import Settings
from ci.config.explain import variable_of
from ci.config.package_model import PYPI, TESTPYPI, Index
from ci.core.addresses import is_loopback
from ci.core.errors import SettingsError
from ci.core.provider import in_log
from ci.core.secrets import checked_token, read_secret
from ci.core.withheld import without_job_secrets

TOKEN_VARIABLE = "SPYRE_CI_INDEX_TOKEN"  # noqa: S105  # the variable's name, not a secret
_CERTIFICATES = "TWINE_CERT"
# As many as Linux follows.
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What an upload is allowed by: a user and its token."""

    user: str
    token: str

    def hidden_in(self, text: str) -> str:
        """The text, without the token should it be in it, as it is or as a header or an address has it."""
        header = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        for secret in (header, header.rstrip("="), self.token, quote(self.token, safe="")):
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


def find_credentials(
    settings: Settings, name: str, index: Index, environ: Mapping[str, str], *, checkout: Path
) -> Credentials:
    """The token of the environment, else of `token_file`.

    Args:
        settings: say where the index is.
        name: of the index.
        index: as the settings have it.
        environ: may hold a token.
        checkout: of the project; what is in it a pull request can change.

    Raises:
        SettingsError: there is none, it cannot stand in a header, or it would go to an address that a pull
            request can change.
        MissingInputError: the file that was named is not there.
    """
    if given := environ.get(TOKEN_VARIABLE, "").strip():
        token = checked_token(given, TOKEN_VARIABLE)
    elif index.token_file is not None:
        file = settings.resolve(index.token_file)
        token = checked_token(read_secret(file, "token"), str(file))
    else:
        raise SettingsError(
            f"there is no token for {name}",
            where=TOKEN_VARIABLE,
            remedy=f"set {TOKEN_VARIABLE}, or name its file in package.indexes.{name}.token_file; "
            "a GitHub workflow uploads with pypa/gh-action-pypi-publish, as release.yml does",
        )
    check_recipient(settings, name, index, environ, checkout=checkout)
    return Credentials(user=index.user, token=token)


def check_recipient(
    settings: Settings, name: str, index: Index, environ: Mapping[str, str], *, checkout: Path
) -> None:
    """A token is sent only where whoever keeps tokens said, or to this machine where no CI runs.

    Whoever may change a committed file would be told the token, or what any other file holds; in a CI a
    process of a pull request's could listen on this machine, too. PyPI's address is not one of the settings;
    a settings file that is in no working tree of Git's, named by --config, is no pull request's.

    Raises:
        SettingsError: the address is that of a settings file in the checkout, or in any working tree.
    """
    is_here = is_loopback(urlsplit(index.upload).hostname or "") and not in_log(environ)
    if name in {PYPI, TESTPYPI} or is_here:
        return
    key = f"package.indexes.{name}.upload"
    if settings.origins.get(key, "file") == "file" and _is_committed(settings.path, checkout):
        raise SettingsError(
            f"the token is not sent to {index.upload}: the address is that of the settings file, which a "
            "pull request can change",
            where=key,
            remedy=f"give the address in the environment as well, as {variable_of(key)}; or name a settings "
            "file that is in no Git repository with --config",
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


def _is_committed(path: Path | None, checkout: Path) -> bool:
    """Whether a pull request can change what a settings file says: of this project, or of any other.

    A link in a working tree is the pull request's, wherever it leads; and so is a file there, whatever leads
    to it.
    """
    if path is None:
        return True
    roots = {checkout.resolve(), _as_named(checkout)}
    return any(
        _is_in_working_tree(place) or any(place.is_relative_to(root) for root in roots)
        for place in _places(path)
    )


def _places(path: Path) -> set[Path]:
    """Where a file is: as it is named, where each link on the way leads, and where it is at last."""
    found = {path.resolve(), _as_named(path)}
    for _ in range(_MOST_LINKS):
        path = path.parent.resolve() / path.name
        found.add(path)
        if not path.is_symlink():
            break
        path = _as_named(path.parent / path.readlink())
        found.add(path)
    return found


def _as_named(path: Path) -> Path:
    """A path made absolute, with no link followed."""
    return Path(os.path.normpath(path.absolute()))


def _is_in_working_tree(path: Path) -> bool:
    """Whether a file is in any repository, submodule or worktree; the path is absolute."""
    return any(os.path.lexists(one / ".git") for one in path.parents)
