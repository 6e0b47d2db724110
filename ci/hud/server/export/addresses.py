"""The pages a static copy has, by their addresses: which those are, and what their files are called; pure."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

from ci.hud.identity import key_of_test
from ci.hud.server.pages.render import NAVIGATION

# What only filters and orders a page, and what it is where nothing is said.
DEFAULTS = {
    ("/tests", "verdict"): "flaky",
    ("/compare", "kind"): "new failures",
    ("", "offset"): "0",
    ("", "order"): "verdict",
}
BOARDS = frozenset(place for place, _ in NAVIGATION) - {"/runs"}
WINDOWED = BOARDS | {"/test"}
PROBLEMS = frozenset({"failed", "flaky", "hardware", "infrastructure", "xpassed", "not_run"})
MOST_VARIANTS = 500
_RUN = re.compile(r"/runs/([1-9][0-9]{0,18})(/tests)?")
_DIGEST = 32


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A page: its path and what is asked of it, sorted, without what is so anyway."""

    path: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        """The page's file below the folder: letters, digits, `-`, `.` and `/`, below 100 characters."""
        stem = self.path.strip("/") or "index"
        if not self.query:
            return f"{stem}.html"
        # The query holds names of lanes and tests, of any length and of any character.
        told = urlencode(self.query, errors="surrogatepass").encode()
        return f"{stem}/{hashlib.sha256(told).hexdigest()[:_DIGEST]}.html"

    def asked(self, days: int) -> str:
        """The query that gets the page from the server, of so many days."""
        window = [("days", str(days))] if self.path in WINDOWED else []
        return urlencode([*self.query, *window], errors="surrogatepass")


def address_of(link: str, *, days: int) -> Address | None:
    """The page of the server that a link leads to; None where it leads elsewhere.

    Args:
        link: as it stands in a page.
        days: of the copy; a link that says so many, or none, means the page of the copy.
    """
    if not link.startswith("/") or link.startswith("//"):
        return None
    parts = urlsplit(link)
    told = dict(parse_qsl(parts.query))
    if told.get("days") == str(days) and parts.path in WINDOWED:
        del told["days"]
    if parts.path == "/test":
        told = _by_key(told)
    kept = [(name, value) for name, value in told.items() if not _default(parts.path, name, value)]
    return Address(parts.path, tuple(sorted(kept)))


def link_between(page: Address, other: Address) -> str:
    """The relative link from one page's file to another's."""
    return posixpath.relpath(other.file, posixpath.dirname(page.file) or ".")


def _by_key(told: Mapping[str, str]) -> dict[str, str]:
    # A test has two addresses and one page.
    place = told.get("place", "0")
    rest = {name: value for name, value in told.items() if name not in {"id", "place", "key"}}
    if "key" in told or not re.fullmatch(r"[0-9]{1,7}", place):
        return {**rest, "key": told.get("key", "")}
    return {**rest, "key": str(key_of_test(told.get("id", ""), int(place)))}


def _default(path: str, name: str, value: str) -> bool:
    return value in {DEFAULTS.get((path, name)), DEFAULTS.get(("", name))}


@dataclass(slots=True, kw_only=True)
class Chosen:
    """What a copy holds.

    Attributes:
        days: of the window.
        runs: whose pages it has.
        listed: how many of them the list of runs has.
        pairs: runs beside the one before them.
        tests: the keys of those with problems.
    """

    days: int
    runs: frozenset[int]
    listed: int
    pairs: frozenset[tuple[str, str]]
    tests: frozenset[str]
    _variants: set[Address] = field(default_factory=set)

    def has(self, address: Address) -> bool:
        """Whether the copy has a page; filtered ones only as long as they are not too many."""
        told = dict(address.query)
        if address.path == "/test":
            return set(told) == {"key"} and told["key"] in self.tests
        if address.path == "/runs":
            return set(told) <= {"offset"} and _number(told.get("offset", "0")) < max(self.listed, 1)
        if address.path == "/compare":
            pair = (told.get("before", ""), told.get("after", ""))
            return set(told) <= {"before", "after", "kind"} and pair in self.pairs
        if found := _RUN.fullmatch(address.path):
            narrowed = not told or (bool(found[2]) and set(told) == {"verdict"})
            return int(found[1]) in self.runs and narrowed and told.get("verdict", "failed") in PROBLEMS
        return address.path in BOARDS and self._board(address, told)

    def _board(self, address: Address, told: Mapping[str, str]) -> bool:
        filters = set(told) - {"offset"}
        one = len(filters) <= 1 and filters <= {"repo", "lane", "event", "verdict"}
        if not one and filters != {"repo", "lane"}:
            return False
        if not told or address in self._variants:
            return True
        if len(self._variants) >= MOST_VARIANTS:
            return False
        self._variants.add(address)
        return True


def _number(text: str) -> float:
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else float("inf")
