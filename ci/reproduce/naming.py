"""Which test somebody means: by its id, by the name pytest has for it, or by a part of either. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from ci.core.errors import MissingInputError, UsageError
from ci.core.text import clip, counted, shell_line

# So many are shown, and so many are compared letter by letter, which takes its time.
SHOWN = 5
COMPARED = 2000
LONGEST = 20_000


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
