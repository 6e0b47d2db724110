"""Where the settings send reports: a server of its own, or the embedded one for the length of a block."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import requests

from ci.config import Settings
from ci.config.recipient import check_address
from ci.core.errors import SettingsError
from ci.core.http import is_private
from ci.hud import oidc
from ci.hud.client import CALLBACK_PATH, Target, callback_url
from ci.hud.hmac_auth import HmacAuth
from ci.hud.opening import open_server, own_token
from ci.hud.throttle import Throttle, shared_throttle
from ci.hud.token import SERVER_NAME, find_token, has_token, proof_of_token

EMBEDDED = "embedded"
NONE = "none"
SECRET_VARIABLE = "SPYRE_CI_HUD_HMAC_SECRET"  # noqa: S105  # the variable's name, not a secret
PROBE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint that is ready for reports.

    Attributes:
        target: what the client needs.
        shown: its name for people; a query, which may hold a secret, is left out.
        page: the page of runs, where a server stays up to show it.
        throttle: what all who post there share; None: nobody counts.
    """

    target: Target
    shown: str
    page: str = ""
    throttle: Throttle | None = None


@contextlib.contextmanager
def open_endpoint(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    clock: Callable[[], float],
    warn: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Endpoint]:
    """The endpoint of the settings.

    Reports to a server elsewhere are signed where report.hmac.name is set. Else they have a token: from the
    environment, else from report.token_file, else one that GitHub mints for each post. Only a minted token,
    which is good for one audience, and a signature go to an address that the settings file alone names.

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
        yield _remote(settings, environ, clock=clock, sleep=sleep)
        return
    token = own_token(settings, warn=warn)
    running = _running_server(settings, token)
    if running:
        target = _target(settings, running + CALLBACK_PATH, lambda: token)
        yield Endpoint(target=target, shown=EMBEDDED, page=f"{running}/")
        return
    from ci.hud.server.serve import embedded  # noqa: PLC0415  # as in `open_server`

    with open_server(settings, environ, clock=clock, warn=warn) as server, embedded(server.app) as url:
        yield Endpoint(target=_target(settings, url + CALLBACK_PATH, lambda: token), shown=EMBEDDED)


def _remote(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Endpoint:
    report = settings.model.report
    url = callback_url(report.endpoint)
    folder = None if report.post_times is None else settings.resolve(report.post_times)
    shown = url.partition("?")[0]
    return Endpoint(
        target=(
            _signed_target(settings, environ, url, clock)
            if report.hmac.name
            else _remote_target(settings, environ, url, sleep)
        ),
        shown=shown,
        throttle=shared_throttle(shown, report.repository, folder),
    )


def _signed_target(
    settings: Settings, environ: Mapping[str, str], url: str, clock: Callable[[], float]
) -> Target:
    wanted = settings.model.report.hmac
    file = _file(settings, wanted.secret_file)

    def secret() -> str:
        return find_token(
            environ,
            file,
            variable=SECRET_VARIABLE,
            where="report.hmac.secret_file",
            remedy=f"set {SECRET_VARIABLE}, or name a file with the secret",
            what="secret",
        )

    secret()  # said at once and clearly, as a token's lack is
    target = _target(settings, url, secret)
    return replace(target, auth=lambda key: HmacAuth(wanted.name, lambda: key, clock=clock))


def _remote_target(
    settings: Settings,
    environ: Mapping[str, str],
    url: str,
    sleep: Callable[[float], None],
) -> Target:
    file, shown = _file(settings, settings.model.report.token_file), url.partition("?")[0]
    if has_token(environ, file) or not oidc.offered(environ):
        find_token(environ, file)  # said at once and clearly, not by every report
        check_address(settings, "report.endpoint", shown=shown)
        return _target(settings, url, lambda: find_token(environ, file))
    if settings.origins.get("report.audience") == "file":
        # Else one change of the file could order a token for any party, to any address.
        check_address(settings, "report.endpoint", shown=shown, what="token for an audience of the file")
    if not is_private(url):
        raise SettingsError(
            f"{shown!r} is plain http, and a token minted for it could be read on the way",
            where="report.endpoint",
            remedy="set it to an https URL",
        )
    audience = settings.model.report.audience
    target = _target(
        settings, url, lambda: oidc.mint(environ, audience=audience, sleep=sleep, rng=random.random)
    )
    return replace(target, minted=True)


def _running_server(settings: Settings, token: str) -> str:
    """The base URL of our own server on the configured port, else nothing.

    Anybody on the machine may listen there, so it has to show that it knows the token before it is sent one.
    """
    hud = settings.model.hud
    if hud.port == 0:
        return ""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(hud.host, hud.host)  # noqa: S104  # asked, not bound
    base = f"http://[{host}]:{hud.port}" if ":" in host else f"http://{host}:{hud.port}"
    nonce = secrets.token_urlsafe(16)
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(
                f"{base}/healthz", params={"nonce": nonce}, timeout=PROBE_TIMEOUT_S, allow_redirects=False
            )
            told = answer.json()
        proof, server = str(told["proof"]), told["server"]
    except (requests.RequestException, OSError, ValueError, KeyError, TypeError):
        return ""
    known = server == SERVER_NAME and secrets.compare_digest(
        proof.encode("utf-8", "replace"), proof_of_token(token, nonce).encode()
    )
    return base if known else ""


def _file(settings: Settings, path: Path | None) -> Path | None:
    return None if path is None else settings.resolve(path)


def _target(settings: Settings, url: str, token: Callable[[], str]) -> Target:
    report = settings.model.report
    return Target(url=url, repository=report.repository, token=token, timeout_s=report.timeout_s)
