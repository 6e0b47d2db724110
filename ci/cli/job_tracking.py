"""Telling MLflow of a job: begun when it is submitted, ended when its run is collected."""

from __future__ import annotations

import os

from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.jobs.tracking import Tracker
from ci.steps.context import Context
from ci.steps.folder import RunFolder


def tracker_of(context: Context, folder: RunFolder) -> Tracker:
    """The tracker of a run folder; it does nothing where the spec tracks nothing."""
    return Tracker(
        folder=folder.path,
        environ=os.environ,
        clock=context.clock,
        warn=lambda line: context.say(defused(plain(line))),
    )
