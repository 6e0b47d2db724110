"""The selection: the tests of one stage, by canonical id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from test_selection.files import convert, read_json, write_json
from test_selection.selection_note import OrderNote, TierNote

KIND = "selection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What will run.

    Attributes:
        stage: the row of the roll-out, or None where a percentage was asked for by itself.
        percent: share of the in-scope tests that was asked for, 0 to 100.
        ids: canonical ids, in the order of the catalog.
        in_scope: how many tests the share is taken of.
        in_scope_s: what those are expected to take, in seconds; None where nobody estimated it.
        selected_s: what the selected tests, those of `ids` and those moved, are expected to take; None
            where nobody estimated it.
        out_of_scope: how many tests each reason code left out.
        expectations: for tests whose outcome is declared, the mode and its reason.
        collect_errors: in-scope files that could not be collected, with their error.
        missing: ids that were asked for one by one and are not in the catalog.
        bucket: whose limits held, or None where none were asked.
        moved: by tier, the ids that run there instead, each with the reason.
        beyond: ids that need more than any tier allows, and what; they run in the last tier.
        ladder: how the share came about; None where no share was taken.
    """

    stage: int | None
    percent: float
    ids: list[str]
    in_scope: int = 0
    in_scope_s: float | None = None
    selected_s: float | None = None
    out_of_scope: Mapping[str, int] = field(default_factory=dict)
    expectations: Mapping[str, Expectation] = field(default_factory=dict)
    collect_errors: Mapping[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    bucket: str | None = None
    moved: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    beyond: Mapping[str, str] = field(default_factory=dict)
    ladder: OrderNote | None = None

    @property
    def selected(self) -> int:
        """How many tests were selected: those that run here and those that move to a later tier."""
        return len(self.ids) + sum(len(ids) for ids in self.moved.values())

    @property
    def tier_note(self) -> TierNote | None:
        """How the tier split what was selected; None where no tier's limits held."""
        if self.bucket is None:
            return None
        return TierNote(
            bucket=self.bucket,
            kept=len(self.ids),
            moved={tier: len(ids) for tier, ids in self.moved.items()},
            beyond=len(self.beyond),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How far results may be off: absolute and relative; None leaves the test's own tolerance."""

    atol: float | None = None
    rtol: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a suite file says of a test.

    Attributes:
        mode: `mandatory_success`, `xfail`, `xfail_strict` or `skip`.
        reason: why, in the suite's words.
        where: `file:line` of what decided.
        precision: tolerances for this test alone.
        no_grad: whether it runs without gradients.
        seed: of its random numbers; None leaves PyTorch's own.
        cpu_move: assertions whose tensors are compared on the CPU.
    """

    mode: str
    reason: str = ""
    # Where it is written changes nothing of what is expected.
    where: str = field(default="", compare=False)
    precision: Precision | None = None
    no_grad: bool = False
    seed: int | None = None
    cpu_move: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What files and workers are handed; what says nothing is left out."""
        row: dict[str, Any] = {"mode": self.mode, "reason": self.reason}
        if self.precision is not None:
            row["precision"] = {"atol": self.precision.atol, "rtol": self.precision.rtol}
        rest = {"where": self.where, "no_grad": self.no_grad, "cpu_move": list(self.cpu_move)}
        row |= {key: value for key, value in rest.items() if value}
        return row if self.seed is None else row | {"seed": self.seed}


def write_selection(path: Path, selection: Selection) -> None:
    """Write `selection.json`."""
    content = msgspec.to_builtins(replace(selection, expectations={}))
    expectations = {name: one.as_json() for name, one in selection.expectations.items()}
    write_json(path, KIND, content | {"expectations": expectations})


def read_selection(path: Path) -> Selection:
    """Read `selection.json`; only `stage`, `percent` and `ids` must be there.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind.
    """
    return convert(read_json(path, KIND), Selection, where=path, remedy="select again with `spyre-ci select`")
