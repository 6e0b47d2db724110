"""The settings that judge a change in a merge queue and on Jenkins: those of the commit it goes onto.

Otherwise a change could say in its own settings that nothing has to be green. Which tests there are and how
each is run stays the change's, as its tests do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ci.config.load import DEFAULT_FILE, Settings, parse_settings
from ci.core.errors import UsageError
from ci.core.git import git
from ci.pipeline.diff import base_tip
from ci.pipeline.event import Event

# How much is due, what of it blocks, on which runners, for how long; `emulated` of package.tests too.
SECTIONS = ("stage", "stages", "tiers", "matrix", "pipeline")


def judging_settings(
    settings: Settings, event: Event, environ: Mapping[str, str], checkout: Path
) -> tuple[Settings, str]:
    """The settings by which a change is judged, and a line for people where they are not its own.

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
    # By its name, not by where a link of the change's leads.
    file, top = (settings.path or checkout / DEFAULT_FILE).absolute(), checkout.absolute()
    if not event.by_base or not file.is_relative_to(top):
        return settings, ""
    base = base_tip(checkout, event)
    if not base:
        raise UsageError(
            f"the settings that decide on a {event.name} are unknown: its base is not in this clone",
            where=checkout,
            remedy="fetch the base as well (GitHub: fetch-depth: 0), in the job that the event started",
        )
    name = file.relative_to(top).as_posix()
    # Where there is no such file, the defaults hold.
    text = (
        git(checkout, "show", f"{base}:./{name}") if git(checkout, "ls-tree", "-z", base, "--", name) else ""
    )
    there = parse_settings(text, path=Path(f"{base[:12]}:{name}"), environ=environ, base=checkout).model
    own = settings.model
    differs = [one for one in SECTIONS if getattr(own, one) != getattr(there, one)]
    if own.package.tests.emulated != there.package.tests.emulated:
        differs.append("package.tests.emulated")
    tests = own.package.tests.model_copy(update={"emulated": there.package.tests.emulated})
    package = own.package.model_copy(update={"tests": tests})
    update = {"package": package, **{one: getattr(there, one) for one in SECTIONS}}
    said = f"settings from {base[:12]}, not from this change: {', '.join(differs)}" if differs else ""
    return replace(settings, model=own.model_copy(update=update)), said
