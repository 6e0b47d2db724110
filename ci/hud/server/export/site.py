"""The static copy: from the pages that lead to all others along the links, each page asked of the server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fastapi import FastAPI

from ci.hud.server.export.addresses import Address, Chosen, address_of, link_between
from ci.hud.server.export.ask import ask
from ci.hud.server.export.choose import chosen_of
from ci.hud.server.export.folder import replacing, write_account
from ci.hud.server.export.rewrite import rewrite
from ci.hud.server.http import add_error_answers
from ci.hud.server.pages import add_pages
from ci.hud.server.pages.render import NAVIGATION
from ci.hud.server.queries.window import Window
from ci.hud.server.queries.worst_tests import VERDICTS
from ci.hud.server.store import Store

Told = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """How much a copy holds."""

    pages: int
    runs: int
    tests: int


def export(
    store: Store, folder: Path, *, now: float, days: int, runs: int, told: Told = lambda *_: None
) -> Exported:
    """Write the pages of a store to a folder; the same store and time give the same bytes.

    Args:
        store: whose pages.
        folder: is made, or replaced where it holds an export.
        now: seconds since the epoch; what is shown is of the days before it.
        days: how many.
        runs: how many of their newest runs at most.
        told: is told the pages that are done, those known of, and the newest one's address.

    Raises:
        SpyreCiError: the folder cannot be replaced, or a page not made.
    """
    # Only the pages: what takes reports and what checks tokens has no part in a copy.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    add_error_answers(app)
    add_pages(app, store, lambda: now)
    with replacing(folder) as made:
        chosen = chosen_of(store.database, Window(now=now, days=days), runs=runs)
        pages = asyncio.run(_Walk(app, chosen, _note(now, chosen), told).write(made))
        count = len(chosen.tests & {dict(page.query)["key"] for page in pages if page.path == "/test"})
        write_account(made, made_at=_moment(now), days=days, runs=len(chosen.runs), pages=len(pages))
    return Exported(pages=len(pages), runs=len(chosen.runs), tests=count)


class _Walk:
    def __init__(self, app: FastAPI, chosen: Chosen, note: str, told: Told) -> None:
        self._app = app
        self._chosen = chosen
        self._note = note
        self._told = told
        self._known = {Address(place) for place, _ in NAVIGATION}
        self._queue = deque(Address(place) for place, _ in NAVIGATION)

    async def write(self, folder: Path) -> set[Address]:
        """Write every page that can be reached, and those of every run."""
        for number in sorted(self._chosen.runs, reverse=True):
            self._reach(Address(f"/runs/{number}"))
        for verdict in VERDICTS[1:]:
            self._reach(Address("/tests", (("verdict", verdict),)))
        done = 0
        while self._queue:
            page = self._queue.popleft()
            text = await ask(self._app, page.path, page.asked(self._chosen.days))
            file = folder / page.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._rewritten(page, text), encoding="utf-8", errors="replace", newline="")
            done += 1
            self._told(done, len(self._known), page.path)
        return self._known

    def _rewritten(self, page: Address, text: str) -> str:
        def link(href: str) -> str | None:
            other = address_of(href, days=self._chosen.days)
            return link_between(page, other) if other is not None and self._reach(other) else None

        def choose(name: str, value: str) -> str | None:
            rest = {key: one for key, one in page.query if key not in {name, "offset"}}
            told = {**rest, **({name: value} if value else {})}
            if (page.path, name, value) == ("/tests", "verdict", VERDICTS[0]):
                del told[name]
            other = Address(page.path, tuple(sorted(told.items())))
            return link_between(page, other) if name != "days" and self._reach(other) else None

        return rewrite(text, link=link, choose=choose, note=self._note)

    def _reach(self, page: Address) -> bool:
        if page in self._known:
            return True
        if not self._chosen.has(page):
            return False
        self._known.add(page)
        self._queue.append(page)
        return True


def _moment(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _note(now: float, chosen: Chosen) -> str:
    return (
        f"A copy of what the server showed on {_moment(now)}: the last {chosen.days} days, "
        f"{len(chosen.runs):,} runs and the tests that had problems in them. "
        "What is no link is not in the copy."
    )
