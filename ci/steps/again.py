"""The command that runs a test of a run once more, for whoever reads of its failure."""

from __future__ import annotations

from ci.live.words import Again
from ci.report.identity import read_identity, reproduce_command
from ci.report.text import shell_line
from ci.steps.folder import RunFolder


def again_of(folder: RunFolder) -> Again:
    """What gives the command, by the test's id; of a bare plan that came alone, its id."""
    if not folder.identity.is_file():
        return lambda name: f"--id {shell_line([name])}"
    identity = read_identity(folder.path)
    return lambda name: reproduce_command(name, identity)
