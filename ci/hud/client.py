"""Posting one report to a HUD-compatible endpoint, and reading what its answer means."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ci.core.addresses import safe_line
from ci.core.errors import SettingsError, SpyreCiError
from ci.core.http import is_private
from ci.core.text import one_line
from ci.hud.answers import Answer, Outcome, classify
from ci.hud.callback import NIGHTLY_EVENTS
from ci.hud.oidc import TokenUnavailableError
from ci.hud.payload import encode
from ci.hud.wire import NoReplyError, exchange

CALLBACK_PATH = "/github/callback"
DISPATCH_PATH = "/api/dispatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where reports go.

    Attributes:
        url: of the callback.
        repository: owner/name the results are reported for.
        token: gives the token just before each post, so that it may be short-lived.
        timeout_s: of one request, its answer included.
        minted: whether each call of `token` makes a fresh one, so that a refused one is worth another.
    """

    url: str
    repository: str
    token: Callable[[], str] = field(repr=False)
    timeout_s: float = 60
    minted: bool = False


def callback_url(endpoint: str) -> str:
    """The URL reports are posted to: `endpoint`, with the relay's path where it has none.

    The relay answers 404 to a trailing slash, so there is never one.

    Raises:
        SettingsError: it is no http(s) URL with a host, or holds a user name or password.
    """
    remedy = "set it to `embedded`, `none` or a URL such as https://hud.example.org"
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"{endpoint!r} is no http(s) URL", where="report.endpoint", remedy=remedy)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "the URL holds a user name or password",
            where="report.endpoint",
            remedy="give the token in SPYRE_CI_HUD_TOKEN or report.token_file instead",
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or CALLBACK_PATH, parts.query, ""))


def sends_token_in_clear(url: str) -> bool:
    """Whether whoever listens on the way can read the token: plain http to another machine."""
    return not is_private(url)


def post(payload: Mapping[str, Any], target: Target, *, doubtful: bool = False) -> Answer:
    """Send one report once. Delivery problems are answers, never exceptions.

    Args:
        payload: the callback's body.
        target: where it goes.
        doubtful: whether an earlier attempt may have been taken although no 200 came.
    """
    try:
        token = target.token()
    except TokenUnavailableError as error:
        return Answer(outcome=Outcome.RETRY, status=None, detail=one_line(str(error)))
    except SpyreCiError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        return Answer(
            outcome=Outcome.UNAUTHORIZED, status=None, detail=one_line(what), remedy=error.remedy or ""
        )
    try:
        reply = exchange(
            "POST",
            target.url,
            token=token,
            timeout_s=target.timeout_s,
            data=encode(payload),
            headers={"Content-Type": "application/json"},
        )
    except NoReplyError as error:
        return no_reply(error, token)
    except ValueError as error:
        return _failed(Outcome.REFUSED, f"cannot be sent: {error}", token)
    return classify(
        reply.status,
        reply.body,
        retry_after=reply.headers.get("retry-after"),
        nightly=payload.get("event_type") in NIGHTLY_EVENTS,
        doubtful=doubtful,
        begins=payload["workflow"]["status"] == "in_progress",
        secret=token,
    )


def note_dispatch(delivery_id: str, target: Target) -> None:
    """Tell a server of our own that a job was dispatched, so that it takes the job's callbacks.

    The relay knows by itself. Where the server does not take it, its answer to the callback says why.

    Args:
        delivery_id: as the relay dispatched it.
        target: the server, which has to know its token as the one of whoever starts jobs.
    """
    if CALLBACK_PATH not in target.url:
        return
    body = json.dumps({"delivery_id": delivery_id, "repository": target.repository}).encode()
    with contextlib.suppress(SpyreCiError, NoReplyError):
        exchange(
            "POST",
            own_route(target, DISPATCH_PATH),
            token=target.token(),
            timeout_s=target.timeout_s,
            data=body,
            headers={"Content-Type": "application/json"},
        )


def own_route(target: Target, path: str) -> str:
    """The URL of another route of a server of our own, beside its callback's.

    Args:
        target: the server; what stands before the callback's path stays, a query does not.
        path: of the route.
    """
    parts = urlsplit(target.url)
    before, callback, _ = parts.path.partition(CALLBACK_PATH)
    return urlunsplit((parts.scheme, parts.netloc, (before if callback else "") + path, "", ""))


def no_reply(error: NoReplyError, token: str) -> Answer:
    """What a request without a whole answer means; the token is in no word of it."""
    said = {
        "untrusted": "the server's certificate cannot be trusted",
        "unreachable": "no connection",
        "cut": "no whole answer",
        "unsendable": "cannot be sent",
    }[error.fault]
    outcome = Outcome.RETRY if error.fault in {"unreachable", "cut"} else Outcome.REFUSED
    return _failed(outcome, f"{said}: {error}", token, doubtful=error.fault == "cut")


def _failed(outcome: Outcome, detail: str, token: str, *, doubtful: bool = False) -> Answer:
    return Answer(
        outcome=outcome,
        status=None,
        detail=safe_line(detail.replace(token, "***")),
        doubtful=doubtful,
    )
