"""`run-settings.json` of a run folder: how the run was asked to go, so that it is resumed the same way."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from ci.config.run_model import Run
from ci.core.errors import BadFileError
from ci.runner.environment_info import back_end
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.files import convert, read_json, write_json

KIND = "run-settings"
# An address may hold a password, and where hosts share is for those who resume to say; the plan has the seed.
# A run that stopped at its first failure is resumed for the rest.
UNNOTED = ("share", "share_password_file", "seed", "max_fail")
FILE = "run-settings.json"
_REMEDY = "delete the file; the run then goes on with the settings of this checkout"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """How a run was asked to go.

    Attributes:
        shards: those to be run from this folder.
        allow_collect_errors: whether files in scope may fail to collect.
        run: the runner's settings, by name.
        back_end: what made the device, as `back_end` says; empty where nobody noted it.
    """

    shards: frozenset[int]
    allow_collect_errors: bool
    run: dict[str, Any]
    back_end: str = ""


def write_note(
    context: Context, folder: RunFolder, shards: Collection[int], *, allow_collect_errors: bool
) -> None:
    """Note how a run goes; shards that an earlier call ran from this folder stay noted."""
    earlier: Collection[int] = ()
    with contextlib.suppress(BadFileError):  # one that is broken is written anew
        if note := read_note(folder):
            earlier = note.shards
    content = {
        "shards": sorted({*earlier, *shards}),
        "allow_collect_errors": allow_collect_errors,
        "run": context.settings.model.run.model_dump(mode="json", exclude=set(UNNOTED)),
        "back_end": back_end(context.environ),
    }
    write_json(folder.path / FILE, KIND, content)


def read_note(folder: RunFolder) -> RunNote | None:
    """What `write_note` noted; None where no run noted anything.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    path = folder.path / FILE
    if not path.is_file():
        return None
    return convert(read_json(path, KIND), RunNote, where=path, remedy=_REMEDY)


def as_noted(context: Context, folder: RunFolder, note: RunNote) -> Context:
    """The context with the runner's settings of that run; what flags say now stands.

    Raises:
        BadFileError: a setting has a value it cannot have.
    """
    settings = context.settings
    now = settings.model.run.model_dump()
    kept = {
        name: value
        for name, value in note.run.items()
        if name in now and name not in UNNOTED and settings.origins.get(f"run.{name}") != "flag"
    }
    try:
        run = Run.model_validate({**now, **kept})
    except ValidationError as error:
        said = " ".join(str(error).split())
        raise BadFileError(f"cannot be used: {said}", where=folder.path / FILE, remedy=_REMEDY) from error
    changed = [f"{name} {value}" for name, value in kept.items() if now[name] != getattr(run, name)]
    if changed:
        context.say(f"as set in that run: {', '.join(changed)}")
    return replace(context, settings=replace(settings, model=settings.model.model_copy(update={"run": run})))
