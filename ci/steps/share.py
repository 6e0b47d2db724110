"""What part of the tests is wanted, resolved against the roll-out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ci.core.errors import UsageError
from ci.steps.context import Context
from test_selection.errors import did_you_mean
from test_selection.selection_order import By
from test_selection.tiers import TIERS

DEFAULT_TIER = "nightly"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRequest:
    """What part of the tests the user asked for; None and nothing where the settings decide.

    `whole_files` are those that are named, and what a past run could not collect.
    """

    stage: int | None = None
    percent: float | None = None
    by: str | None = None
    files: tuple[str, ...] = ()
    keyword: str | None = None
    ids: tuple[str, ...] = ()
    whole_files: tuple[str, ...] = ()
    tier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What part of the tests is wanted.

    Attributes:
        stage: the row of the roll-out, or None where a percentage was asked for by itself.
        percent: of the in-scope tests, 0 to 100.
        by: what the share is of, `count` or `seconds`.
        files: globs of test files.
        keyword: an expression of pytest's `-k`.
        ids: test ids; when given, these and no others.
        whole_files: names of files whose tests are all taken, beside those of `ids`.
        tier: whose limits hold for what is not named by id.
    """

    stage: int | None
    percent: float
    by: By = "count"
    files: tuple[str, ...] = ()
    keyword: str | None = None
    ids: tuple[str, ...] = ()
    whole_files: tuple[str, ...] = ()
    tier: str = DEFAULT_TIER

    @property
    def one_by_one(self) -> bool:
        """Whether tests are named, by id or by whole files, so that no share of them is taken."""
        return bool(self.ids or self.whole_files)

    @property
    def restricted(self) -> str:
        """What leaves tests out besides the share, for people; empty where nothing does."""
        parts = {
            "tests named one by one": self.one_by_one,
            f"files {', '.join(self.files)}": bool(self.files),
            f"-k {self.keyword}": bool(self.keyword),
        }
        return "; ".join(part for part, holds in parts.items() if holds)

    @property
    def label(self) -> str:
        """What a run of it is called."""
        return f"stage{self.stage}" if self.stage is not None else f"{self.percent:g}pct"


def known_tier(name: str) -> str:
    """A tier's name, unchanged.

    Raises:
        UsageError: there is no such tier.
    """
    if name not in TIERS:
        raise UsageError(
            f"there is no tier {name!r}",
            where="--tier",
            remedy=did_you_mean(name, TIERS, f"known: {', '.join(TIERS)}"),
        )
    return name


def share_of(context: Context, request: ShareRequest) -> Share:
    """Resolve what was asked for against the roll-out.

    Raises:
        UsageError: a stage the roll-out does not have, a percentage there cannot be, both of them, or a share
            of something else than count or seconds.
    """
    model, stage, percent = context.settings.model, request.stage, request.percent
    tier = known_tier(request.tier) if request.tier is not None else None
    if request.by not in {None, "count", "seconds"}:
        raise UsageError(f"--by is {request.by!r}", remedy="give count or seconds")
    if stage is not None and percent is not None:
        raise UsageError(
            f"both --stage {stage} and --percent {percent:g} are given", remedy="give one of them"
        )
    if percent is not None and not 0 <= percent <= 100:  # noqa: PLR2004  # per cent
        raise UsageError(f"--percent is {percent:g}", remedy="give a number from 0 to 100")
    named = Share(
        stage=None,
        percent=100,
        files=request.files,
        keyword=request.keyword,
        ids=request.ids,
        whole_files=request.whole_files,
    )
    if named.one_by_one:
        if stage is not None or percent is not None:
            context.detail("named tests all run, whatever the stage or percentage")
        return named
    by: By = "seconds" if request.by == "seconds" else "count"
    share = replace(named, files=request.files or tuple(model.pytorch.files), by=by)
    if percent is not None:
        return replace(share, percent=percent, tier=tier or DEFAULT_TIER)
    number = model.stage if stage is None else stage
    if number not in model.stages:
        rows = ", ".join(f"{one} ({row.percent:g} %)" for one, row in sorted(model.stages.items()))
        where = "--stage" if stage is not None else "stage (settings)"
        raise UsageError(f"there is no stage {number}", where=where, remedy=f"the stages are {rows}")
    row = model.stages[number]
    return replace(
        share,
        stage=number,
        percent=row.percent,
        by=by if request.by is not None else row.by,
        tier=tier or row.tier,
    )
