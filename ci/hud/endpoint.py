"""Where the settings send reports: the store of results here, or a server elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ci.config import Settings
from ci.config.recipient import check_address
from ci.core.errors import SettingsError
from ci.core.http import is_private
from ci.hud import oidc
from ci.hud.client import Target, callback_url
from ci.hud.token import find_token, has_token

EMBEDDED = "embedded"
NONE = "none"


def mints(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether reports go elsewhere with tokens that GitHub mints, which is how PyTorch's relay takes them."""
    remote = settings.model.report.endpoint not in {EMBEDDED, NONE}
    return remote and not has_token(environ, _file(settings)) and oidc.offered(environ)


def server_of(settings: Settings, environ: Mapping[str, str]) -> Target:
    """The server elsewhere that the settings name.

    Its token is from the environment, else from report.token_file, else one that GitHub mints for each post.
    Only a minted token, which is good for one audience, goes to an address that the settings file alone
    names.

    Raises:
        SpyreCiError: the URL or the token cannot be used.
    """
    report = settings.model.report
    url, minted = callback_url(report.endpoint), mints(settings, environ)
    shown = url.partition("?")[0]
    if minted:
        token = partial(oidc.mint, environ, audience=report.audience, repository=report.repository)
    else:
        token = partial(find_token, environ, _file(settings))
        token()  # said at once and clearly, not by every report
        check_address(settings, "report.endpoint", shown=shown)
    if minted and settings.origins.get("report.audience") == "file":
        # Else one change of the file could order a token for any party, to any address.
        check_address(
            settings, "report.endpoint", shown=shown, what="token for the audience in the settings file"
        )
    if minted:
        check_private(shown, "report.endpoint")
    return Target(
        url=url,
        repository=report.repository,
        shown=shown,
        token=token,
        timeout_s=report.timeout_s,
        minted=minted,
    )


def check_private(address: str, key: str) -> None:
    """Refuse an address to which a token would be sent that others could read.

    Raises:
        SettingsError: it is plain http to another machine.
    """
    if not is_private(address):
        raise SettingsError(
            f"{address!r} is plain http, and anyone on the network path could read the token",
            where=key,
            remedy="set it to an https URL",
        )


def _file(settings: Settings) -> Path | None:
    path = settings.model.report.token_file
    return None if path is None else settings.resolve(path)
