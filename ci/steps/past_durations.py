"""What earlier runs took, by the history or by what was exported of one."""

from __future__ import annotations

from ci.report.history import export_durations
from ci.steps.context import Context
from test_selection.durations import Durations, read_durations
from test_selection.errors import SpyreCiError


def past_durations(context: Context, device: str) -> Durations:
    """The seconds earlier runs on a device took, for the planner; empty where nothing usable tells them.

    The history knows them, or, where there is none, the file that was exported of one elsewhere.
    """
    path = context.history
    exported = context.settings.resolve(context.settings.model.plan.durations)
    try:
        if path.is_file():
            return export_durations(path, device=device)
        return read_durations(exported) if exported.is_file() else Durations()
    except SpyreCiError as error:
        what = "history" if path.is_file() else "durations"
        context.say(f"{what}: not read, so seconds are guessed: {error}")
        return Durations()
