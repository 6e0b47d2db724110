"""What a change runs: which jobs, which stage of PyTorch's tests, and what of it blocks a merge.

And whether GitHub's release goes to an index: finished, and of what was merged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ci.config.model import SettingsModel
from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.core.git import find_object, git
from ci.pipeline.diff import Touched
from ci.pipeline.event import Event, at, text_at
from test_selection.patterns import compile_glob

ALWAYS = "always"
# Wherever they lie, somebody may run them: docs/conf.py, docs/conftest.py.
PROGRAMS = frozenset({".py", ".pyi", ".sh"})
CODE_JOBS = ("unit", "emulated", "package")
JOBS = ("lint", *CODE_JOBS, "pytorch", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a job runs, and why."""

    runs: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What runs.

    Attributes:
        jobs: by name.
        stage: row of the roll-out whose PyTorch tests run, or would.
        blocking: jobs that need not be green, or must, by name.
        remarks: what else people should know.
    """

    jobs: Mapping[str, Verdict]
    stage: int
    blocking: Mapping[str, bool]
    remarks: Sequence[str] = ()


def decide(
    event: Event, change: Touched, model: SettingsModel, *, never_docs: Sequence[str] = ()
) -> Decision:
    """What a change runs.

    Args:
        event: what began the pipeline.
        change: what it touches.
        model: the settings.
        never_docs: names of files that decide what runs, so that no glob makes documents of them.

    Raises:
        UsageError: a stage the roll-out does not have.
    """
    asked, remarks = _asked(event, model)
    usual = _usual(event, model)
    stage = _greater(usual, asked, model)
    tested = stage if stage is not None else model.stage
    row = _row(model, tested)
    code = _code(change, model.pipeline.docs, never_docs)
    if event.name == "merge_group":
        # Its base is the entry before it, which may be merged by this entry's checks alone.
        code = Verdict(runs=True, why="a merge queue tests all that is merged")
    jobs = {"lint": Verdict(runs=True, why=ALWAYS), **dict.fromkeys(CODE_JOBS, code)}
    if not model.package.tests.emulated:
        jobs["emulated"] = Verdict(runs=False, why="package.tests.emulated is false")
    cards = _on_cards(event, model)
    if asked is not None:
        more = "" if stage == asked else f", and stage {stage} runs in any case"
        wanted = Verdict(runs=True, why=f"a label requests stage {asked}{more}")
    elif stage is None:
        wanted = Verdict(runs=False, why=f"no stage is set for a {event.name}, and no label requests one")
    else:
        wanted = Verdict(runs=code.runs, why=code.why if not code.runs else f"stage {stage}")
    if row.percent == 0:
        wanted = Verdict(runs=False, why=f"stage {tested} runs 0 % of the tests")
    jobs["pytorch"] = cards if wanted.runs and not cards.runs else wanted
    jobs["device"] = cards if code.runs and not cards.runs else code
    return Decision(
        jobs=jobs,
        stage=tested,
        blocking={"pytorch": _blocks(row, usual, code, model), "device": model.stage >= 1},
        remarks=remarks,
    )


def _greater(usual: int | None, asked: int | None, model: SettingsModel) -> int | None:
    """The stage with the greater share: a label, which many may set, asks for more and never for less."""
    given = [one for one in (usual, asked) if one is not None]
    return max(given, key=lambda one: (_row(model, one).percent, one == usual), default=None)


def _blocks(row: Any, usual: int | None, code: Verdict, model: SettingsModel) -> bool:
    """Whether PyTorch's tests have to be green: where they block unasked, no label takes that back."""
    required = usual is not None and code.runs and _row(model, usual)
    return bool(row.blocking or (required and required.blocking and required.percent))


def outputs_of(decision: Decision, model: SettingsModel) -> dict[str, Any]:
    """A decision as the outputs of a job, by name."""
    return {
        **{name: one.runs for name, one in decision.jobs.items()},
        "stage": decision.stage,
        **{f"{name}_blocking": blocks for name, blocks in decision.blocking.items()},
        "timeouts": model.pipeline.timeouts.model_dump(),
        "runner": list(model.pipeline.runner),
        "device_runner": list(model.pipeline.device_runner),
        "environment": model.pipeline.environment,
        "device_tested": model.pipeline.device_tested,
    }


