"""What the field's tools say: twine, check-wheel-contents, validate-pyproject, auditwheel."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci.core.archives import walk
from ci.core.errors import CommandError
from ci.core.findings import Finding
from ci.core.process import run_command
from ci.core.text import plain
from ci.package.artifacts import Artifact
from ci.package.project import PYPROJECT, Project

_TIMEOUT_S = 300


def check_twine(one: Artifact, environ: Mapping[str, str]) -> Finding:
    """Whether an index takes its metadata and can show its description (twine check --strict)."""
    return _asked(
        f"{one.kind} twine check",
        ["twine", "check", "--strict", one.path],
        environ,
        remedy="mend the README, or what [project] says; `twine check --strict` shows it again",
    )


def check_wheel_contents(one: Artifact, project: Project, environ: Mapping[str, str]) -> Finding:
    """What check-wheel-contents finds; the project's own settings of it win."""
    own = project.tool("check-wheel-contents") is not None
    words = ["--config", project.folder / PYPROJECT] if own else ["--no-config", "--ignore", ignored(one)]
    return _asked(
        "wheel check-wheel-contents",
        ["check_wheel_contents", *words, one.path],
        environ,
        remedy="mend it, or let [tool.check-wheel-contents] ignore what is meant so",
    )


def ignored(wheel: Artifact) -> str:
    """Codes of check-wheel-contents that are not asked of a wheel.

    What may be at the top level is a check of ours, and a stricter one than W009. W004 takes each library
    that auditwheel brought for a module.
    """
    brought = f"{wheel.filename.partition('-')[0]}.libs/"
    has = any(entry.member.name.startswith(brought) for entry in walk(wheel.path, "wheel"))
    return "W004,W009" if has else "W009"


def check_pyproject(project: Project, environ: Mapping[str, str]) -> Finding:
    """Whether pyproject.toml is what the packaging specifications say it is (validate-pyproject)."""
    return _asked(
        PYPROJECT,
        ["validate_pyproject", project.folder / PYPROJECT],
        # Without it the list of classifiers would be fetched.
        {**environ, "VALIDATE_PYPROJECT_NO_NETWORK": "1", "NO_NETWORK": "1"},
        remedy="mend the key that is named",
    )


def auditwheel_show(one: Artifact, environ: Mapping[str, str]) -> str:
    """What auditwheel sees in a Linux wheel, as JSON.

    Raises:
        CommandError: it could not look.
    """
    words: list[str | Path] = [sys.executable, "-m", "auditwheel", "show", "--json", one.path]
    return run_command(words, timeout_s=_TIMEOUT_S, env=environ)


def _asked(check: str, words: Sequence[str | Path], environ: Mapping[str, str], *, remedy: str) -> Finding:
    """A tool's word: passed where it ends with 0, else what it printed."""
    command: list[str | Path] = [sys.executable, "-P", "-m", *words]
    try:
        run_command(
            command,
            timeout_s=_TIMEOUT_S,
            env={**environ, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"},
        )
    except CommandError as error:
        return Finding(check=check, seen=_said(str(error)), remedy=remedy)
    return Finding(check=check, seen="nothing to say")


def _said(text: str) -> str:
    """What a tool printed, without our words around it, in one line."""
    lines = [plain(line).removeprefix("  | ").strip() for line in text.splitlines()[1:]]
    return " ".join(" ".join(line.split()) for line in lines if line)[:600] or text.splitlines()[0]
