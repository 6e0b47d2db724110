"""What is noted of each step of packaging, so that gates can ask for it: one JSON file a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError
from test_selection.files import convert, read_json, write_json

LINT, UNIT, DEVICE, BUILD, VERIFY = "lint", "unit", "device", "build", "verify"


@dataclass(frozen=True, slots=True)
class _File:
    """A file that a record is of."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What of a record is read again."""

    project: str
    commit: str
    dirty: tuple[str, ...]
    passed: bool
    files: tuple[_File, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one step found.

    Attributes:
        step: lint, unit, device, build or verify.
        project: its name, as indexes spell it.
        commit: of the checkout; empty where there was none.
        dirty: files that differed from the commit.
        passed: whether the step found nothing wrong.
        details: what else the step notes; `files` are those it is of.
    """

    step: str
    project: str
    commit: str
    dirty: tuple[str, ...] = ()
    passed: bool
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 by file name, of the files it is of."""
        return {one["name"]: one["sha256"] for one in self.details.get("files", ())}


def write_record(folder: Path, record: Record) -> Path:
    """Write a step's record, `<step>.json`, in place of an earlier one; its path."""
    path = folder / f"{record.step}.json"
    own = {name: getattr(record, name) for name in ("project", "commit", "dirty", "passed")}
    write_json(path, f"package-{record.step}", {**record.details, **own})
    return path


def forget_record(folder: Path, step: str) -> None:
    """Delete a step's record before the step is made again: if that broke, the old would still pass."""
    _path(folder, step).unlink(missing_ok=True)


def _path(folder: Path, step: str) -> Path:
    """Where a step's record is.

    A CI's jobs hand their records on as artifacts, each in a folder `record-<step>` of its own. In the folder
    of one job no other step's record is looked for, whatever the project's code has put there.
    """
    handed_on = folder / f"record-{step}"
    return (handed_on if handed_on.is_dir() else folder) / f"{step}.json"


def read_record(folder: Path, step: str) -> Record:
    """The record of a step.

    Raises:
        MissingInputError: the step was not made.
        BadFileError: the file is damaged.
    """
    path, again = _path(folder, step), f"spyre-ci package {step}"
    if not path.is_file():
        raise MissingInputError(
            f"there is no record of `{step}`", where=path, remedy=f"run it first: {again}"
        )
    remedy = f"run the step again: {again}"
    try:
        content = read_json(path, f"package-{step}")
    except BadFileError as error:
        raise BadFileError(error.what, where=path, remedy=remedy) from error
    known = convert(content, _Content, where=path, remedy=remedy)
    return Record(
        step=step, project=known.project, commit=known.commit, dirty=known.dirty, passed=known.passed,
        details=content,
    )  # fmt: skip


def find_record(folder: Path, step: str) -> Record | None:
    """The record of a step; None where it was not made.

    Raises:
        BadFileError: it is damaged.
    """
    return read_record(folder, step) if _path(folder, step).is_file() else None
