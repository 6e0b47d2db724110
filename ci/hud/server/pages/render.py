"""From values to an answer: how pages say numbers, times and conclusions, templates, and what was wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment

from ci.core.templates import harmless_environment
from ci.core.text import counted, span
from ci.hud.callback import stored_time
from ci.hud.server.http import html_answer
from ci.record.verdict import PROBLEMS
from ci.store.identity import key_of_test

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
# Some proxies and servers take no longer address; a test with a longer id is addressed by its key.
MAX_ADDRESS = 1500


def page(template: str, *, here: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page as an answer: no script but its own, no request, no frame; forms lead to this server alone.

    Args:
        template: its file's name.
        here: the entry of the navigation the page stands under.
        status: of the answer.
        values: what the template shows.
    """
    nonce = secrets.token_urlsafe(16)
    text = TEMPLATES.get_template(template).render(nonce=nonce, here=here, **values)
    return html_answer(text, nonce, status=status)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How a conclusion or a verdict is shown: never by colour alone."""

    letter: str
    word: str
    kind: str


CONCLUSIONS = {
    "success": Mark(letter="S", word="success", kind="good"),
    "failure": Mark(letter="F", word="failure", kind="bad"),
    "cancelled": Mark(letter="C", word="cancelled", kind="warn"),
    "timed_out": Mark(letter="T", word="timed out", kind="warn"),
}
RUNNING = Mark(letter="…", word="running", kind="info")
UNKNOWN = Mark(letter="?", word="unknown", kind="info")
VERDICTS = {
    "passed": Mark(letter="P", word="passed", kind="passed"),
    "failed": Mark(letter="F", word="failed", kind="failed"),
    "flaky": Mark(letter="~", word="flaky", kind="flaky"),
    "skipped": Mark(letter="S", word="skipped", kind="skipped"),
    "xfailed": Mark(letter="x", word="failed as expected", kind="xfailed"),
    "xpassed": Mark(letter="X", word="passed unexpectedly", kind="xpassed"),
    "hardware": Mark(letter="H", word="hardware", kind="hardware"),
    "infrastructure": Mark(letter="I", word="infrastructure", kind="infrastructure"),
    "not_run": Mark(letter="N", word="not run", kind="not_run"),
}


def conclusion_mark(status: str, conclusion: str) -> Mark:
    """The mark of a job."""
    if status != "completed":
        return RUNNING if status == "in_progress" else UNKNOWN
    if not conclusion:
        return UNKNOWN
    return CONCLUSIONS.get(conclusion, Mark(letter=conclusion[0].upper(), word=conclusion, kind="info"))


def duration(seconds: float) -> str:
    """Seconds as people say them: `4 ms`, `0.4 s`, `42 s`, `3 min 05 s`, `2 h 07 min`, `3 d 4 h`."""
    if 0 < seconds < 0.1:  # noqa: PLR2004  # tenths would say nothing
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.001 else "<1 ms"  # noqa: PLR2004  # nor would these
    if seconds <= 0:
        return "0 s"
    hours = round(seconds) // 3600
    return span(seconds) if hours < 48 else f"{hours // 24:,} d {hours % 24} h"  # noqa: PLR2004  # two days


def percent(part: float, whole: float) -> str:
    """A share for people, never rounded to a whole it is not: `97.88 %`, `<0.01 %`, `>99.99 %`."""
    if not whole:
        return "\N{EN DASH}"
    value = 100 * part / whole
    if 0 < value < 0.01:  # noqa: PLR2004  # what two digits can say
        return "<0.01 %"
    if 99.99 < value < 100:  # noqa: PLR2004  # the same
        return ">99.99 %"
    return f"{value:.2f}".rstrip("0").rstrip(".") + " %"


def time_text(text: str, form: str = "%Y-%m-%d %H:%M UTC") -> str:
    """A time of a row for people; empty where there is none."""
    moment = stored_time(text)
    return moment.strftime(form) if moment is not None else ""


def address(page: str, /, **values: Any) -> str:
    """The address of a page with what is said of it; what is empty is left out, so that one page has one."""
    told = [(name.rstrip("_"), value) for name, value in values.items() if value not in ("", None)]
    return page + ("?" + urlencode(told, quote_via=quote, safe="/:,@") if told else "")


def run_address(number: int) -> str:
    """The address of a run's page."""
    return f"/runs/{number}"


def address_of_test(test_id: str, place: int = 0) -> str:
    """The address of a test's page: by its id where one can read that, else by its key."""
    found = address("/test", id=test_id, place=place or None)
    return (
        found if len(found) <= MAX_ADDRESS and test_id else address("/test", key=key_of_test(test_id, place))
    )


def _environment() -> Environment:
    environment = harmless_environment("ci.hud.server")
    environment.filters |= {
        "duration": duration,
        "when": time_text,
        "day": lambda text: time_text(text, "%Y-%m-%d"),
        "second": lambda text: time_text(text, "%Y-%m-%d %H:%M:%S UTC"),
        "minute": lambda text: time_text(text, "%d %b %H:%M"),
        # Joined here, for a template escapes each number by itself.
        "pairs": lambda points: " ".join(f"{x},{y}" for x, y in points),
    }
    environment.globals |= {
        "address": address,
        "run_address": run_address,
        "test_address": address_of_test,
        "percent": percent,
        "counted": counted,
        "navigation": NAVIGATION,
        "verdict_marks": VERDICTS,
        "bad": frozenset(PROBLEMS),
    }
    return environment


TEMPLATES = _environment()
