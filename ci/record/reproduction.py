"""The mark of a folder where a test was brought back: it is nobody's latest run, and says when it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FILE, KIND = "reproduce.json", "reproduce"


def content_of(test: str, run: str, ran: Sequence[tuple[str, str]] | None) -> dict[str, Any]:
    """What the mark holds.

    Args:
        test: its test id.
        run: that it failed in; empty where none is known.
        ran: verdict and difference of each try; None while it runs.
    """
    tries = None if ran is None else [{"verdict": verdict, "differs": differs} for verdict, differs in ran]
    return {"id": test, "run": run, "ran": tries}


def has_ended(content: Mapping[str, Any]) -> bool:
    """Whether what a mark says came to its end; what was killed meanwhile did not."""
    return content.get("ran") is not None
