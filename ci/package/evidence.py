"""Reading what gates ask for: the records of each step, and runs of PyTorch's tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.core.addresses import without_credentials
from ci.core.errors import BadFileError, MissingInputError
from ci.package.gates import MERGE_STEPS, Run
from ci.package.records import Record, read_record
from ci.record.environment import ran_in_of, rows_of
from test_selection.files import read_json

SUMMARY_FILE = "summary.json"
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def records_in(folder: Path) -> dict[str, Record | None]:
    """The record of every step that gates ask for; None where it was not made.

    Raises:
        BadFileError: one is damaged.
    """
    found: dict[str, Record | None] = {}
    for step in MERGE_STEPS:
        try:
            found[step] = read_record(folder, step)
        except MissingInputError:
            found[step] = None
    return found


def read_run(where: Path) -> Run:
    """A run, by its folder or its `summary.json`.

    Raises:
        MissingInputError: there is no summary.
        BadFileError: it is damaged, or of a release of spyre-ci that noted too little.
    """
    path = where / SUMMARY_FILE if where.is_dir() else where
    return run_from_json(read_json(path, "summary"), path)


def run_from_json(content: Mapping[str, Any], where: Path) -> Run:
    """The run of a summary.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    try:
        identity = content["identity"]
        stage, commit = identity["stage"], str(identity.get("commit", ""))
        return Run(
            name=str(identity["run"]),
            run_id=int(identity["run_id"]),
            url=without_credentials(str(identity["url"])),
            stage=None if stage is None else _whole(stage),
            percent=float(identity["percent"]),
            exit_code=_whole(content["exit_code"]),
            planned=_whole(content["planned"]),
            verdicts={str(name): _whole(count) for name, count in content["verdicts"].items()},
            pytorch=str(identity["pytorch_sha"]),
            commit=commit if _COMMIT.fullmatch(commit) else "",
            ran_in=tuple(
                ran_in_of(one.get("back_end"), one.get("torch"), one.get("image"))
                for one in content.get("ran_in", ())
            ),
            restricted=str(identity.get("restricted", "")),
            forgiven=_whole((content.get("quarantine") or {}).get("forgiven", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=where,
            remedy="report the run again: spyre-ci report --run-dir DIR",
        ) from error


def run_to_json(run: Run) -> dict[str, Any]:
    """As `release.json` holds it: what `run_from_json` reads."""
    identity = {
        "run": run.name, "run_id": run.run_id, "url": run.url, "stage": run.stage, "percent": run.percent,
        "pytorch_sha": run.pytorch, "commit": run.commit,
        "restricted": run.restricted,
    }  # fmt: skip
    return {
        "identity": identity,
        "exit_code": run.exit_code,
        "planned": run.planned,
        "ran_in": rows_of(run.ran_in),
        "verdicts": dict(run.verdicts),
        "quarantine": {"forgiven": run.forgiven},
    }


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