def _code(change: Touched, docs: Sequence[str], never_docs: Sequence[str]) -> Verdict:
    """Whether what is tested can have changed."""
    if change.files is None:
        return Verdict(runs=True, why=f"what changed is not known: {change.why}")
    globs = [compile_glob(one) for one in docs]
    code = [
        name
        for name in change.files
        if PurePosixPath(name).name in never_docs
        or PurePosixPath(name).suffix in PROGRAMS
        or not any(one.fullmatch(name) for one in globs)
    ]
    if not code:
        return Verdict(runs=False, why=f"only documents change ({len(change.files):,})")
    others = f" and {len(code) - 1:,} more" if len(code) > 1 else ""
    return Verdict(runs=True, why=f"{code[0]}{others}")


def _asked(event: Event, model: SettingsModel) -> tuple[int | None, list[str]]:
    """The stage that labels ask for, the greatest of several, and what is no such label."""
    wanted = {label: number for label in event.labels if (number := _asks_for(label, model)) is not None}
    stages = [number for number in wanted.values() if number in model.stages]
    remarks = [
        f"label {label}: there is no stage {number}"
        for label, number in wanted.items()
        if number not in model.stages
    ]
    return max(stages, default=None), remarks


def _asks_for(label: str, model: SettingsModel) -> int | None:
    """The number of the stage that a label asks for, be there one or not; None for another label."""
    for prefix in model.pipeline.labels:
        if label == prefix:
            return model.stage
        if found := re.fullmatch(re.escape(prefix) + r"-stage-([0-9]{1,9})", label):
            return int(found[1])
    return None


def _usual(event: Event, model: SettingsModel) -> int | None:
    """The stage that an event runs unasked; None for none."""
    settings = model.pipeline
    if event.name not in {"pull_request", "merge_group", "push"}:
        return model.stage  # a schedule, a release, or somebody by hand: begun for this
    own = {"merge_group": settings.merge_group_stage, "push": settings.push_stage}.get(event.name)
    if own is not None:
        return own
    if settings.pull_request_stage is not None:
        return settings.pull_request_stage
    return model.stage if _row(model, model.stage).tier == "pr" else None


def _on_cards(event: Event, model: SettingsModel) -> Verdict:
    forks = model.pipeline.forks
    # Whoever sets a label has seen the commit it is set on, and none that is pushed later.
    asks = bool(event.labelled) and _asks_for(event.labelled, model) in model.stages
    if not event.fork or forks == "run" or (forks == "label" and asks):
        return Verdict(runs=True, why="")
    until = " until a label requests it, for the commit it is set on" if forks == "label" else ""
    return Verdict(runs=False, why=f"it comes from a fork, which gets no cards{until}")


def _row(model: SettingsModel, number: int) -> Any:
    if number not in model.stages:
        known = ", ".join(map(str, sorted(model.stages)))
        raise UsageError(
            f"there is no stage {number}", where="stage (settings)", remedy=f"the stages are {known}"
        )
    return model.stages[number]


class NotMergedError(SpyreCiError):
    """A release of a commit that the default branch does not hold."""

    exit_code = EXIT_TEST_FAILED


def release_of(payload: Mapping[str, Any], checkout: Path) -> Verdict:
    """Whether a release is published, and why.

    Args:
        payload: of GitHub's event.
        checkout: of the release's tag, with the whole history.

    Raises:
        NotMergedError: what is released was never merged.
        UsageError: this clone lacks the default branch, or the event does not name it.
    """
    if at(payload, "release", "prerelease") is not False or at(payload, "release", "draft") is not False:
        return Verdict(runs=False, why="a prerelease or a draft is not published")
    branch = text_at(payload, "repository", "default_branch")
    tip = f"refs/remotes/origin/{branch}"
    if not find_object(checkout, f"{tip}^{{commit}}"):
        raise UsageError(
            f"it is unknown whether the release was merged: {tip:.80} is not in this clone",
            where=checkout,
            remedy="check out with fetch-depth: 0, in the job that the release started",
        )
    if git(checkout, "rev-list", "--max-count=1", "HEAD", f"^{tip}", "--").strip():
        raise NotMergedError(
            f"the released commit is not on {branch:.60}",
            where=checkout,
            remedy=f"merge it first, and set the tag on {branch:.60}",
        )
    return Verdict(runs=True, why=f"the released commit is on {branch:.60}")
