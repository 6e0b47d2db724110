"""Branches with an upgrade that is not merged: while a campaign is on, people should know of them."""

from __future__ import annotations

from ci.config.load import Settings
from ci.core.errors import SpyreCiError
from ci.core.git import git
from ci.pins.branch import Repository, repository_at
from ci.pins.change import upgrades_at
from ci.pins.ledger import track_folder


def unmerged(settings: Settings, track: str) -> list[str]:
    """A track's branches, here and as they were fetched, with an upgrade that what is checked out has not.

    Args:
        settings: with the track.
        track: its name.
    """
    # Without a checkout there are none; and what Git does not tell, such as of another owner's, is no branch.
    if not any((folder / ".git").exists() for folder in (settings.base, *settings.base.parents)):
        return []
    try:
        here = repository_at(settings.base)
        folder = track_folder(settings, track)
        known = {*upgrades_at(here, folder, here.head)}
        found = _branches(settings, here, track)
        return [branch for branch in found if {*upgrades_at(here, folder, branch)} - known]
    except SpyreCiError:
        return []


def _branches(settings: Settings, here: Repository, track: str) -> list[str]:
    patterns = [f"refs/{place}/pins/{track}-*" for place in ("heads", "remotes/*")]
    listed = git(here.top, "for-each-ref", "--format=%(refname)", *patterns).split()
    # Another track may be called `torch-next`.
    longer = [f"/pins/{one}-" for one in settings.model.pins.tracks if one.startswith(f"{track}-")]
    mine = [ref for ref in listed if not any(other in ref for other in longer)]
    return [ref.removeprefix("refs/").removeprefix("heads/").removeprefix("remotes/") for ref in mine]
