"""The command that runs a test of a run once more, for whoever reads of its failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ci.core.text import shell_line
from ci.live.words import Again
from ci.record.identity import read_identity, reproduce_command
from ci.steps.folder import RunFolder


def again_of(folder: RunFolder, seed: int | None, as_try: Mapping[str, int] | None = None) -> Again:
    """What gives the command, by the test's id and try; of a bare plan that came alone, its id.

    Args:
        folder: of the run.
        seed: of the run, as its plan has it.
        as_try: by id, the try whose seed a test has, where one is brought back.
    """
    if not folder.identity.is_file():
        return lambda name, _: f"spyre-ci pytorch {shell_line([name])}"
    identity = replace(read_identity(folder.path), seed=seed)
    others = as_try or {}
    return lambda name, attempt: reproduce_command(name, identity, others.get(name, attempt))
