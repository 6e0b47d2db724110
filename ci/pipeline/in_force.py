"""The settings that decide a change's gate: those of the branch it is to go into, never its own.

Otherwise whoever opens a pull request could say in it that nothing has to be green, and on whose runners a
stranger's code runs. What tests there are and how each is run stays the change's, as its tests do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.config.load import DEFAULT_FILE, Settings, parse_settings, rows
from ci.config.model import SettingsModel
from ci.core.errors import UsageError
from ci.core.git import git
from ci.pipeline.diff import base_tip
from ci.pipeline.event import Event

# How much is due, what of it blocks, on which runners, for how long; `emulated` of package.tests too.
SECTIONS = ("stage", "stages", "buckets", "matrix", "pipeline")
EMULATED = "package.tests.emulated"
# Whose commit is not merged yet. A push is, and who starts a run by hand has the right to write.
_UNMERGED = {"pull_request": "2", "merge_group": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A setting that a change sets otherwise; each side as text."""

    key: str
    here: str
    there: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The settings in force, and what a change would have otherwise.

    Attributes:
        model: the checkout's, with what decides the gate as the base has it.
        of: the base's commit; empty where the checkout's own are in force.
        differing: what the change sets otherwise, which holds once it is merged.
    """

    model: SettingsModel
    of: str = ""
    differing: Sequence[Differing] = ()


def settings_in_force(settings: Settings, event: Event, environ: Mapping[str, str], checkout: Path) -> Ruling:
    """The settings by which a change is judged.

    Args:
        settings: as they are here; a file outside of the checkout is no change's, and holds as it is.
        event: what began the pipeline.
        environ: its settings hold for both: a change can say them only in a workflow of its own.
        checkout: the folder of what is judged.

    Raises:
        UsageError: the base cannot be told, and nothing is green that is not known to be.
        SettingsError: the base's settings cannot be taken.
        CommandError: git does not say.
    """
    depth = _UNMERGED.get(event.name)
    # By its name, not by where a link of the change's leads.
    file, top = (settings.path or checkout / DEFAULT_FILE).absolute(), checkout.absolute()
    if depth is None or not file.is_relative_to(top):
        return Ruling(model=settings.model)
    base = base_tip(checkout, event)
    if not base:
        raise UsageError(
            f"which settings decide of a {event.name} is not known: what it goes onto is not in this clone",
            where=checkout,
            remedy=f"check that out as well (GitHub: fetch-depth: {depth}), in the job that the event began",
        )
    name = file.relative_to(top).as_posix()
    text = _text_at(checkout, base, name)
    there = parse_settings(text, path=Path(f"{base[:12]}:{name}"), environ=environ, base=checkout)
    return Ruling(
        model=ruled(settings.model, there.model), of=base[:12], differing=differing(settings, there)
    )


def ruled(own: SettingsModel, base: SettingsModel) -> SettingsModel:
    """Settings with what decides the gate taken from the base's; pure."""
    tests = own.package.tests.model_copy(update={"emulated": base.package.tests.emulated})
    package = own.package.model_copy(update={"tests": tests})
    return own.model_copy(update={"package": package, **{one: getattr(base, one) for one in SECTIONS}})


def differing(own: Settings, base: Settings) -> list[Differing]:
    """What of the gate's settings is not the same in both, by key; pure."""
    here, there = _of_gate(own), _of_gate(base)
    names = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
    return [Differing(key=key, here=_shown(here, key), there=_shown(there, key)) for key in names]


def _of_gate(settings: Settings) -> dict[str, Any]:
    return {
        key: value
        for key, value, _, _ in rows(settings)
        if key.partition(".")[0] in SECTIONS or key == EMULATED
    }


def _shown(values: Mapping[str, Any], key: str) -> str:
    return str(values[key]) if key in values else "not set"


def _text_at(folder: Path, commit: str, name: str) -> str:
    """A file of a commit; empty where it is not there, so that the defaults hold."""
    if not git(folder, "ls-tree", "-z", commit, "--", name):
        return ""
    return git(folder, "show", f"{commit}:./{name}")
