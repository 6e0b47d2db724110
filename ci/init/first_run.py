"""What the first pull request will run, and how many card-minutes that costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci.config import Settings
from ci.core.errors import MissingInputError, SpyreCiError
from ci.core.text import counted
from ci.init.files import SETTINGS
from ci.pipeline.decide import decide
from ci.pipeline.diff import Touched
from ci.pipeline.event import Event
from ci.record.identity import RunIdentity, read_identity
from ci.steps.folder import PLAN_FILE, SELECTION_FILE, RunFolder, find_run
from ci.steps.share import Share
from test_selection.durations import read_durations
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.plan import Plan, read_plan
from test_selection.selection import Selection, read_selection

_CARDS = re.compile(r"(?:.*_)?(?:pf|vf|spyre|aiu)_x([0-9]{1,4})")
# Runs that are looked through, from the latest on.
_RUNS = 50
WITHOUT_CARDS = "0 card-minutes: environment `own` is without cards"
NO_CARDS = "0 card-minutes: its label says that this runner has no cards"
_WITHOUT_CARD = {
    "lint": "lint",
    "unit": "unit tests",
    "emulated": "unit tests (emulated)",
    "package": "package",
}


def describe(settings: Settings, files: Sequence[str]) -> Iterator[str]:
    """What a pull request that adds these files runs, a line each.

    Args:
        settings: of the checkout, as they will be.
        files: that it adds.
    """
    model = settings.model
    touched = Touched(files=tuple(files), why="")
    decision = decide(Event(name="pull_request"), touched, model, never_docs=(SETTINGS,))
    jobs, pipeline = decision.jobs, model.pipeline
    without = ", ".join(text for name, text in _WITHOUT_CARD.items() if jobs[name].runs)
    yield f"first pull request: {without} on {_labels(pipeline.runner)}: 0 card-minutes"
    on_cards = pipeline.environment == "image"
    if jobs["device"].runs:
        cost = WITHOUT_CARDS
        if on_cards:
            cards = _cards(pipeline.device_runner)
            assumed = ", one card assumed" if cards is None else ""
            minutes = pipeline.timeouts.device * (1 if cards is None else cards)
            cost = (
                f"at most {minutes} card-minutes, the job's time limit{assumed} (no plan covers device tests)"
            )
            if cards == 0:
                cost = NO_CARDS
        yield f"first pull request: device tests on {_labels(pipeline.device_runner)}: {cost}"
    row = model.stages[decision.stage]
    tests = "PyTorch's" if model.pytorch.source else "the embedded op suite's"
    stage = f"stage {decision.stage}, {row.percent:g} % of {tests} in-scope tests"
    cost = card_minutes(settings, decision.stage) if on_cards else WITHOUT_CARDS
    if on_cards and _cards(model.matrix.labels) == 0:
        cost = NO_CARDS
    if jobs["pytorch"].runs:
        yield f"first pull request: {stage}: {cost}"
    elif pipeline.labels and row.percent:
        yield f"first pull request: no PyTorch tests; the label {pipeline.labels[0]} adds {stage}: {cost}"


def card_minutes(settings: Settings, stage: int) -> str:
    """The card-minutes of a stage by its latest plan, else by its latest selection's count, and by which."""
    runs = settings.resolve(settings.model.runs)
    for holding in (PLAN_FILE, SELECTION_FILE):
        if (found := _whole_stage(settings, stage, runs, holding)) is None:
            continue
        folder, selection, plan = found
        seconds = len(selection.ids) * UNKNOWN_TEST_S
        source = (
            f"the selection of run {folder.run}, {UNKNOWN_TEST_S:g} s assumed for each, as there is no plan"
        )
        if plan is not None:
            seconds = sum(one.expected_s * one.cards for one in plan.shards)
            source = f"the plan of run {folder.run}{_estimated(folder, plan)}"
        tests = counted(len(selection.ids), "test")
        return f"about {seconds / 60:,.1f} card-minutes ({tests}, from {source})"
    unknown = f"card-minutes unknown (no plan or selection of the whole stage {stage} in {runs})"
    return f"{unknown}; plan it first: spyre-ci pytorch --stage {stage} --dry-run"


def _whole_stage(
    settings: Settings, stage: int, runs: Path, holding: str
) -> tuple[RunFolder, Selection, Plan | None] | None:
    """The latest run of all that a stage runs, on the device and kind of tests that the settings name."""
    for back in range(_RUNS):
        try:
            folder = find_run(runs, f"latest-{back}", holding=holding)
        except MissingInputError:
            return None
        try:
            if _is_whole(
                settings, stage, read_identity(folder.path), found := read_selection(folder.selection)
            ):
                return folder, found, read_plan(folder.plan) if holding == PLAN_FILE else None
        except SpyreCiError:  # one that cannot be read
            continue
    return None


def _is_whole(settings: Settings, stage: int, identity: RunIdentity, selection: Selection) -> bool:
    """Whether a run is of all that a stage runs, by these settings."""
    model, row = settings.model, settings.model.stages[stage]
    by = row.by if selection.ladder is None else selection.ladder.by
    whole = Share(stage=stage, percent=row.percent, by=row.by, files=tuple(model.pytorch.files))
    return (
        (selection.stage, selection.percent, by) == (stage, row.percent, row.by)
        and selection.bucket in {None, row.tier}
        and identity.restricted == whole.restricted
        and identity.device == model.device.name
        and (identity.source is None) == (model.pytorch.source is None)
    )


def _estimated(folder: RunFolder, plan: Plan) -> str:
    """How many of a plan's tests were never measured, where the durations beside it say so."""
    try:
        measured = read_durations(folder.durations).spread
    except SpyreCiError:
        return ""
    planned = plan.ids
    guessed = sum(one not in measured for one in planned)
    return f", {guessed:,} of {counted(len(planned), 'duration')} guessed" if guessed else ""


def _cards(labels: Sequence[str]) -> int | None:
    """How many cards a runner has, as torch-spyre's labels say, such as spyre_pf_x2; None: they do not."""
    found = [int(one[1]) for label in labels if (one := _CARDS.fullmatch(label))]
    return max(found, default=None)


def _labels(labels: Sequence[str]) -> str:
    return f"[{', '.join(labels)}]"
