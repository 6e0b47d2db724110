"""What a prune is asked for, and how much of each kind that keeps. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ci.config.model import SettingsModel
from ci.retention.caches import CACHES, WORKTREES
from ci.retention.folders import BISECTS, REPRODUCTIONS, RUNS
from ci.retention.images import IMAGES
from ci.retention.things import GIB, Rule

HISTORY, HUD = "history", "hud"
KINDS = (RUNS, REPRODUCTIONS, BISECTS, CACHES, WORKTREES, IMAGES, HISTORY, HUD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a prune is asked for.

    Attributes:
        only: kinds; none: all.
        keep_days: in place of the settings'.
        keep_gib: the same.
        keep_last: the same.
        cut_off: whether what was cut off goes too, once it is old enough.
        dry_run: whether nothing is removed.
    """

    only: frozenset[str] = frozenset()
    keep_days: float | None = None
    keep_gib: float | None = None
    keep_last: int | None = None
    cut_off: bool = False
    dry_run: bool = False

    def wants(self, kind: str) -> bool:
        """Whether a kind is looked at."""
        return not self.only or kind in self.only


def rule_of(model: SettingsModel, wish: Wish, kind: str) -> Rule:
    """How much of a kind is kept: the settings, and flags before them.

    Flags that name no kind are not for the stores: what a cache may lose in a week, a history may not.
    """
    if kind in {HISTORY, HUD}:
        days: float | None = model.history.keep_days if kind == HISTORY else model.hud.keep_days
        gib = model.retention.history.keep_gib if kind == HISTORY else None
        last = model.retention.history.keep_last if kind == HISTORY else 0
        flags = kind in wish.only
    else:
        keep = getattr(model.retention, kind)
        days, gib, last, flags = keep.keep_days, keep.keep_gib, keep.keep_last, True
    if flags:
        days = days if wish.keep_days is None else wish.keep_days
        gib = gib if wish.keep_gib is None else wish.keep_gib
        last = last if wish.keep_last is None else wish.keep_last
    return Rule(
        keep_days=days,
        keep_bytes=None if gib is None else gib * GIB,
        keep_last=last,
        cut_off=wish.cut_off,
    )
