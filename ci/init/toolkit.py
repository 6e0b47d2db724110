"""Which toolkit this is, and what workflows and Jenkins call it by."""

from __future__ import annotations

import importlib.metadata
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ci.config.section import REPOSITORY
from ci.core.errors import UsageError
from ci.runner.environment_info import commit_of, head

CODE = Path(__file__).parents[2]
HOME = "torch-spyre/spyre-ci"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# A branch or tag (git-check-ref-format(1)), and nothing that YAML or Groovy would read otherwise.
_REF = re.compile(r"(?!.*(\.\.|//|@\{))[A-Za-z0-9][A-Za-z0-9._/+-]*(?<![./])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """The toolkit, as others call it.

    Attributes:
        repository: owner/name on GitHub.
        ref: a commit by its whole name, a tag or a branch.
        version: of what is installed here.
    """

    repository: str
    ref: str
    version: str

    @property
    def is_pinned(self) -> bool:
        """Whether it is named by a commit, which nobody can move."""
        return _COMMIT.fullmatch(self.ref) is not None


def installed() -> tuple[str, str]:
    """Version and commit of the spyre-ci that runs; the commit is empty where it was not recorded."""
    try:
        # Another checkout may be installed here, as `nox --no-venv` has it: what runs is this one.
        if os.path.lexists(CODE / ".git"):
            raise importlib.metadata.PackageNotFoundError
        found = importlib.metadata.distribution("spyre-ci")
    except importlib.metadata.PackageNotFoundError:
        project = tomllib.loads((CODE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["version"]), head(CODE)
    commit = commit_of(found.read_text("direct_url.json") or "")
    return found.version, commit if _COMMIT.fullmatch(commit) else ""


def choose(version: str, commit: str, *, repository: str | None, ref: str | None) -> Toolkit:
    """The toolkit that files name.

    Args:
        version: of what is installed here.
        commit: of it; empty where it is unknown.
        repository: owner/name, where it is given.
        ref: commit, tag or branch, where it is given.

    Raises:
        UsageError: what is given is no repository or no name in Git.
    """
    if repository is not None and not re.fullmatch(REPOSITORY, repository):
        raise UsageError(f"--toolkit is {repository!r}", remedy=f"name OWNER/NAME on GitHub, such as {HOME}")
    if ref is not None and not _REF.fullmatch(ref):
        raise UsageError(f"--toolkit-ref is {ref!r}", remedy="name a commit, a tag or a branch")
    # A release is tagged by its version; what comes between two is called by the tag before it.
    release = re.match(r"\d+(\.\d+)*", version)
    return Toolkit(
        repository=repository or HOME,
        ref=ref or commit or f"v{release[0] if release else version}",
        version=version,
    )
