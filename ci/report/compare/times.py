"""What takes longer or shorter than noise and machines explain: tests, files and their set-ups. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ci.report.compare.machines import (
    FALSE_ALARMS,
    LEAST,
    LENGTHS,
    Machines,
    Pair,
    limit_of,
    machines_of,
    median,
    off,
    spread_of,
)

# Seconds by which anything is off that counts.
LEAST_S = 0.5
# Tests of a length are not taken to be steadier than this, as the logarithm of a ratio.
_STEADIEST = 0.02
# A fifth more is the least that counts, whatever is known of the noise.
_LEAST_OFF = math.log(1.2)
_LEAST_OF_A_FILE = 5
# Enough for a limit by the tail of either side.
_LEAST_OF_A_LENGTH = 100
# Kinds of things that are looked at, each of which may give a false alarm: tests, files, set-ups.
_KINDS = 3
# A normal distribution's 95th percentile, in standard deviations.
_P95 = 1.645
# One in a thousand million, of what is normal in the logarithm.
_SURE = 6
_LEAST_OF_HISTORY = 5


class Past(NamedTuple):
    """Seconds of a test in past runs: 5th, 50th and 95th percentile, and how many runs there were."""

    low_s: float
    median_s: float
    high_s: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is slower or faster by more than noise.

    Attributes:
        name: a test's id here, or a file.
        base_s: seconds there.
        expected_s: seconds it would take here if only the machines had changed.
        now_s: seconds here.
        limit_s: from what it counts.
        tests: of a file, how many were looked at; else 1.
    """

    name: str
    base_s: float
    expected_s: float
    now_s: float
    limit_s: float
    tests: int = 1

    @property
    def more_s(self) -> float:
        """Seconds more than expected; below 0 for faster."""
        return self.now_s - self.expected_s

    @property
    def ratio(self) -> float:
        """How many times what was expected it takes."""
        return self.now_s / self.expected_s if self.expected_s > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What two runs took.

    Attributes:
        pairs: the tests that passed in both.
        machines: what all have in common.
        setup_ratio: the same of files' set-ups; 1 where few are known.
        setups: how many of these are known of both.
        tests: slower ones first, by seconds.
        files: whose tests are slower or faster as a whole; such tests are looked at beyond that.
        setup_files: whose set-up is.
        too_few: there were too few tests to know what is usual.
        steady: how many tests would have counted, and are not unusual for what the history knows of them.
    """

    pairs: tuple[Pair, ...] = ()
    machines: Machines = field(default_factory=Machines)
    setup_ratio: float = 1.0
    setups: int = 0
    tests: tuple[Finding, ...] = ()
    files: tuple[Finding, ...] = ()
    setup_files: tuple[Finding, ...] = ()
    too_few: bool = True
    steady: int = 0

    @property
    def found(self) -> bool:
        """Whether anything takes longer or shorter."""
        return bool(self.tests or self.files or self.setup_files)

    @property
    def slower(self) -> tuple[Finding, ...]:
        """Tests that take longer."""
        return tuple(one for one in self.tests if one.more_s > 0)

    @property
    def faster(self) -> tuple[Finding, ...]:
        """Tests that take less, the most first."""
        return tuple(reversed([one for one in self.tests if one.more_s < 0]))


def compare_times(pairs: Sequence[Pair], setups: Sequence[Pair] = ()) -> Times:
    """What takes longer or shorter.

    Args:
        pairs: every test that passed in both runs.
        setups: every file that was set up in both.
    """
    each = FALSE_ALARMS / _KINDS
    machines = machines_of(pairs)
    expected = machines.expected_s(pairs)
    files = _files(pairs, expected, alarms=each)
    shifts = {one.name: one.ratio for one in files}
    if shifts:
        expected = [one * shifts.get(pair.file, 1.0) for pair, one in zip(pairs, expected, strict=True)]
    of_setups = machines_of(setups)
    return Times(
        pairs=tuple(pairs),
        machines=machines,
        setup_ratio=of_setups.ratio,
        setups=len(setups),
        tests=_sorted(_tests(pairs, expected, alarms=each)),
        files=files,
        setup_files=_sorted(_beyond(setups, [one.base_s * of_setups.ratio for one in setups], alarms=each)),
        too_few=len(pairs) < LEAST,
    )


def with_history(times: Times, past: Mapping[str, Past]) -> Times:
    """The same without tests that are known to vary as much as this.

    Args:
        times: as compared.
        past: by what a test is called here, what past runs took, those before the earlier of the two.
    """
    kept = tuple(one for one in times.tests if not _usual(one, past.get(one.name)))
    return replace(times, tests=kept, steady=len(times.tests) - len(kept))


def _usual(one: Finding, past: Past | None) -> bool:
    """Whether past runs took as long, or vary so much that noise of theirs explains it.

    What they took is that of the earlier run's machine, so it is put on this one's.
    """
    if past is None or past.runs < _LEAST_OF_HISTORY or past.median_s <= 0 or one.base_s <= 0:
        return False
    machine = one.expected_s / one.base_s
    edge = past.high_s if one.more_s > 0 else past.low_s
    within = one.now_s <= edge * machine if one.more_s > 0 else one.now_s >= edge * machine
    deviation = abs(off(edge, past.median_s)) / _P95
    return within or abs(off(one.now_s, one.expected_s)) < _SURE * deviation


def usual_s(now_s: float, past: Sequence[float]) -> float | None:
    """Return the usual seconds of something that now takes longer than noise explains, else None.

    Args:
        now_s: seconds of this run.
        past: seconds of the runs before; of fewer than five nothing is known.
    """
    if len(past) < _LEAST_OF_HISTORY:
        return None
    usual = median(past)
    deviation = spread_of((off(one, usual) for one in past), least=_STEADIEST)
    slower = now_s - usual >= LEAST_S and off(now_s, usual) > max(_LEAST_OFF, _SURE * deviation)
    return usual if slower else None


def _tests(pairs: Sequence[Pair], expected: Sequence[float], *, alarms: float) -> list[Finding]:
    """Tests of about the same length at a time: short ones vary more."""
    found: list[Finding] = []
    strata = _strata(pairs)
    for places in strata:
        chosen = [pairs[place] for place in places]
        wanted = [expected[place] for place in places]
        found += _beyond(chosen, wanted, alarms=alarms / len(strata))
    return found


def _strata(pairs: Sequence[Pair]) -> list[list[int]]:
    """Places of pairs by their length; one with too few to know what is usual joins the one before."""
    found: list[list[int]] = [[] for _ in LENGTHS[1:]]
    for place, one in enumerate(pairs):
        found[one.length].append(place)
    made: list[list[int]] = []
    for places in found:
        if made and min(len(places), len(made[-1])) < _LEAST_OF_A_LENGTH:
            made[-1] += places
        else:
            made.append(places)
    return made


def _beyond(pairs: Sequence[Pair], expected: Sequence[float], *, alarms: float) -> list[Finding]:
    """Those of some that belong together which are further off than noise makes them."""
    values = [off(pair.now_s, wanted) for pair, wanted in zip(pairs, expected, strict=True)]
    ordered = sorted(values)  # what follows sorts again, which is quick then
    middle = median(ordered)
    unit = spread_of((one - middle for one in ordered), least=_STEADIEST)
    limit = limit_of([(one - middle) / unit for one in ordered], alarms=alarms) * unit
    limit = max(limit, _LEAST_OFF)
    return [
        _finding(pair.name, [pair], wanted, limit)
        for pair, wanted, value in zip(pairs, expected, values, strict=True)
        if abs(value - middle) > limit and abs(value) > limit and abs(pair.now_s - wanted) >= LEAST_S
    ]


def _finding(name: str, pairs: Sequence[Pair], wanted: float, limit: float) -> Finding:
    now = sum(pair.now_s for pair in pairs)
    return Finding(
        name=name,
        base_s=sum(pair.base_s for pair in pairs),
        expected_s=wanted,
        now_s=now,
        limit_s=wanted * math.exp(math.copysign(limit, now - wanted)),
        tests=len(pairs),
    )


def _files(pairs: Sequence[Pair], expected: Sequence[float], *, alarms: float) -> tuple[Finding, ...]:
    """Files whose tests are off by about the same: one cause, told once."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs):
        if pair.file:
            by_file[pair.file].append(place)
    told = {file: places for file, places in by_file.items() if len(places) >= _LEAST_OF_A_FILE}
    # A file of which one test is ten times as slow is not slow as a whole: its median says so.
    values = {
        file: median(off(pairs[place].now_s, expected[place]) for place in places)
        for file, places in told.items()
    }
    limit = max(limit_of(list(values.values()), alarms=alarms), _LEAST_OFF)
    found = []
    for file, value in values.items():
        places = told[file]
        wanted, now = sum(expected[place] for place in places), sum(pairs[place].now_s for place in places)
        if abs(value) > limit and abs(now - wanted) >= LEAST_S and (now > wanted) == (value > 0):
            found.append(_finding(file, [pairs[place] for place in places], wanted, limit))
    return _sorted(found)


def _sorted(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda one: (-one.more_s, one.name)))
