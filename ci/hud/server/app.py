"""The HUD-compatible server, put together of what its modules add: what it takes, tells and shows.

Where there is a token for reading, machines give it as a bearer token, and people in a small form that sets a
cookie. The cookie is not the token but a value made from it, so that whoever sees it cannot write, and a new
token ends every session.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ci.hud.callback import Callback
from ci.hud.server.allow_list import OnlyRepository
from ci.hud.server.dispatch import Dispatch, add_dispatch
from ci.hud.server.document import add_document
from ci.hud.server.gate import Gate, RateLimit, same_secret
from ci.hud.server.http import HEADERS, add_error_answers, html_answer, json_answer, read_body
from ci.hud.server.pages import add_pages
from ci.hud.server.queries.jobs import count_jobs
from ci.hud.server.read_api import add_read_api
from ci.hud.server.relay import add_relay, add_strict_relay
from ci.hud.server.results import HEADER, Results, add_results
from ci.hud.server.upload_route import add_uploads
from ci.hud.token import SERVER_NAME, proof_of_token
from ci.store.row_store import RowStore, SqliteRowStore
from ci.store.store import Store
from ci.store.uploads import Uploads

RATE_LIMIT = 100

Nonce = Annotated[str, Query(max_length=128)]
LOGIN_PATH = "/login"
OPEN = frozenset({"/healthz", LOGIN_PATH})
COOKIE = "spyre_ci_hud"
COOKIE_S = 30 * 24 * 3600
FORM_BYTES = 16 * 1024
TEMPLATES = Environment(loader=PackageLoader("ci.hud.server"), autoescape=True, undefined=StrictUndefined)
Next = Annotated[str, Query(max_length=2048)]


def create_app(
    store: Store,
    *,
    token: str,
    repository: str,
    clock: Callable[[], float],
    gate: Gate | None = None,
    rows: RowStore | None = None,
) -> FastAPI:
    """The server.

    Args:
        store: keeps what comes.
        token: the write token.
        repository: owner/name the token vouches for; the body's word is never taken for it.
        clock: seconds since the epoch.
        gate: what is taken, and from whom; None: from who has the token, for the repository.
        rows: keeps rows of tests; None: the store itself.
    """
    gate = gate or Gate(
        token=token,
        repository=repository,
        levels=OnlyRepository(repository),
        limit=RateLimit(RATE_LIMIT, clock),
        clock=clock,
    )
    # The interactive docs load scripts from elsewhere; the OpenAPI document itself stays.
    app = FastAPI(title="spyre-ci HUD", docs_url=None, redoc_url=None, redirect_slashes=False)
    add_error_answers(app)
    add_access(app, gate)
    (add_strict_relay if gate.strict else add_relay)(app, store, gate)
    add_results(app, store, gate)
    add_dispatch(app, store, gate)
    uploads = Uploads(store, rows or SqliteRowStore(store.transaction))
    add_uploads(app, uploads, store, admit=gate.admit, clock=clock, folder=store.path.parent)
    _add_health(app, store, token)
    add_read_api(app, store, clock)
    add_pages(app, store, clock)
    add_document(app, Callback, Dispatch, Results, secret_header=HEADER, reads_closed=bool(gate.read_token))
    return app


def _add_health(app: FastAPI, store: Store, token: str) -> None:
    @app.get("/healthz")
    def health(nonce: Nonce = "") -> JSONResponse:
        """Whether the server and its store work; with a nonce, proof that it knows the write token."""
        told = {"ok": True, "server": SERVER_NAME, "runs": count_jobs(store.database)}
        return json_answer({**told, "proof": proof_of_token(token, nonce)} if nonce else told)


def add_access(app: FastAPI, gate: Gate) -> None:
    """Close every reading route but /healthz, where there is a token for reading."""
    if not gate.read_token:
        return
    app.add_middleware(_Closed, gate=gate)

    @app.get(LOGIN_PATH, response_class=HTMLResponse, include_in_schema=False)
    def form(next: Next = "/") -> HTMLResponse:  # noqa: A002  # the query's name
        return _form(next, wrong=False)

    @app.post(LOGIN_PATH, include_in_schema=False)
    async def enter(request: Request) -> Response:
        text = (await read_body(request, limit=FORM_BYTES)).decode("utf-8", "replace")
        try:
            fields = parse_qs(text, max_num_fields=8)
        except ValueError as error:
            raise HTTPException(400, "the form has too many fields") from error
        goes_to = fields.get("next", ["/"])[0]
        if not same_secret(fields.get("token", [""])[0].strip(), gate.read_token):
            return _form(goes_to, wrong=True)
        answer = RedirectResponse(_local(goes_to), 303, headers=HEADERS)
        answer.set_cookie(
            COOKIE,
            cookie_of(gate.read_token),
            max_age=COOKIE_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


def cookie_of(token: str) -> str:
    """What the cookie of a token's holder says."""
    return hmac.new(token.encode(), b"spyre-ci-hud reads", hashlib.sha256).hexdigest()


def may_read(gate: Gate, headers: Headers, cookies: dict[str, str]) -> bool:
    """Whether a request shows one of the two tokens, or the cookie."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    bearer = given.strip() if scheme.lower() == "bearer" else ""
    known = same_secret(bearer, gate.read_token) or same_secret(bearer, gate.token)
    return known or same_secret(cookies.get(COOKIE, ""), cookie_of(gate.read_token))


class _Closed:
    """Lets only who may read get to reading routes; writing routes see to themselves."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == "http" and scope["method"] in {"GET", "HEAD"} and scope["path"] not in OPEN
        request = Request(scope) if reads else None
        if request is None or may_read(self._gate, request.headers, request.cookies):
            await self._app(scope, receive, send)
            return
        await _refusal(request)(scope, receive, send)


def _refusal(request: Request) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        query = f"?{request.url.query}" if request.url.query else ""
        goes_to = quote(request.url.path + query, safe="/")[:2000]
        return RedirectResponse(f"{LOGIN_PATH}?next={goes_to}", 303, headers=HEADERS)
    said = {"ok": False, "error": "reading takes the token of hud.read_token, as a bearer token"}
    return json_answer(said, 401, {"WWW-Authenticate": "Bearer"})


def _local(path: str) -> str:
    # Only to a page of this server: `//host` and `/\host` are other servers to a browser.
    plain = path.isprintable() and path.isascii() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


def _form(goes_to: str, *, wrong: bool) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    page = TEMPLATES.get_template("login.html").render(goes_to=_local(goes_to), wrong=wrong, nonce=nonce)
    return html_answer(page, nonce, status=401 if wrong else 200)
