"""Looking up what is known of a test that is to be brought back, by a run, a CI, a HUD or the line alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.reproduce.evidence import Evidence
from ci.reproduce.history import Tried
from ci.reproduce.hud import TOKEN, ask, from_hud
from ci.reproduce.read_evidence import checked_folder, find_folder, read_evidence, unpacked
from ci.reproduce.ref import hud_page
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.ids import file_of

_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user asks for.

    Attributes:
        name: the test, as people have it.
        run: folder, id, `latest`, a CI's run, a HUD's page; None: the newest, or none where `seed` is given.
        archive: an artifact of a run, in place of `run`.
        source: where the tests are; None: where the run's are.
        seed: the run's; None: as it noted.
        attempt: which try is meant; 0: the last that failed.
        tries: how often it is run at most, until it fails as it did.
        with_before: whether what ran before it in its process runs before it again.
    """

    name: str
    run: str | None = None
    archive: Path | None = None
    source: str | None = None
    seed: int | None = None
    attempt: int = 0
    tries: int = 1
    with_before: bool = False


def look_up(context: Context, wanted: Wanted) -> Evidence:
    """What is known of the test.

    Raises:
        BadFileError: what the run calls its device is none.
        SpyreCiError: the run is not there or cannot be read, or has no such test.
    """
    found = _looked_up(context, wanted)
    if wanted.seed is not None and found.run_seed not in (None, wanted.seed):
        note = f"the run's seed is {found.run_seed}, and {wanted.seed} is given: that is taken"
        found = replace(found, notes=(*found.notes, note), tried=_without_seed(found.tried))
    if wanted.seed is not None:
        found = replace(found, run_seed=wanted.seed)
    if context.settings.origins.get("device.name") == "flag" or not found.device:
        found = replace(found, device=context.settings.model.device.name)
    if not _DEVICE.fullmatch(found.device):
        raise BadFileError(
            f"the run's device is {found.device!r:.80}",
            where=found.at,
            remedy="say which it is with --device",
        )
    return found if wanted.source is None else replace(found, source=wanted.source)


def _without_seed(tried: Tried | None) -> Tried | None:
    return None if tried is None else replace(tried, seed=None)


def _looked_up(context: Context, wanted: Wanted) -> Evidence:
    attempt = wanted.attempt
    if wanted.archive is not None:
        with unpacked(context, wanted.archive) as folder:
            return read_evidence(folder, wanted.name, attempt=attempt, own=False, at=str(wanted.archive))
    if wanted.run is None and wanted.seed is not None:
        return _of_nothing(context, wanted, ())
    page = hud_page(wanted.run) if wanted.run is not None else None
    if page is not None:
        return _of_hud(
            context, wanted, from_hud(page, wanted.name, ask(page, context.environ.get(TOKEN, "")))
        )
    try:
        folder = find_folder(context, wanted.run if wanted.run is not None else "latest")
    except MissingInputError as error:
        if wanted.seed is None:
            raise
        # The line says all that is wanted; only what the failure was is not known.
        note = f"{error.what}: there is nothing to compare with"
        return _of_nothing(context, wanted, (note,))
    return _read(context, folder, wanted.name, attempt)


def _read(context: Context, folder: RunFolder, name: str, attempt: int) -> Evidence:
    """What a run's folder tells; one that lies elsewhere than our runs is as a stranger's."""
    own = folder.path.resolve().is_relative_to(context.runs.resolve())
    if not own:
        checked_folder(folder.path)
    return read_evidence(folder, name, attempt=attempt, own=own, at=str(folder.path))


def _of_nothing(context: Context, wanted: Wanted, notes: Sequence[str]) -> Evidence:
    """What the command line alone tells: the id has to be whole.

    Raises:
        UsageError: it is no canonical id.
    """
    file_of(wanted.name)
    source = wanted.source if wanted.source is not None else context.settings.model.pytorch.source
    return Evidence(
        id=wanted.name,
        attempt=wanted.attempt or 1,
        run_seed=wanted.seed,
        device=context.settings.model.device.name,
        source=source,
        notes=tuple(notes),
    )


def _of_hud(context: Context, wanted: Wanted, told: Evidence) -> Evidence:
    """What a HUD tells, or better: what the run's own folder does, where it is here."""
    if told.ref:
        try:
            folder = find_folder(context, told.ref)
        except (MissingInputError, UsageError):
            return told if not wanted.attempt else replace(told, attempt=wanted.attempt)
        return _read(context, folder, told.id, wanted.attempt)
    return told
