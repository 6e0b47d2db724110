"""How a run and a test are named. Pure.

A run is named by a folder, its id, `latest`, a CI's run as reports say it, or a page of a HUD; a test by its
id, by the name pytest has for it, or by a part of either.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ci.core.addresses import shown
from ci.core.errors import MissingInputError, UsageError
from ci.core.text import clip, counted, shell_line

# As `ci.record.reproduce_line.ref_of` writes it.
_PROVIDER = re.compile(r"([a-z][a-z0-9]{0,30})-(\d{1,19})\.(\d{1,9})")
_PAGE = re.compile(r"(.*?)/(?:api/)?runs/(\d{1,19})(?:/.*)?")
# So many are shown, and so many are compared letter by letter, which takes its time.
SHOWN = 5
COMPARED = 2000
LONGEST = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CiRun:
    """A run of a CI: which CI, its number and its attempt."""

    provider: str
    run_id: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HudPage:
    """A job's page of a HUD: the HUD's address, without a slash at its end, and the job's number there."""

    base: str
    number: int


def ci_run(named: str) -> CiRun | None:
    """The CI's run that is named; None: it is another kind of name."""
    found = _PROVIDER.fullmatch(named)
    return found and CiRun(provider=found[1], run_id=int(found[2]), attempt=int(found[3]))


def hud_page(named: str) -> HudPage | None:
    """The page that is named; None: it is no address.

    Raises:
        UsageError: it is an address of something else, or holds a password.
    """
    if not re.match(r"(?i)[a-z][a-z0-9+.-]*://", named):
        return None
    try:
        parts = urlsplit(named)
        host = parts.hostname
    except ValueError:
        parts, host = None, None
    found = _PAGE.fullmatch(parts.path) if parts is not None else None
    if parts is None or parts.scheme.lower() not in {"http", "https"} or not host or found is None:
        raise UsageError(
            f"{shown(named):.200} is no page of a run",
            remedy="give the page of a run of a HUD, such as http://127.0.0.1:8000/runs/7, or fetch the "
            "artifact of a CI's run and give --from FILE",
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"{shown(named):.200} was given with a user name or password",
            remedy="leave them out; a HUD's token is read from SPYRE_CI_HUD_READ_TOKEN",
        )
    return HudPage(base=f"{parts.scheme.lower()}://{parts.netloc}{found[1]}", number=int(found[2]))


def find_test(named: str, nodes: Mapping[str, str], *, where: str) -> str:
    """The canonical id of the test that is meant.

    Args:
        named: a canonical id, a node id of pytest, or a part that only one test has.
        nodes: the run's tests: by canonical id the node id of its collection, empty where nobody noted it.
        where: what errors name: the run.

    Raises:
        UsageError: several tests are meant, or nothing is named; with the first of them.
        MissingInputError: none is; with those that are called alike.
    """
    if not named.strip() or len(named) > LONGEST:
        raise UsageError("no test is named", where=where, remedy="give its id as the report shows it")
    if named in nodes:
        return named
    raw = [name for name, node in nodes.items() if node and named == node]
    tail = [name for name, node in nodes.items() if node.endswith(f"/{named}")] if not raw else []
    parts = [name for name, node in nodes.items() if named in name or named in node]
    for found in (raw, tail, parts):
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"{clip(named, 300)!r} is a part of {counted(len(found), 'test')}: {_shown(found)}",
                where=where,
                remedy="give the whole id of one",
            )
    near = near_names(named, list(nodes))
    said = f"near it: {_shown(near)}" if near else "give its id as the run's report shows it"
    raise MissingInputError(f"no test is called {clip(named, 300)!r}", where=where, remedy=said)


def near_names(named: str, names: Sequence[str]) -> list[str]:
    """The names most like one, the nearest first; at most five.

    Of very many only those are compared that have most of its words, for comparing takes its time.
    """
    words = [word for word in named.replace("::", " ").replace("[", " ").replace("]", " ").split() if word]
    ranked = sorted(names, key=lambda name: -sum(word in name for word in words))[:COMPARED]
    return difflib.get_close_matches(named, ranked, n=SHOWN, cutoff=0.5)


def _shown(names: Sequence[str]) -> str:
    more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(clip(shell_line([name]), 300) for name in names[:SHOWN]) + more
