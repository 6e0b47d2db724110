"""The HUD-compatible server, put together of what its modules add: what it takes, tells and shows."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from ci.hud.server.allow_list import AllowList
from ci.hud.server.auth import RATE_LIMIT, Auth, RateLimit
from ci.hud.server.http import Refusal, add_error_answers, json_answer
from ci.hud.server.login import add_login
from ci.hud.server.pages import add_pages
from ci.hud.server.queries.jobs import count_jobs
from ci.hud.server.read_api import add_read_api
from ci.hud.server.relay import add_relay
from ci.hud.server.results import add_results
from ci.hud.server.upload_route import add_uploads
from ci.store.row_store import RowStore, SqliteRowStore
from ci.store.store import Store
from ci.store.uploads import Uploads


def create_app(
    store: Store,
    *,
    token: str,
    repository: str,
    clock: Callable[[], float],
    auth: Auth | None = None,
    rows: RowStore | None = None,
) -> FastAPI:
    """The server.

    Args:
        store: keeps what comes.
        token: the write token.
        repository: owner/name the token vouches for; the body's word is never taken for it.
        clock: seconds since the epoch.
        auth: whose requests are taken; None: of who has the token, for the repository.
        rows: keeps rows of tests; None: the store itself.
    """
    auth = auth or Auth(
        token=token,
        repository=repository,
        allow_list=AllowList(only=repository),
        limit=RateLimit(RATE_LIMIT, clock),
    )
    # The interactive docs load scripts from elsewhere; the OpenAPI document itself stays.
    app = FastAPI(
        title="spyre-ci HUD",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={
            "4XX": {"model": Refusal, "description": "it is not taken, and why"},
            503: {"model": Refusal, "description": "the store, or an issuer of tokens, cannot be reached"},
        },
    )
    add_error_answers(app)
    add_login(app, auth)
    add_relay(app, store, auth, clock)
    add_results(app, store, auth, clock)
    add_uploads(app, Uploads(store, rows or SqliteRowStore(store.transaction)), store, auth, clock)

    @app.get("/healthz")
    def health() -> JSONResponse:
        """Whether the server and its store work."""
        return json_answer({"ok": True, "server": "spyre-ci-hud", "runs": count_jobs(store.database)})

    add_read_api(app, store, clock)
    add_pages(app, store, clock)
    return app
