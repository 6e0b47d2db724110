"""What the releases of this checkout name, for whoever removes anything."""

from __future__ import annotations

from collections.abc import Callable

from ci.report.released import Released, read_released
from ci.steps.context import Context


def read_releases(context: Context) -> Released:
    """What all releases name that the settings lead to."""
    settings, model = context.settings, context.settings.model
    places = [settings.resolve(model.package.dist), settings.resolve(model.package.records)]
    return read_released(places, named=[settings.resolve(path) for path in model.retention.releases])


def why_kept(released: Released, run: str, run_id: int) -> str:
    """Why a run of the history stays, by what the history calls it and its number; empty: it may go."""
    # A CI's runs have its workflow and lane before their readable id.
    if released.names_run(run.rpartition("/")[2], run_id):
        return "a release names it"
    return "a release that cannot be read may name it" if released.broken else ""


def kept_by_releases(released: Released) -> Callable[[str, int], bool]:
    """Whether a run of the history stays, by what the history calls it and its number."""
    return lambda run, run_id: bool(why_kept(released, run, run_id))
