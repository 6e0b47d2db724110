"""The command that runs a test of a run once more, for whoever reads of its failure."""

from __future__ import annotations

from dataclasses import replace

from ci.live.words import Again
from ci.report.identity import read_identity, reproduce_command
from ci.report.text import shell_line
from ci.steps.folder import RunFolder


def again_of(folder: RunFolder, seed: int | None) -> Again:
    """What gives the command, by the test's id and try; of a bare plan that came alone, its id.

    Args:
        folder: of the run.
        seed: of the run, as its plan has it.
    """
    if not folder.identity.is_file():
        return lambda name, _: f"--id {shell_line([name])}"
    identity = replace(read_identity(folder.path), seed=seed)
    return lambda name, attempt: reproduce_command(name, identity, attempt)
