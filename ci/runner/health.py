"""Strikes of a card, and the bench: what a sick card has done, kept beside its lease. Mostly pure.

A strike counts as long as a bench lasts. So many of them bench the card; when that is over, it begins
anew. Only who holds a card's lease writes its file, so that no strike is lost.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from ci.core.errors import BadFileError, SpyreCiError
from ci.core.text import counted
from test_selection.files import read_json, write_json

KIND = "card-health"
_REASON_LIMIT = 500
# Seconds since the epoch, before the year 5138: one beyond it is a mistake that no calendar can show.
_Moment = Annotated[float, msgspec.Meta(ge=0, lt=1e11)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a card is benched.

    Attributes:
        strikes: after how many.
        bench_s: for how many seconds; also how long a strike counts.
    """

    strikes: int = 3
    bench_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault of a card.

    Attributes:
        at: seconds since the epoch.
        reason: what it did.
        run: in which run.
    """

    at: _Moment
    reason: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of a card.

    Attributes:
        strikes: those that count, the oldest first.
        benched_until: seconds since the epoch; None while it plays.
    """

    strikes: tuple[Strike, ...] = ()
    benched_until: _Moment | None = None

    @property
    def reason(self) -> str:
        """Its last fault."""
        return self.strikes[-1].reason if self.strikes else "no reason was noted"

    def __str__(self) -> str:
        if self.benched_until is None:
            return counted(len(self.strikes), "fault")
        until = datetime.fromtimestamp(self.benched_until).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return f"out of use until {until}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFiles:
    """A file a card in the folder of leases."""

    folder: Path
    rules: Rules = field(default_factory=Rules)

    def path(self, card: str) -> Path:
        """Where a card's strikes are."""
        return self.folder / f"{card}.health.json"

    def read(self, card: str, now: float) -> Health:
        """What is known of a card; nothing where there is no file.

        Raises:
            BadFileError: the file is not what its name promises.
        """
        path = self.path(card)
        try:
            if not path.exists():
                return Health()
            # A file that says nothing of strikes is none.
            row = {"strikes": None, **read_json(path, KIND)}
            return current(msgspec.convert(row, Health), now, self.rules)
        except ValueError as error:
            raise _bad(path, str(error)) from error
        except OSError as error:
            raise _bad(path, error.strerror or str(error)) from error
        except SpyreCiError as error:
            raise _bad(path, error.what) from error

    def write(self, card: str, health: Health) -> None:
        """Keep what is known of a card; the caller holds its lease.

        Raises:
            OSError: the file cannot be written.
        """
        write_json(self.path(card), KIND, {"card": card, **asdict(health)})


def current(health: Health, now: float, rules: Rules) -> Health:
    """What of a card's past still counts."""
    if health.benched_until is not None:
        return health if now < health.benched_until else Health()
    return Health(strikes=tuple(one for one in health.strikes if abs(now - one.at) < rules.bench_s))


def struck(health: Health, strike: Strike, rules: Rules) -> Health:
    """A card's health after one more fault."""
    known = current(health, strike.at, rules)
    strikes = (*known.strikes, strike)
    benched = strike.at + rules.bench_s if len(strikes) >= rules.strikes else known.benched_until
    return Health(strikes=strikes, benched_until=benched)


def strike(now: float, reason: str, run: str) -> Strike:
    """A fault at this moment; what the card said is cut to what a file should hold."""
    return Strike(at=round(now, 3), reason=" ".join(reason.split())[:_REASON_LIMIT], run=run)


def _bad(path: Path, said: str) -> BadFileError:
    return BadFileError(
        f"is not a health record of a card: {said}",
        where=path,
        remedy="delete it; the card is checked anyway",
    )
