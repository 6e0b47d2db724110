"""Where the settings send reports: a server elsewhere, or the store of results here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.config import Settings
from ci.config.recipient import check_address
from ci.core.errors import SettingsError
from ci.core.http import is_private
from ci.hud import oidc
from ci.hud.client import Target, callback_url
from ci.hud.token import find_token, has_token
from ci.report.store import Kept, open_kept

EMBEDDED = "embedded"
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint that is ready for reports.

    Attributes:
        target: what the client needs.
        shown: its name for people; a query, which may hold a secret, is left out.
        store: of the embedded one, which reports are written into; None: they are posted.
    """

    target: Target
    shown: str
    store: Kept | None = None


@contextlib.contextmanager
def open_endpoint(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], None],
) -> Iterator[Endpoint]:
    """The endpoint of the settings.

    Reports to a server elsewhere have a token: from the environment, else from report.token_file, else one
    that GitHub mints for each post. Only a minted token, which is good for one audience, goes to an address
    that the settings file alone names.

    Raises:
        SpyreCiError: the URL, the token or the embedded store cannot be used, or there is no endpoint.
    """
    configured = settings.model.report.endpoint
    if configured == NONE:
        raise SettingsError(
            "results are not reported anywhere",
            where="report.endpoint",
            remedy="set it to `embedded` or to a server's URL",
        )
    if configured != EMBEDDED:
        yield _remote(settings, environ)
        return
    with open_kept(settings, environ, warn=warn) as store:
        yield Endpoint(target=_target(settings, "", lambda: ""), shown=EMBEDDED, store=store)


def mints(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether reports go elsewhere with tokens that GitHub mints, which is how PyTorch's relay takes them."""
    remote = settings.model.report.endpoint not in {EMBEDDED, NONE}
    return remote and not has_token(environ, _file(settings)) and oidc.offered(environ)


def _remote(settings: Settings, environ: Mapping[str, str]) -> Endpoint:
    report = settings.model.report
    url, file = callback_url(report.endpoint), _file(settings)
    shown = url.partition("?")[0]
    if not mints(settings, environ):
        find_token(environ, file)  # said at once and clearly, not by every report
        check_address(settings, "report.endpoint", shown=shown)
        return Endpoint(target=_target(settings, url, lambda: find_token(environ, file)), shown=shown)
    if settings.origins.get("report.audience") == "file":
        # Else one change of the file could order a token for any party, to any address.
        check_address(settings, "report.endpoint", shown=shown, what="token for an audience of the file")
    if not is_private(url):
        raise SettingsError(
            f"{shown!r} is plain http, and a token minted for it could be read on the way",
            where="report.endpoint",
            remedy="set it to an https URL",
        )

    def token() -> str:
        return oidc.mint(environ, audience=report.audience, repository=report.repository)

    return Endpoint(target=_target(settings, url, token, minted=True), shown=shown)


def _file(settings: Settings) -> Path | None:
    path = settings.model.report.token_file
    return None if path is None else settings.resolve(path)


def _target(settings: Settings, url: str, token: Callable[[], str], *, minted: bool = False) -> Target:
    report = settings.model.report
    return Target(
        url=url, repository=report.repository, token=token, timeout_s=report.timeout_s, minted=minted
    )
