"""What tests are expected to take, by a chain of fall-backs, and the time-outs that follow from it."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from test_selection.catalog import Catalog, CatalogTest
from test_selection.durations import Durations

# Of a test nobody has timed yet; most of PyTorch's tests end well below it.
UNKNOWN_TEST_S = 0.05
SPREAD_AT = 0.95
_OP = re.compile(r"[\[,]((?:op|module)=[^,\]]*)")


class Source(StrEnum):
    """Where an estimate comes from, in the order they are asked."""

    MEASURED = "measured"
    DTYPE = "from the same test with another dtype"
    TEMPLATE = "from the same template"
    CLASS = "from the same class"
    OP = "from the same op or module"
    FILE = "from the same file"
    PRIOR = "from imported class times"
    ALL = "from all tests"
    GUESS = "guessed (no history)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one test is expected to take.

    Attributes:
        seconds: the median of its source.
        source: what was looked at.
        spread: the 95th percentile of its source in seconds, never below `seconds`: of the test's own runs
            where it was measured, else of the tests the median is taken over.
    """

    seconds: float
    source: Source
    spread: float


Key = Callable[[str], str | None]


def _without_dtype(name: str) -> str | None:
    start = name.find("[dtype=")
    if start < 0 and (start := name.find(",dtype=")) < 0:
        return None
    end = name.find(",", start + 1)
    return name[: start + 1] + name[end if end >= 0 else name.find("]", start) :]


def _template(name: str) -> str:
    return name.partition("[")[0].partition("#")[0]


def _class(name: str) -> str | None:
    cls = name.partition("[")[0].rpartition("::")[0]
    return cls if "::" in cls else None  # a plain function has its file alone


def _op(name: str) -> str | None:
    found = _OP.search(name)
    return found[1] if found else None


def _file(name: str) -> str:
    return name.partition("::")[0]


# Keys are cut from the test id, so that what was measured needs no catalog to be grouped by. The order
# is that of closeness, seen on 10,196 real tests of seven PyTorch files timed on a CPU. With 30 % of them
# hidden, the mean error (natural logarithm) was 0.27 by dtype, 0.44 by template, 0.87 by class and by op;
# with all dtypes of a test hidden 0.46, 0.89 and 1.00 by template, class and op; with whole templates hidden
# 1.14 and 1.13 by class and op. Class goes before op, for it was never worse by much.
_CHAIN: tuple[tuple[Source, Key], ...] = (
    (Source.DTYPE, _without_dtype),
    (Source.TEMPLATE, _template),
    (Source.CLASS, _class),
    (Source.OP, _op),
    (Source.FILE, _file),
)


def estimate(
    tests: Iterable[CatalogTest], durations: Durations, *, among: Iterable[CatalogTest] | None = None
) -> dict[str, Estimate]:
    """Estimate each test by the first of its sources that was measured; the order of the input is no matter.

    Args:
        tests: the tests to estimate.
        durations: what was measured, of these and of any other tests.
        among: every test of the catalog, over which a class's seconds are shared; None: `tests`.

    Returns:
        Estimates by test id.
    """
    names = [test.id for test in tests]
    others = _fall_backs(names, durations, among)
    return {name: others[name] if name in others else _measured(name, durations) for name in names}


def estimate_tests(
    tests: Iterable[CatalogTest], durations: Durations, *, among: Iterable[CatalogTest] | None = None
) -> dict[str, float]:
    """Seconds expected of each test, by test id; `estimate` says where they come from."""
    names = [test.id for test in tests]
    others = _fall_backs(names, durations, among)
    return {name: others[name].seconds if name in others else durations.tests[name] for name in names}


def estimate_files(catalog: Catalog, durations: Durations) -> dict[str, float]:
    """Set-up seconds expected of each file: measured in a run, else what its collection took."""
    return {name: durations.files.get(name, record.collect_s) for name, record in catalog.files.items()}


