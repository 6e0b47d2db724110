"""Which toolkit this is, and what workflows and Jenkins name it by."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ci.config.section import REPOSITORY
from ci.core.errors import CommandError, UsageError
from ci.core.git import git

CODE = Path(__file__).parents[2]
HOME = "torch-spyre/spyre-ci"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# What Git takes for the name of a branch or tag, and no more than that (git-check-ref-format(1)).
_REF = re.compile(r"(?!.*(\.\.|//|@\{))[A-Za-z0-9][A-Za-z0-9._/+-]*(?<![./])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """The toolkit, as others call it.

    Attributes:
        repository: owner/name on GitHub.
        ref: commit by its whole name, tag or branch.
        version: of what is installed here.
        commit: of what is installed here; empty where that is not known.
    """

    repository: str
    ref: str
    version: str
    commit: str = ""

    @property
    def identity(self) -> str:
        """What is installed here, in a line; another one after an upgrade."""
        return f"{self.version} at {self.commit}" if self.commit else self.version

    @property
    def is_pinned(self) -> bool:
        """Whether it is named by a commit, which nobody can move."""
        return _COMMIT.fullmatch(self.ref) is not None


def installed(
    find: Callable[[str], importlib.metadata.Distribution] = importlib.metadata.distribution,
    ask: Callable[[Path], str] | None = None,
    code: Path = CODE,
) -> tuple[str, str]:
    """Version and commit of what is installed here; the commit is empty where nobody knows it.

    Args:
        find: gives an installed distribution by name.
        ask: gives the commit of a folder; default: Git does.
        code: the folder that holds this package.
    """
    # Another checkout may be what is installed here, as `nox --no-venv` has it: what runs is this one.
    if os.path.lexists(code / ".git"):
        return _version_of(code), _commit_of(code, ask or _head)
    try:
        found = find("spyre-ci")
    except importlib.metadata.PackageNotFoundError:  # called in a copy of it, installed nowhere
        return _version_of(code), _commit_of(code, ask or _head)
    # What pip notes of where a package came from (PEP 610).
    try:
        noted: Any = json.loads(found.read_text("direct_url.json") or "{}")
    except ValueError:
        noted = {}
    noted = noted if isinstance(noted, dict) else {}
    info = noted.get("vcs_info")
    if isinstance(info, dict):
        commit = str(info.get("commit_id", ""))
        return found.version, commit if _COMMIT.fullmatch(commit) else ""
    parts = urlsplit(str(noted.get("url", "")))
    if isinstance(noted.get("dir_info"), dict) and parts.scheme == "file":
        here = Path(unquote(parts.path))
        return found.version, _commit_of(here, ask or _head)
    return found.version, ""


def choose(version: str, commit: str, *, repository: str | None, ref: str | None) -> Toolkit:
    """What files are to name.

    Args:
        version: of what is installed here.
        commit: of it; empty where it is not known.
        repository: owner/name, where somebody says it.
        ref: commit, tag or branch, where somebody says it.

    Raises:
        UsageError: what was said is no repository, or no name Git knows.
    """
    if repository is not None and not re.fullmatch(REPOSITORY, repository):
        raise UsageError(
            f"--toolkit is {repository!r}",
            remedy="name a repository of GitHub as owner/name, such as " + HOME,
        )
    if ref is not None and not _REF.fullmatch(ref):
        raise UsageError(
            f"--toolkit-ref is {ref!r}, which Git has no name like", remedy="name a commit, a tag or a branch"
        )
    # A release is tagged by its version; what is neither is called by the tag before it, which is there.
    plain = re.match(r"\d+(\.\d+)*", version)
    return Toolkit(
        repository=repository or HOME,
        ref=ref or commit or f"v{plain[0] if plain else version}",
        version=version,
        commit=commit,
    )


def _version_of(checkout: Path) -> str:
    content = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    return str(content["project"]["version"])


def _commit_of(checkout: Path, ask: Callable[[Path], str]) -> str:
    commit = ask(checkout)
    return commit if _COMMIT.fullmatch(commit) else ""


def _head(folder: Path) -> str:
    try:
        return git(folder, "rev-parse", "--verify", "HEAD").strip()
    except CommandError:
        return ""
