"""Which tests there are in one run's catalog and not in the other's, whether they were selected or not. Pure.

A catalog holds every test that was collected. That a test is not in it says that it is gone, but for two
cases in which nobody can tell: its file could not be collected, or was not looked at.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What one run knows of the tests there are.

    Attributes:
        ids: of every collected test.
        files: every file that was tried, as ids begin with it.
        broken: those that could not be collected, with the error.
        partial: not every file was looked at.
    """

    ids: Collection[str]
    files: Collection[str] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False

    def can_tell(self, file: str) -> bool:
        """Whether a test of this file that it does not know does not exist."""
        return file not in self.broken and (file in self.files or not self.partial)


@dataclass(frozen=True, slots=True, kw_only=True)
class Existence:
    """Tests that came and went.

    Attributes:
        known: whether both runs have a catalog; without, the rest is empty.
        appeared: there are such tests here and not there, but for those that moved.
        vanished: the other way round.
        moved: by what a test is called here, what it was called there.
        untold: how many are known to one run, of files the other could not or did not look at.
        uncollected: files that one run could not collect and the other could, with the error; here first.
    """

    known: bool = False
    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    untold: int = 0
    uncollected_here: Mapping[str, str] = field(default_factory=dict)
    uncollected_there: Mapping[str, str] = field(default_factory=dict)


def compare_catalogs(now: Known | None, base: Known | None) -> Existence:
    """What came, what went, and what is called otherwise.

    Args:
        now: the catalog of the run; None where it has none.
        base: that of the run it is compared with.
    """
    if now is None or base is None:
        return Existence()
    here, there = set(now.ids), set(base.ids)
    came, untold_here = _told(sorted(here - there), base)
    went, untold_there = _told(sorted(there - here), now)
    moved = match(came, went)
    left = set(moved.values())
    return Existence(
        known=True,
        appeared=tuple(name for name in came if name not in moved),
        vanished=tuple(name for name in went if name not in left),
        moved=moved,
        untold=untold_here + untold_there,
        uncollected_here={file: why for file, why in now.broken.items() if file not in base.broken},
        uncollected_there={file: why for file, why in base.broken.items() if file not in now.broken},
    )


def match(came: Iterable[str], went: Iterable[str]) -> dict[str, str]:
    """Tests that are only called otherwise: by what they are called now, what they were called.

    The file is another and all the rest of the id the same, or the class is. Where several could be meant,
    those count whose files others moved between; where that does not decide, none does.
    """
    came, went = list(came), list(went)
    found = _pair(came, went, lambda name: name.partition("::")[2])
    taken = set(found.values())
    found |= _pair(
        [name for name in came if name not in found],
        [name for name in went if name not in taken],
        _without_class,
    )
    return found


def _told(names: list[str], other: Known) -> tuple[list[str], int]:
    """Those of which the other run can tell that they are not there, and how many it cannot tell of."""
    can = {file: other.can_tell(file) for file in {_file(name) for name in names}}
    told = [name for name in names if can[_file(name)]]
    return told, len(names) - len(told)


def _pair(came: list[str], went: list[str], key: Callable[[str], str]) -> dict[str, str]:
    now, then = _by(came, key), _by(went, key)
    found = {
        names[0]: then[one][0] for one, names in now.items() if len(names) == len(then.get(one, ())) == 1
    }
    votes = Counter((_file(new), _file(old)) for new, old in found.items())
    for one, names in now.items():
        others = then.get(one, [])
        if not others or len(names) == len(others) == 1:
            continue
        free = set(others)
        for name in names:
            fits = [old for old in others if old in free and votes[_file(name), _file(old)]]
            if len(fits) == 1:
                found[name] = fits[0]
                free.discard(fits[0])
    return found


def _by(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[key(name)].append(name)
    return found


def _file(name: str) -> str:
    return name.partition("::")[0]


def _without_class(name: str) -> str:
    """The file and what stands behind the classes; a parameter may hold `::` as well."""
    base, bracket, rest = name.partition("[")
    file, _, inside = base.partition("::")
    return f"{file}::{inside.rpartition('::')[2]}{bracket}{rest}"
