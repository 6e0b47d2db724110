"""What the first pull request will run, and how many card-minutes that costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ci.config import Settings
from ci.core.errors import SpyreCiError
from ci.core.text import counted
from ci.init.files import SETTINGS
from ci.pipeline.decide import decide
from ci.pipeline.diff import Touched
from ci.pipeline.event import Event
from ci.steps.folder import PLAN_FILE, SELECTION_FILE, find_run
from test_selection.estimates import UNKNOWN_TEST_S
from test_selection.plan import read_plan
from test_selection.selection import read_selection

_CARDS = re.compile(r"_x(\d+)$")
WITHOUT_CARDS = "0 card-minutes: environment `own` is without cards"
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
            # As torch-spyre's runners say how many cards they have.
            cards = [int(found[1]) for one in pipeline.device_runner if (found := _CARDS.search(one))]
            minutes = pipeline.timeouts.device * max(cards, default=1)
            cost = f"at most {minutes} card-minutes, the job's time limit (no plan covers device tests)"
        yield f"first pull request: device tests on {_labels(pipeline.device_runner)}: {cost}"
    row = model.stages[decision.stage]
    tests = "PyTorch's" if model.pytorch.source else "the embedded op suite's"
    stage = f"stage {decision.stage}, {row.percent:g} % of {tests} in-scope tests"
    cost = card_minutes(settings, decision.stage) if on_cards else WITHOUT_CARDS
    if jobs["pytorch"].runs:
        yield f"first pull request: {stage}: {cost}"
    elif pipeline.labels and row.percent:
        yield f"first pull request: no PyTorch tests; the label {pipeline.labels[0]} adds {stage}: {cost}"


def card_minutes(settings: Settings, stage: int) -> str:
    """The card-minutes of a stage by its latest plan, else by its latest selection's count, and by which."""
    runs = settings.resolve(settings.model.runs)
    for holding in (PLAN_FILE, SELECTION_FILE):
        try:
            folder = find_run(runs, "latest", holding=holding)
            selection = read_selection(folder.selection)
            plan = read_plan(folder.plan) if holding == PLAN_FILE else None
        except SpyreCiError:  # none, or one that cannot be read
            continue
        if selection.stage != stage:
            continue
        seconds = len(selection.ids) * UNKNOWN_TEST_S
        source = (
            f"the selection of run {folder.run}, {UNKNOWN_TEST_S:g} s assumed for each, as there is no plan"
        )
        if plan is not None:
            seconds = sum(one.expected_s * one.cards for one in plan.shards)
            source = f"the plan of run {folder.run}"
        tests = counted(len(selection.ids), "test")
        return f"about {seconds / 60:,.1f} card-minutes ({tests}, from {source})"
    unknown = f"card-minutes unknown (no plan or selection of stage {stage} in {runs})"
    return f"{unknown}; plan it first: spyre-ci pytorch --stage {stage} --dry-run"


def _labels(labels: Sequence[str]) -> str:
    return f"[{', '.join(labels)}]"
