"""What a shell offers where a verb wants a run, a stage, a lane or a test: quick, silent, and never an error.

What is offered comes from files of other people's: a name that a shell could take for more than that is
left out.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ci.config.load import Settings, load_settings

Offer = tuple[str, str]
RUN_MARK, CATALOG = "run.json", "catalog.jsonl.gz"
# So many are shown at once; of more tests their files and classes are.
MOST = 200
# A catalog of everything has a hundred thousand tests; whoever presses Tab waits a second at most.
MOST_LINES = 400_000
_HARMLESS = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_.,:=+@%/\[\]-]{0,399}")
_ID = re.compile(r'"id": ?"([^"\\]*)"')
_HELP = re.compile(r"[^A-Za-z0-9 _.,%/-]")


def _offering(find: Callable[[Settings, str], Iterable[Offer]]) -> Callable[[str], list[Offer]]:
    """Make a completion of what finds names: it says nothing where anything goes wrong."""

    def offered(incomplete: str) -> list[Offer]:
        with suppress(Exception):
            settings = load_settings(path=None, environ=os.environ, flags={}, cwd=Path.cwd())
            return harmless(find(settings, incomplete), incomplete)
        return []

    return offered


def harmless(offers: Iterable[Offer], incomplete: str) -> list[Offer]:
    """The offers that begin so, without those that a shell could take for more than a name.

    Args:
        offers: names and what is said of each.
        incomplete: what was typed.
    """
    fitting = (
        (name, _HELP.sub(" ", told)[:80].strip())
        for name, told in offers
        # One that begins with a dash would be an option, and with a `=` a command to zsh.
        if name.startswith(incomplete) and _HARMLESS.fullmatch(name)
    )
    return list(islice(fitting, MOST))


def _runs(settings: Settings, _: str) -> Iterator[Offer]:
    yield "latest", "the newest one"
    for folder in _newest_runs(settings):
        yield folder.name, ""


def _newest_runs(settings: Settings, holding: str = RUN_MARK) -> list[Path]:
    found = settings.resolve(settings.model.runs).glob(f"*/{holding}")
    return [one.parent for one in sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)]


def _stages(settings: Settings, _: str) -> Iterator[Offer]:
    for number, row in sorted(settings.model.stages.items()):
        yield str(number), f"{row.percent:g} % on {row.cards} cards"


def _lanes(settings: Settings, _: str) -> Iterator[Offer]:
    for name, lane in settings.model.lanes.items():
        yield name, "started by its CI" if lane.begun_by else "started by the worker"


def _tests(settings: Settings, incomplete: str) -> Iterator[Offer]:
    newest = next(iter(_newest_runs(settings, CATALOG)), None)
    if newest is None:
        return
    with gzip.open(newest / CATALOG, "rt", encoding="utf-8") as stream:
        next(stream)
        found = list(matching(islice(stream, MOST_LINES), incomplete))
    for name in narrowed(found, incomplete):
        yield name, ""


def matching(lines: Iterable[str], incomplete: str) -> Iterator[str]:
    """The ids of a catalog's lines that begin so.

    Args:
        lines: of the catalog, without its header.
        incomplete: what was typed.
    """
    for line in lines:
        said = _ID.search(line)
        name = said[1] if said else str(json.loads(line)["id"])
        if name.startswith(incomplete):
            yield name


def narrowed(names: list[str], incomplete: str, most: int = MOST) -> list[str]:
    """Names that are too many as what they begin with: their files, then their classes.

    Args:
        names: all that begin with `incomplete`.
        incomplete: what was typed.
        most: more than these are too many.
    """
    if len(names) <= most:
        return names
    begin = len(incomplete)
    ends = ((name, name.find("::", begin)) for name in names)
    return list(dict.fromkeys(name if end < 0 else name[: end + 2] for name, end in ends))


runs = _offering(_runs)
stages = _offering(_stages)
lanes = _offering(_lanes)
tests = _offering(_tests)
