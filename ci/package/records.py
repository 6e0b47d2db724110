"""What is noted of each step of packaging, so that gates can ask for it: one JSON file a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ci.core.errors import BadFileError, MissingInputError
from test_selection.files import read_json, write_json

Kind = TypeVar("Kind", bound=BaseModel)
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

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 by file name, of the files it is of; what cannot be read is none of them."""
        rows = self.details.get("files")
        return {
            str(one.get("name")): str(one.get("sha256"))
            for one in (rows if isinstance(rows, list) else ())
            if isinstance(one, dict)
        }


class File(BaseModel):
    """A file that a record is of."""

    model_config = ConfigDict(extra="ignore", strict=True)
    name: str
    sha256: str


class _Check(BaseModel):
    """A check of `verify`."""

    model_config = ConfigDict(extra="ignore", strict=True)
    check: str
    passed: bool
    seen: str = ""


class _Details(BaseModel):
    """What of a record's details is read again, of whichever step."""

    model_config = ConfigDict(extra="ignore", strict=True)
    files: list[File] = []
    environment: list[str] = []
    installed_with: list[str] = []
    checks: list[_Check] = []
    by_linter: dict[str, int] = {}


class Published(BaseModel):
    """What is noted of a release on an index, as far as it is read again."""

    model_config = ConfigDict(extra="ignore", strict=True)
    simple: str = ""
    project: str
    version: str
    commit: str
    complete: bool = False
    proved: bool = False
    files: list[File]
    installed: list[str] = []
    state: dict[str, list[str]] | None = None


def checked(model: type[Kind], content: Any, path: Path, remedy: str) -> Kind:
    """What a file of ours holds, of the kinds it was written with.

    Args:
        model: what it holds.
        content: of the file.
        path: of it, for messages.
        remedy: what writes it anew.

    Raises:
        BadFileError: a key is missing or of another kind.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadFileError(
            f"a key is missing or of the wrong kind: {where}: {first['msg']}", where=path, remedy=remedy
        ) from error


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
    checked(_Details, content, path, f"run the step again: spyre-ci package {step}")
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
