"""The read API: what the pages show, as JSON. `add_read_api` adds its routes."""

from ci.hud.server.read_api.routes import add_read_api

__all__ = ["add_read_api"]
