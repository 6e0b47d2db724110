"""The HUD-compatible server, put together of what its modules add: what it takes, tells and shows."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from ci.hud.server.auth import Auth
from ci.hud.server.http import Refusal, add_error_answers, json_answer
from ci.hud.server.login import add_login
from ci.hud.server.pages import add_pages
from ci.hud.server.queries.jobs import count_jobs
from ci.hud.server.read_api import add_read_api
from ci.hud.server.relay import add_relay
from ci.hud.server.results import add_results
from ci.hud.server.upload_route import add_uploads
from ci.store.row_store import RowStore
from ci.store.store import Store
from ci.store.uploads import Uploads


def create_app(store: Store, rows: RowStore, auth: Auth, clock: Callable[[], float]) -> FastAPI:
    """The server.

    Args:
        store: keeps what comes.
        rows: keeps rows of tests.
        auth: whose requests are taken.
        clock: seconds since the epoch.
    """
    # The interactive docs load scripts from elsewhere; the OpenAPI document itself stays.
    app = FastAPI(
        title="spyre-ci HUD",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={
            "4XX": {"model": Refusal, "description": "the request was refused, and why"},
            503: {"model": Refusal, "description": "the store or an issuer of tokens cannot be reached"},
        },
    )
    add_error_answers(app)
    add_login(app, auth)
    add_relay(app, store, auth, clock)
    add_results(app, store, auth, clock)
    add_uploads(app, Uploads(store, rows), store, auth, clock)

    @app.get("/healthz")
    def health() -> JSONResponse:
        """Whether the server and its store work."""
        return json_answer({"ok": True, "server": "spyre-ci-hud", "runs": count_jobs(store.database)})

    add_read_api(app, store, clock)
    add_pages(app, store, clock)
    return app
