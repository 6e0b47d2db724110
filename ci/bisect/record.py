"""The record of a search: all that is known, in one file that is written whole after every answer.

Who reads it goes on where the search was left, however it was left: what is not in it was not answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ci.bisect.answers import Said
from ci.bisect.belief import FAIL, PASS, Belief, Tally
from ci.core.errors import BadFileError
from test_selection.files import read_json, write_json

KIND = "bisect"
FILE = "bisect.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, as far as another question would be another search.

    Attributes:
        test: its canonical id.
        device: the device under test.
        builder: how a commit is made ready.
        repository: the user's.
        good: the end as the user named it; empty: the history's.
        bad: the same of the other end.
        absent: whether a commit without the test is `good` or passed over (`skip`).
    """

    test: str
    device: str
    builder: str
    repository: str
    good: str
    bad: str
    absent: str = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One try.

    Attributes:
        round: of the search, from 1.
        position: of the commit.
        said: what came of it.
        message: one line of it.
        seconds: how long the test ran.
        card: it ran on.
        at: when it ended, seconds since the epoch.
    """

    round: int
    position: int
    said: Said
    message: str = ""
    seconds: float = 0.0
    card: str | None = None
    at: float = 0.0


@dataclass(slots=True, kw_only=True)
class Record:
    """A search.

    Attributes:
        question: what is asked.
        commits: the good end, and the candidates in their order.
        notes: what a reader must know, a sentence each.
        history: by position, what past runs saw there, as far as it counts.
        rounds: the positions asked side by side, a round each.
        open: whether the last round was not done.
        tries: in their order.
        barred: by position, why it cannot be tried.
        known_good: the last position that is good beyond doubt; -1: none.
        result: what it came to; None while it goes on.
        seconds: that were worked in all.
    """

    question: Question
    commits: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    history: dict[int, Tally] = field(default_factory=dict)
    rounds: list[list[int]] = field(default_factory=list)
    open: bool = False
    tries: list[Tried] = field(default_factory=list)
    barred: dict[int, str] = field(default_factory=dict)
    known_good: int = -1
    result: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def last(self) -> int:
        """The position of the bad end."""
        return len(self.commits) - 1

    def belief(self) -> Belief:
        """What is believed by what is recorded."""
        tallies = dict(self.history)
        for one in self.tries:
            if (seen := tally_of(one.said)) is not None:
                tallies[one.position] = tallies.get(one.position, Tally()) + seen
        return Belief(last=self.last, tallies=tallies, known_good=self.known_good)

    def visit(self, position: int) -> Tally:
        """What the last round saw of a commit."""
        here = (len(self.rounds), position)
        return _counted(one for one in self.tries if (one.round, one.position) == here)

    def seen(self, position: int) -> Tally:
        """What the search itself saw of a commit."""
        return _counted(one for one in self.tries if one.position == position)

    @property
    def tried(self) -> set[int]:
        """Positions the search came to an answer at, or gave up."""
        return {one.position for one in self.tries if tally_of(one.said) is not None} | set(self.barred)

    @property
    def steps(self) -> int:
        """How many commits were asked, one in two rounds twice."""
        return sum(len(set(asked)) for asked in self.rounds)


def tally_of(said: Said) -> Tally | None:
    """An answer as a count; None for what is none."""
    return {Said.PASSED: PASS, Said.FAILED: FAIL}.get(said)


def _counted(tries: Iterable[Tried]) -> Tally:
    """The answers among some tries."""
    return sum((seen for one in tries if (seen := tally_of(one.said)) is not None), Tally())


def as_json(record: Record) -> dict[str, Any]:
    """Plain values, as they are written and as `--json` prints them, without the schema."""
    return {
        **asdict(record.question),
        "commits": list(record.commits),
        "notes": record.notes,
        "history": {str(position): asdict(one) for position, one in record.history.items()},
        "rounds": record.rounds,
        "open": record.open,
        "tries": [asdict(one) | {"said": one.said.value} for one in record.tries],
        "barred": {str(position): reason for position, reason in record.barred.items()},
        "known_good": record.known_good,
        "result": record.result,
        "seconds": round(record.seconds, 3),
    }


def write_record(folder: Path, record: Record) -> None:
    """Write it into its folder, whole or not at all."""
    write_json(folder / FILE, KIND, as_json(record))


def read_record(folder: Path) -> Record:
    """Read it.

    Raises:
        MissingInputError: there is none.
        BadFileError: it is damaged, or of another version.
    """
    path = folder / FILE
    content = read_json(path, KIND)
    try:
        record = _parsed(content)
        _check(record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFileError(
            f"is no record of a bisect: {error}", where=path, remedy="begin again with --fresh"
        ) from error
    return record


def _parsed(content: Mapping[str, Any]) -> Record:
    names = Question.__dataclass_fields__
    return Record(
        question=Question(**{name: _text(content[name]) for name in names}),
        commits=tuple(map(_text, content["commits"])),
        notes=list(map(_text, content["notes"])),
        history={int(position): Tally(**one) for position, one in content["history"].items()},
        rounds=[list(map(int, asked)) for asked in content["rounds"]],
        open=bool(content["open"]),
        tries=[Tried(**{**one, "said": Said(one["said"])}) for one in content["tries"]],
        barred={int(position): _text(reason) for position, reason in content["barred"].items()},
        known_good=int(content["known_good"]),
        result=content["result"],
        seconds=float(content["seconds"]),
    )


def _check(record: Record) -> None:
    """Refuse positions there are not, by which later steps would break."""
    named = {*record.history, *record.barred, *(one.position for one in record.tries)}
    named.update(position for asked in record.rounds for position in asked)
    wrong = [one for one in named if type(one) is not int or not 0 <= one <= record.last]
    if len(record.commits) < 2 or wrong or not -1 <= record.known_good < record.last:  # noqa: PLR2004  # two ends
        raise ValueError(f"{len(record.commits)} commits, positions {wrong[:3]}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
