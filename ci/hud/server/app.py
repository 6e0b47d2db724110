"""The HUD-compatible server, put together of what its modules add: what it takes, tells and shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from ci.hud.callback import Callback
from ci.hud.server.access import add_access
from ci.hud.server.allow_list import OnlyRepository
from ci.hud.server.dispatch import Dispatch, add_dispatch
from ci.hud.server.document import add_document
from ci.hud.server.gate import Gate
from ci.hud.server.http import add_error_answers, json_answer
from ci.hud.server.pages import add_pages
from ci.hud.server.proof import SERVER_NAME, proof_of_token
from ci.hud.server.queries.jobs import count_jobs
from ci.hud.server.rate_limit import RateLimit
from ci.hud.server.read_api import add_read_api
from ci.hud.server.relay import add_relay
from ci.hud.server.results import HEADER, Results, add_results
from ci.hud.server.row_store import RowStore, SqliteRowStore
from ci.hud.server.store import Store
from ci.hud.server.strict_relay import add_strict_relay
from ci.hud.server.upload_route import add_uploads
from ci.hud.server.uploads import Uploads

RATE_LIMIT = 100

Nonce = Annotated[str, Query(max_length=128)]


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
