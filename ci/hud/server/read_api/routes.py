"""The routes of the read API, under `/api`."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI

from ci.hud.server.read_api.hud import add_hud_routes
from ci.hud.server.read_api.over_time import add_routes_over_time
from ci.hud.server.read_api.parameters import Clock, plain_headers
from ci.hud.server.read_api.runs import add_run_routes
from ci.hud.server.store import Store


def add_read_api(app: FastAPI, store: Store, clock: Clock) -> None:
    """Add every route that reads.

    Args:
        app: the server.
        store: what is read.
        clock: seconds since the epoch; windows of days end there.
    """
    router = APIRouter(prefix="/api", dependencies=[Depends(plain_headers)])
    add_hud_routes(router, store.database, clock)
    add_run_routes(router, store.database)
    add_routes_over_time(router, store.database, clock)
    app.include_router(router)
