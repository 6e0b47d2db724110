"""From values to an answer: templates, the policy of a page, and pages that say what was wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment

from ci.core.templates import harmless_environment
from ci.core.text import counted
from ci.hud.server.http import html_answer
from ci.hud.server.pages import words

NAVIGATION = (
    ("/", "Summary"),
    ("/grid", "Grid"),
    ("/runs", "Runs"),
    ("/tests", "Tests"),
    ("/durations", "Durations"),
    ("/cards", "Cards"),
    ("/rollout", "Roll-out"),
    ("/metrics", "Metrics"),
)


def _environment() -> Environment:
    environment = harmless_environment("ci.hud.server")
    environment.filters |= {
        "duration": words.duration,
        "when": words.time_text,
        "day": lambda text: words.time_text(text, "%Y-%m-%d"),
        "minute": lambda text: words.time_text(text, "%d %b %H:%M"),
    }
    environment.globals |= {
        "address": words.address,
        "run_address": words.run_address,
        "test_address": words.address_of_test,
        "percent": words.percent,
        "counted": counted,
        "navigation": NAVIGATION,
        "verdict_marks": words.VERDICTS,
    }
    return environment


TEMPLATES = _environment()


def page_text(template: str, *, nonce: str, here: str, **values: Any) -> str:
    """A page as text.

    Args:
        template: its file's name.
        nonce: the one the page's policy lets through.
        here: the entry of the navigation the page stands under.
        values: what the template shows.
    """
    return TEMPLATES.get_template(template).render(nonce=nonce, here=here, **values)


def page(template: str, *, here: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page as an answer: no script, no request, no frame; forms lead to this server alone."""
    nonce = secrets.token_urlsafe(16)
    text = page_text(template, nonce=nonce, here=here, **values)
    return html_answer(text, nonce, status=status, forms=True)


class PageRoute(APIRoute):
    """A route whose refusals are pages where a browser asks; others get the answer of the API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See APIRoute."""
        handle = super().get_route_handler()

        async def with_pages(request: Request) -> Response:
            try:
                return await handle(request)
            except (HTTPException, RequestValidationError) as error:
                if "text/html" not in request.headers.get("accept", ""):
                    raise
                if isinstance(error, HTTPException):
                    return page("error.html", here="", status=error.status_code, said=[str(error.detail)])
                said = [f"{detail['loc'][-1]}: {detail['msg']}" for detail in error.errors()]
                return page("error.html", here="", status=422, said=said)

        return with_pages
