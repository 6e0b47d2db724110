"""Asking an ASGI application for a page without a socket."""

from __future__ import annotations

from starlette.types import ASGIApp, Message

from ci.errors import SpyreCiError

REFUSED = 500


async def ask(app: ASGIApp, path: str, query: str) -> str:
    """The page under an address, a refusal's page too.

    Args:
        app: the server.
        path: of the address.
        query: of the address, encoded.

    Raises:
        SpyreCiError: the server failed.
    """
    body, status = bytearray(), 0

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"export"), (b"accept", b"text/html")],
        "client": None,
        "server": None,
    }
    await app(scope, receive, send)
    if not 0 < status < REFUSED:
        raise SpyreCiError(
            f"the page {path}?{query[:200]} cannot be made: the server answers {status}, "
            f"{bytes(body[:200]).decode('utf-8', 'replace')}",
            remedy="export again; where it stays, check the store: `spyre-ci hud backup FILE`",
        )
    return body.decode("utf-8", "replace")
