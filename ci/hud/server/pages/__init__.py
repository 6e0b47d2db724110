"""The pages. Jinja2 escapes everything, charts are inline SVG, nothing comes from elsewhere."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from ci.hud.server.pages import boards, one_run, trends
from ci.hud.server.pages.render import PageRoute
from ci.hud.server.parameters import Clock
from ci.store.store import Store


def add_pages(app: FastAPI, store: Store, clock: Clock) -> None:
    """Add every page.

    Args:
        app: the server.
        store: what the pages show.
        clock: seconds since the epoch; what is shown is of the days before it.
    """
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    for room in (boards, one_run, trends):
        room.add_routes(router, store.database, clock)
    app.include_router(router)
