"""The record of a search: one file, written whole after every answer, from which a search resumes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ci.bisect.belief import Belief, Kind, Tally
from ci.config.bisect_model import Bisect
from ci.core.errors import BadFileError
from test_selection.files import convert, read_json, write_json

KIND = "bisect"
FILE = "bisect.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try.

    Attributes:
        round: of the search, from 1.
        position: of the commit.
        passed: whether the test did.
        message: one line of what it said.
        card: it ran on.
    """

    round: int
    position: int
    passed: bool
    message: str = ""
    card: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A commit that may have broken the test, with the number of its pull request if it says one."""

    sha: str
    authored: str
    subject: str
    pull_request: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a search: `count` commits may have broken the test, the first of which are listed."""

    kind: Kind
    sure: bool
    confidence: float
    probability: float
    count: int
    candidates: list[Candidate]


@dataclass(slots=True, kw_only=True)
class Record:
    """A search.

    Attributes:
        test: its id.
        device: the device under test.
        builder: how a commit is prepared.
        repository: the user's clone.
        good: the good end as it was named; empty: from the history.
        bad: the bad end likewise.
        commits: the good end and the candidates in order; the last is the bad end.
        tries: in order.
        skipped: by SHA, why a commit cannot be tried.
        result: None until the search ends.
    """

    test: str
    device: str
    builder: str
    repository: str
    good: str = ""
    bad: str = ""
    commits: list[str] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    result: Result | None = None

    @property
    def last(self) -> int:
        """The position of the bad end."""
        return len(self.commits) - 1

    @property
    def rounds(self) -> int:
        """How many rounds were started."""
        return max((one.round for one in self.tries), default=0)

    def tallies(self) -> dict[int, Tally]:
        """The answers by position."""
        found: dict[int, Tally] = {}
        for one in self.tries:
            seen = Tally(passed=int(one.passed), failed=int(not one.passed))
            found[one.position] = found.get(one.position, Tally()) + seen
        return found

    def belief(self, limits: Bisect, lost: Collection[int] = ()) -> Belief:
        """The probabilities by the record; `lost` are positions at which the machine failed."""
        skipped = {at for at, sha in enumerate(self.commits) if sha in self.skipped}
        return Belief(last=self.last, tallies=self.tallies(), limits=limits, skipped={*skipped, *lost})


def write_record(folder: Path, record: Record) -> None:
    """Write the record into its folder, atomically."""
    write_json(folder / FILE, KIND, asdict(record))


def read_record(folder: Path) -> Record:
    """Read the record of a folder.

    Raises:
        MissingInputError: there is none.
        BadFileError: it is damaged, or of another version.
    """
    path, remedy = folder / FILE, "start again with --fresh"
    record = convert(read_json(path, KIND), Record, where=path, remedy=remedy)
    if record.last < 1 or any(not 0 <= one.position <= record.last for one in record.tries):
        what = f"has {len(record.commits)} commits, or a try of another one"
        raise BadFileError(what, where=path, remedy=remedy)
    return record
