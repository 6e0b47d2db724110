"""How people name a run and a test: by a folder or an archive, a part of the id or pytest's name."""

from __future__ import annotations

import contextlib
import difflib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ci.core.archives import Wanted, unpack
from ci.core.errors import MissingInputError, UsageError
from ci.core.text import clip, counted, listed, shell_line
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from ci.steps.context import Context
from ci.steps.folder import find_run

# Below the state folder; what is left in it is pruned with the caches.
REPRODUCE_DIR = "reproduce"
# What of a run's artifact is read, and how much of it.
_FILES = (
    Wanted(pattern=r"(run|source|plan|selection|summary|run-settings)\.json", most_bytes=64 << 20),
    Wanted(pattern=re.escape(RESULTS_FILE), most_bytes=64 << 20),
    Wanted(pattern=r"journal/\d{1,6}-\d{1,6}\.jsonl", most_bytes=256 << 20),
)
# So many names are shown, and so many are compared letter by letter, which takes its time.
_SHOWN, _COMPARED = 5, 2000
_LONGEST = 20_000


@contextlib.contextmanager
def run_folder(context: Context, name: str) -> Iterator[Path]:
    """The folder of a run, by path, id, `latest`, or the zip of a CI's artifact.

    Raises:
        MissingInputError: there is no such run here.
        BadFileError: the archive is damaged, leads elsewhere, or holds more than agreed.
    """
    if Path(name).is_file():
        place = context.state(REPRODUCE_DIR)
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="unpacked-", dir=place) as folder:
            unpack(Path(name), Path(folder), _FILES, beside=RESULTS_FILE)
            yield Path(folder)
        return
    yield find_run(context.runs, name, holding=SUMMARY_FILE).path


def find_test(name: str, nodes: Mapping[str, str], *, where: str) -> str:
    """The id of the test that is meant. Pure.

    Args:
        name: a test id, a node id of pytest, or a part that only one test has.
        nodes: the run's tests: by test id the node id, empty where it is not known.
        where: what errors name: the run.

    Raises:
        UsageError: several tests are meant, or none is named; with the first of them.
        MissingInputError: there is no such test; with similar ones.
    """
    if not name.strip() or len(name) > _LONGEST:
        raise UsageError("no test is named", where=where, remedy="give its test id as the report shows it")
    if name in nodes:
        return name
    raw = [one for one, node in nodes.items() if node == name or node.endswith(f"/{name}")]
    found = raw or [one for one, node in nodes.items() if name in one or name in node]
    if len(found) == 1:
        return found[0]
    if found:
        what = f"{clip(name, 300)!r} is a part of {counted(len(found), 'test')}: {_shown(found)}"
        raise UsageError(what, where=where, remedy="give the whole id of one")
    words = [word for word in re.split(r"::|[\[\] ]", name) if word]
    ranked = sorted(nodes, key=lambda one: -sum(word in one for word in words))[:_COMPARED]
    near = difflib.get_close_matches(name, ranked, n=_SHOWN, cutoff=0.5)
    remedy = f"similar: {_shown(near)}" if near else "give its test id as the run's report shows it"
    raise MissingInputError(f"no test is called {clip(name, 300)!r}", where=where, remedy=remedy)


def _shown(names: list[str]) -> str:
    return listed([clip(shell_line([name]), 300) for name in names], most=_SHOWN)
