"""A HUD server on a loopback port, for the length of a block."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from fastapi import FastAPI

from ci.hud.server.allow_list import AllowList
from ci.hud.server.app import create_app as app_of
from ci.hud.server.auth import Auth, RateLimit
from ci.hud.server.serve import listen, uvicorn_server
from ci.store.row_store import SqliteRowStore
from ci.store.store import Store

START_TIMEOUT_S = 15
STOP_TIMEOUT_S = 10
# As the settings have it.
RATE_LIMIT = 100


def create_app(
    store: Store,
    *,
    token: str,
    repository: str,
    clock: Callable[[], float],
    limit: int = RATE_LIMIT,
    ingest_token: str = "",
) -> FastAPI:
    """The server of a store, which takes the reports of one repository, so many a minute."""
    auth = Auth(
        token=token,
        repository=repository,
        allow_list=AllowList(only=repository),
        limit=RateLimit(limit, clock),
        ingest_token=ingest_token,
    )
    return app_of(store, SqliteRowStore(store.transaction), auth, clock)


@contextlib.contextmanager
def embedded(app: FastAPI) -> Iterator[str]:
    """Serve on a free port; gives the base URL."""
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn_server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not server.started:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(STOP_TIMEOUT_S)
