"""How a run ends: its exit code, the last of its events, and how to go on with it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ci.core.errors import EXIT_INTERRUPTED
from ci.record.verdict import Verdict
from ci.report.live.events import Sink, run_end
from ci.steps.context import Context
from ci.steps.folder import RunFolder


def end_run(
    context: Context,
    folder: RunFolder,
    verdicts: Mapping[Verdict, int] | Mapping[str, int],
    code: int,
    *,
    interrupted: bool,
    events: Sink | None,
) -> int:
    """Tell those who follow the events how a run ended, and people how to go on with one that was cut off.

    Args:
        context: the outside world.
        folder: of the run.
        verdicts: how many planned tests came to each verdict.
        code: what the report ends with.
        interrupted: whether the run was ended early.
        events: takes what happens, for other tools.

    Returns:
        The command's exit code.
    """
    code = EXIT_INTERRUPTED if interrupted else code
    if events is not None:
        events.write(run_end(verdicts, code))
    if interrupted:
        context.say(f"to go on from here: spyre-ci run --resume {shlex.quote(str(folder.path))}")
    return code
