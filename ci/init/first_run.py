"""What the first pull request will run, and how many card-minutes that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ci.config import Settings
from ci.core.errors import MissingInputError
from ci.core.text import counted
from ci.init.files import SETTINGS
from ci.pipeline.decide import decide
from ci.pipeline.diff import Touched
from ci.pipeline.event import Event
from ci.steps.folder import PLAN_FILE, SELECTION_FILE, find_run
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.plan import read_plan
from test_selection.selection import read_selection

_WITHOUT_CARD = {
    "lint": "lint",
    "unit": "unit tests",
    "emulated": "unit tests (emulated)",
    "package": "package",
}


class Cost(NamedTuple):
    """Card-minutes of a stage, and what says so; None where nothing does."""

    minutes: float | None
    source: str


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
        cost = "0 card-minutes: environment `own` is without cards"
        if on_cards:
            minutes = pipeline.timeouts.device
            cost = f"at most {minutes} card-minutes, the job's time limit (no plan covers device tests)"
        yield f"first pull request: device tests on {_labels(pipeline.device_runner)}: {cost}"
    row = model.stages[decision.stage]
    tests = "PyTorch's" if model.pytorch.source else "the embedded op suite's"
    stage = f"stage {decision.stage}, {row.percent:g} % of {tests} in-scope tests"
    cost = _text(cost_of(settings, decision.stage), decision.stage, on_cards=on_cards)
    if jobs["pytorch"].runs:
        yield f"first pull request: {stage}: {cost}"
    elif pipeline.labels and row.percent:
        yield f"first pull request: no PyTorch tests; the label {pipeline.labels[0]} adds {stage}: {cost}"


def cost_of(settings: Settings, stage: int) -> Cost:
    """Card-minutes of a stage: from its latest plan, else from the count of its latest selection."""
    runs = settings.resolve(settings.model.runs)
    for holding in (PLAN_FILE, SELECTION_FILE):
        try:
            folder = find_run(runs, "latest", holding=holding)
            selection = read_selection(folder.selection)
        except MissingInputError:
            continue
        if selection.stage != stage:
            continue
        tests = counted(len(selection.ids), "test")
        if holding == PLAN_FILE:
            seconds = sum(one.expected_s * one.cards for one in read_plan(folder.plan).shards)
            return Cost(seconds / 60, f"from the plan of run {folder.run}: {tests}")
        each = f"{UNKNOWN_TEST_S:g} s assumed for each, as there is no plan"
        return Cost(
            len(selection.ids) * UNKNOWN_TEST_S / 60, f"from the selection of {folder.run}: {tests}, {each}"
        )
    return Cost(None, f"no plan or selection of stage {stage} in {runs}")


def _text(cost: Cost, stage: int, *, on_cards: bool) -> str:
    if not on_cards:
        return "0 card-minutes: environment `own` is without cards"
    if cost.minutes is None:
        return (
            f"card-minutes unknown ({cost.source}); plan it first: spyre-ci pytorch --stage {stage} --dry-run"
        )
    return f"about {cost.minutes:,.1f} card-minutes ({cost.source})"


def _labels(labels: Sequence[str]) -> str:
    return f"[{', '.join(labels)}]"
