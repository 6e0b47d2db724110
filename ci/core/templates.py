"""The template engine of every page: it escapes all text, and lets no control character through."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ci.core.text import clean, one_line

# A page that is opened from a file shows itself: it runs nothing, asks for nothing and sends nothing.
_FILE_POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")


def harmless_environment(package: str) -> Environment:
    """The engine for a package's `templates`, with the filters `line` and `number`; names must be defined.

    `file_policy` is the Content-Security-Policy of a page that is opened from a file.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["file_policy"] = _FILE_POLICY
    environment.filters |= {"line": one_line, "number": lambda number: f"{number:,}"}
    return environment


def _harmless(value: Any) -> Any:
    """Every text a template prints, without control characters; what is markup already stays."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
