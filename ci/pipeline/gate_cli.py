"""`spyre-ci pipeline gate`: the one check that a branch has to require."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ci.pipeline.gate import judge, read_needs, refuse_red
from ci.pipeline.telling import show_table


def gate(
    expect: Annotated[str, typer.Option("--expect", help="Jobs that must be accounted for: lint,unit,…")],
) -> None:
    """Judge the jobs of NEEDS, GitHub's toJSON(needs): 0 when all were enough, else 1.

    Example: NEEDS="$(cat needs.json)" spyre-ci pipeline gate --expect lint,unit
    """
    expected = [one.strip() for one in expect.split(",") if one.strip()]
    jobs = judge(read_needs(os.environ.get("NEEDS", "")), expected)
    show_table("Gate", ("job", "", "why"), [(one.name, one.state, one.why) for one in jobs], os.environ)
    refuse_red(jobs)
