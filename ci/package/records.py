"""What is noted of each step of packaging, so that gates can ask for it: one JSON file a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.errors import BadFileError, MissingInputError
from test_selection.files import read_json, write_json

LINT, UNIT, DEVICE, BUILD, VERIFY = "lint", "unit", "device", "build", "verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one step found.

    Attributes:
        step: lint, unit, device, build or verify.
        project: its name, as indexes spell it.
        commit: of the checkout; empty where there was none.
        dirty: files that differed from the commit.
        passed: whether the step found nothing wrong.
        details: what else the step notes.
    """

    step: str
    project: str
    commit: str
    dirty: tuple[str, ...] = ()
    passed: bool
    details: Mapping[str, Any]


def write_record(folder: Path, record: Record) -> Path:
    """Write a step's record, `<step>.json`, in place of an earlier one; its path."""
    path = folder / f"{record.step}.json"
    write_json(
        path,
        f"package-{record.step}",
        {
            "project": record.project,
            "commit": record.commit,
            "dirty": list(record.dirty),
            "passed": record.passed,
            **record.details,
        },
    )
    return path


def forget_record(folder: Path, step: str) -> None:
    """Delete a step's record before the step is made again: if that broke, the old would still pass."""
    (folder / f"{step}.json").unlink(missing_ok=True)


def read_record(folder: Path, step: str) -> Record:
    """The record of a step.

    Raises:
        MissingInputError: the step was not made.
        BadFileError: the file is damaged.
    """
    path = folder / f"{step}.json"
    if not path.is_file():
        raise MissingInputError(
            f"there is no record of `{step}`", where=path, remedy=f"run it first: spyre-ci package {step}"
        )
    content = read_json(path, f"package-{step}")
    try:
        return Record(
            step=step,
            project=_text(content.pop("project")),
            commit=_text(content.pop("commit")),
            dirty=tuple(map(_text, content.pop("dirty"))),
            passed=content.pop("passed") is True,
            details=content,
        )
    except (KeyError, TypeError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=path,
            remedy=f"run the step again: spyre-ci package {step}",
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
