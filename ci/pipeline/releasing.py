"""Whether GitHub's release is one that goes to an index: finished, and of what was merged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.core.errors import EXIT_TEST_FAILED, CommandError, SpyreCiError, UsageError
from ci.core.git import git
from ci.pipeline.decide import Verdict
from ci.pipeline.payload import at, text_at


class NotMergedError(SpyreCiError):
    """A release of a commit that the default branch does not hold."""

    exit_code = EXIT_TEST_FAILED


def release_of(payload: Mapping[str, Any], checkout: Path) -> Verdict:
    """Whether a release is published, and why.

    Args:
        payload: of GitHub's event.
        checkout: of the release's tag, with the whole history.

    Raises:
        NotMergedError: what is released was never merged.
        UsageError: this clone lacks the default branch, or the event does not name it.
    """
    if at(payload, "release", "prerelease") is not False or at(payload, "release", "draft") is not False:
        return Verdict(runs=False, why="a prerelease or a draft goes to no index")
    branch = text_at(payload, "repository", "default_branch")
    tip = f"refs/remotes/origin/{branch}"
    try:
        git(checkout, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{tip}^{{commit}}")
    except CommandError as error:
        raise UsageError(
            f"whether the release was merged is not known: {tip:.80} is not in this clone",
            where=checkout,
            remedy="check out with fetch-depth: 0, in the job that the release began",
        ) from error
    if git(checkout, "rev-list", "--max-count=1", "HEAD", f"^{tip}", "--").strip():
        raise NotMergedError(
            f"what is released is not on {branch:.60}",
            where=checkout,
            remedy=f"merge it first, and set the tag on {branch:.60}",
        )
    return Verdict(runs=True, why=f"a release of what is on {branch:.60}")
