"""How many faults a choice of tests by change has caught, as measured; and its file, `recall.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from test_selection.files import convert, read_json, write_json
from test_selection.interval import score_interval

KIND = "recall"
FILE = "recall.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What was measured of one budget.

    Attributes:
        faults: how many faults a full run found.
        caught: of how many of them the chosen tests had one that fails.
        median_share: of the tests that were chosen, 0 to 1, over the faults.
        mean_share: the same.
    """

    faults: int
    caught: int
    median_share: float
    mean_share: float

    def __post_init__(self) -> None:
        """Refuse counts that cannot be.

        Raises:
            ValueError: more faults were caught than there were, or a number is negative.
        """
        if not 0 <= self.caught <= self.faults:
            raise ValueError(f"{self.caught} of {self.faults} faults cannot have been caught")

    @property
    def words(self) -> str:
        """The expected recall with its interval, for people."""
        low, high = score_interval(self.caught, self.faults)
        rate = f"{100 * self.caught / self.faults:.1f} %" if self.faults else "unknown"
        interval = f"{100 * low:.1f} to {100 * high:.1f} %"
        return f"expected recall: {rate} ({interval}, of {self.faults:,} measured faults)"


def write_recall(path: Path, measured: Mapping[str, Recall], *, pytorch: str, device: str) -> None:
    """Write `recall.json`: a row a budget, such as `evidence` or `5%`."""
    budgets = {name: msgspec.to_builtins(one) for name, one in measured.items()}
    write_json(path, KIND, {"pytorch": pytorch, "device": device, "budgets": budgets})


def read_recall(path: Path) -> dict[str, Recall]:
    """Read `recall.json`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind.
    """
    remedy = "measure again with `spyre-ci changes measure`"
    content = read_json(path, KIND)
    return convert(content.get("budgets", {}), dict[str, Recall], where=path, remedy=remedy)
