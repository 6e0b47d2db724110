"""Reading behind a token: machines give it as a bearer token, people in a form that sets a cookie."""

from __future__ import annotations

import secrets
from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.types import ASGIApp, Receive, Scope, Send

from ci.hud.server.auth import COOKIE, Auth, same_secret
from ci.hud.server.http import CHALLENGE, HEADERS, html_answer, json_answer, read_body

LOGIN_PATH = "/login"
OPEN = frozenset({"/healthz", LOGIN_PATH})
COOKIE_S = 30 * 24 * 3600
FORM_BYTES = 16 * 1024
TEMPLATES = Environment(loader=PackageLoader("ci.hud.server"), autoescape=True, undefined=StrictUndefined)
Next = Annotated[str, Query(max_length=2048)]


def add_login(app: FastAPI, auth: Auth) -> None:
    """Close every reading route but /healthz, where there is a token for reading."""
    if not auth.read_token:
        return
    app.add_middleware(_Closed, auth=auth)

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
        if not same_secret(fields.get("token", [""])[0].strip(), auth.read_token):
            return _form(goes_to, wrong=True)
        answer = RedirectResponse(_local(goes_to), 303, headers=HEADERS)
        answer.set_cookie(
            COOKIE,
            auth.cookie,
            max_age=COOKIE_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


class _Closed:
    """Lets only who may read get to reading routes; writing routes see to themselves."""

    def __init__(self, app: ASGIApp, auth: Auth) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == "http" and scope["method"] in {"GET", "HEAD"} and scope["path"] not in OPEN
        request = Request(scope) if reads else None
        if request is None or self._auth.may_read(request):
            await self._app(scope, receive, send)
        else:
            await _refusal(request)(scope, receive, send)


def _refusal(request: Request) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        query = f"?{request.url.query}" if request.url.query else ""
        goes_to = quote(request.url.path + query, safe="/")[:2000]
        return RedirectResponse(f"{LOGIN_PATH}?next={goes_to}", 303, headers=HEADERS)
    said = {"ok": False, "error": "reading requires the token of hud.read_token as a bearer token"}
    return json_answer(said, 401, CHALLENGE)


def _local(path: str) -> str:
    # Only to a page of this server: `//host` and `/\host` are other servers to a browser.
    plain = path.isprintable() and path.isascii() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


def _form(goes_to: str, *, wrong: bool) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    page = TEMPLATES.get_template("login.html").render(goes_to=_local(goes_to), wrong=wrong, nonce=nonce)
    return html_answer(page, nonce, status=401 if wrong else 200)
