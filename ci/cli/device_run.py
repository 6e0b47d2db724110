"""A run of a project's device tests: the main job over a view of the project, and the record of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ci.config import Settings
from ci.config.run_model import PyTorch
from ci.core.errors import EXIT_OK
from ci.core.resources import available_cores
from ci.main_job.request import RunRequest
from ci.main_job.run import Outcome, run_main_job
from ci.package.context import Context as PackageContext
from ci.package.device_tests import View, installed_version, view_of
from ci.package.records import DEVICE, forget_record
from ci.steps.context import Context
from test_selection.files import read_json

# Neither a share nor a tier's limits: a project's own tests all run.
_ALL = 100.0
_TIER = "weekly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asked for.

    Attributes:
        cards: how many; None: as the settings say.
        retries: of what fails; None: as the settings say.
        files: globs of test files; none: all.
        keyword: over names of tests.
        console: for people.
        environ: the environment.
    """

    cards: int | None = None
    retries: int | None = None
    files: tuple[str, ...] = ()
    keyword: str | None = None
    console: Console
    environ: Mapping[str, str]


def run_device(package: PackageContext, asked: Asked) -> dict[str, Any]:
    """Run the tests that need cards; what is noted of it, the exit code included.

    Raises:
        UsageError: the project is not installed here, or has no such tests.
        RunInUseError: they run already.
        SpyreCiError: of the main job.
    """
    version = installed_version(package.project)
    whole = not (asked.files or asked.keyword)
    if whole:
        forget_record(package.records, DEVICE)
    with package.alone(DEVICE) as work:
        view = view_of(package.project, package.package.tests, work)
        context = _context(settings_for(package.settings, view, work, asked), asked)
        context.say(f"tests of {package.project.name}, of which {version} is installed here")
        request = RunRequest(
            source=str(view.tree),
            percent=_ALL,
            files=asked.files or view.files,
            keyword=asked.keyword,
            tier=_TIER,
        )
        told = _told(run_main_job(context, request), version)
    if whole:
        package.note(DEVICE, passed=told["exit_code"] == EXIT_OK, details=told)
    else:
        context.say("no record: --files and -k run a part")
    return told


def _context(settings: Settings, asked: Asked) -> Context:
    return Context(
        settings=settings,
        environ=asked.environ,
        clock=time.time,
        monotonic=time.monotonic,
        console=asked.console,
        cores=available_cores(),
    )


def settings_for(settings: Settings, view: View, work: Path, asked: Asked) -> Settings:
    """The settings of such a run: those of the project, but for what is about PyTorch's tests.

    The HUD hears of PyTorch's tests alone, and so does their history.

    Args:
        settings: the project's.
        view: its tests.
        work: folder for what is kept between runs.
        asked: flags.
    """
    model = settings.model
    given = {"cards": asked.cards, "retries": asked.retries}
    changed = model.model_copy(
        update={
            "runs": settings.resolve(model.runs) if settings.path else work / "runs",
            "pytorch": PyTorch(rules=view.rules, selection_lock=work / "no-selection.lock.gz"),
            "report": model.report.model_copy(update={"endpoint": "none"}),
            "store": model.store.model_copy(update={"path": work / "store.sqlite", "clickhouse": None}),
            "run": model.run.model_copy(update={key: one for key, one in given.items() if one is not None}),
        }
    )
    return replace(settings, model=changed)


def _told(outcome: Outcome, version: str) -> dict[str, Any]:
    """What the record says of a run."""
    told: dict[str, Any] = {"version": version, "exit_code": outcome.exit_code, "run": None, "verdicts": {}}
    if outcome.folder is None:
        return told
    summary = read_json(outcome.folder.summary, "summary")
    return told | {
        "run": outcome.folder.run,
        "verdicts": summary["verdicts"],
        "planned": summary["planned"],
        "collect_errors": summary["collect_errors"],
        "emulated": any("emulated" in one["back_end"] for one in summary["ran_in"]),
    }