def how_estimated(estimates: Mapping[str, Estimate]) -> Counter[Source]:
    """How many estimates each source gave."""
    return Counter(one.source for one in estimates.values())


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile of at least one value: the least that `share` of them do not exceed."""
    ordered = sorted(values)
    # Whole thousandths: 0.95 * 20 is a hair above 19 in binary and would ask for the 20th.
    rank = -(-len(ordered) * round(share * 1000) // 1000)
    return ordered[max(rank, 1) - 1]


def _measured(name: str, durations: Durations) -> Estimate:
    seconds = durations.tests[name]
    spread = max(seconds, durations.spread.get(name, seconds))
    return Estimate(seconds=seconds, source=Source.MEASURED, spread=spread)


def _summary(values: Sequence[float], source: Source) -> Estimate:
    return Estimate(seconds=statistics.median(values), source=source, spread=quantile(values, SPREAD_AT))


def _fall_backs(
    names: Sequence[str], durations: Durations, among: Iterable[CatalogTest] | None
) -> dict[str, Estimate]:
    """The estimates of those that were not measured."""
    found: dict[str, Estimate] = {}
    left = [name for name in names if name not in durations.tests]
    for source, key in _CHAIN:
        if left and durations.tests:
            left = _by_neighbours(found, left, durations.tests, source, key)
    if left and durations.classes:
        everyone = names if among is None else (test.id for test in among)
        left = _by_prior(found, left, durations.classes, everyone)
    if left:
        found.update(dict.fromkeys(left, _of_all(durations.tests, found)))
    return found


def _by_neighbours(
    found: dict[str, Estimate], left: Sequence[str], known: Mapping[str, float], source: Source, key: Key
) -> list[str]:
    """Estimate what has a measured neighbour by `key`; return what has none."""
    keys = {name: group for name in left if (group := key(name)) is not None}
    groups: dict[str | None, list[float]] = {group: [] for group in keys.values()}
    for name, seconds in known.items():
        group = key(name)
        if group in groups:
            groups[group].append(seconds)
    summaries = {group: _summary(values, source) for group, values in groups.items() if values}
    found.update((name, summaries[group]) for name, group in keys.items() if group in summaries)
    return [name for name in left if name not in found]


def _by_prior(
    found: dict[str, Estimate], left: Sequence[str], classes: Mapping[str, float], everyone: Iterable[str]
) -> list[str]:
    """Estimate by an equal share of what the class took elsewhere; return what no class tells."""
    members = Counter(group for name in everyone if (group := _class(name)) and group in classes)
    shares = {group: classes[group] / count for group, count in members.items()}
    prior = {group: Estimate(seconds=one, source=Source.PRIOR, spread=one) for group, one in shares.items()}
    found.update((name, prior[group]) for name in left if (group := _class(name)) and group in prior)
    return [name for name in left if name not in found]


def _of_all(known: Mapping[str, float], found: Mapping[str, Estimate]) -> Estimate:
    values = list(known.values()) or [one.seconds for one in found.values()]
    if not values:
        return Estimate(seconds=UNKNOWN_TEST_S, source=Source.GUESS, spread=UNKNOWN_TEST_S)
    files: dict[str, list[float]] = {}
    for name, seconds in known.items():
        files.setdefault(_file(name), []).append(seconds)
    # Of files, not of tests: a test of a file nobody ran is like one of a usual file, not of the largest.
    medians = [statistics.median(times) for times in files.values()] or values
    seconds = statistics.median(medians)
    spread = max(seconds, quantile(values, SPREAD_AT))
    return Estimate(seconds=seconds, source=Source.ALL, spread=spread)


def file_timeouts(
    estimates: Mapping[str, Estimate], *, factor: float, floor_s: float, ceiling_s: float
) -> dict[str, float]:
    """Seconds after which a test of a file counts as hung.

    It is `factor` times the greatest 95th percentile of any test of the file: time-outs are for one test, and
    a percentile over the file's tests would end its slowest, sound ones. A file without a measured test is
    left out, for a guess is no ground to end a test: there the runner's own time-out holds.

    Args:
        estimates: of the planned tests, by test id.
        factor: how many times its slowest a test may take, 1 or more.
        floor_s: no time-out is shorter, unless `ceiling_s` is.
        ceiling_s: no time-out is longer.

    Returns:
        Whole seconds (or `ceiling_s` itself) by file, sorted by name.
    """
    slowest: dict[str, float] = {}
    measured: set[str] = set()
    for name, one in estimates.items():
        file = name.partition("::")[0]
        slowest[file] = max(slowest.get(file, 0.0), one.spread)
        if one.source is Source.MEASURED:
            measured.add(file)
    return {
        # Ids hold file names encoded, plans hold them plain.
        unquote(file, errors="surrogatepass"): min(ceiling_s, max(floor_s, math.ceil(factor * slowest[file])))
        for file in sorted(measured)
    }


def test_timeouts(
    spread: Mapping[str, float], *, factor: float, floor_s: float, ceiling_s: float
) -> dict[str, float]:
    """Seconds after which a test counts as hung, by test id: `factor` times its own 95th percentile.

    Args:
        spread: the 95th percentile of each measured test's times, in seconds.
        factor: how many times that a test may take, 1 or more.
        floor_s: no time-out is shorter, unless `ceiling_s` is.
        ceiling_s: no time-out is longer.
    """
    return {name: min(ceiling_s, max(floor_s, math.ceil(factor * one))) for name, one in spread.items()}
