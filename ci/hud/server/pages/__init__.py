"""The pages. Jinja2 escapes everything, charts are inline SVG, nothing comes from elsewhere."""

from ci.hud.server.pages.routes import add_pages

__all__ = ["add_pages"]
