"""`spyre-ci package verify`: what the field's tools say of what was built, and how it installs.

twine, check-wheel-contents, validate-pyproject and auditwheel are asked; publishing wants the record of it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ci.core.commands import run_command
from ci.core.errors import CommandError
from ci.core.findings import Finding, judged
from ci.core.text import counted
from ci.package.artifacts import Artifact, artifacts_in
from ci.package.context import Context
from ci.package.environment import interpreters
from ci.package.gate import check_index
from ci.package.installation import in_a_line, try_wheel
from ci.package.project import PYPROJECT, Project
from ci.package.records import BUILD, VERIFY, Record, forget_record, read_record

_TIMEOUT_S = 300
_DIGITS = 12
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")


class Tool(NamedTuple):
    """A tool that is asked about a file: the check passes where it ends with 0."""

    check: str
    words: Sequence[str | Path]
    remedy: str


def verify(
    context: Context, *, index: str | None, installs: bool, say: Callable[[str], None], isolated: bool = True
) -> tuple[Record, list[Finding]]:
    """Check the artifacts of a project's dist folder; the record that was written, and every check.

    Args:
        context: of the project.
        index: the name of the one they are for; None: no certain one.
        installs: whether the wheels are installed and tried.
        say: takes a line for people.
        isolated: whether they are tried alone; else beside what this environment has, as a runtime image.

    Raises:
        MissingInputError: nothing was built, or nobody noted of what.
        BadFileError: a file or the record of the build is damaged.
    """
    artifacts = artifacts_in(context.dist)
    forget_record(context.records, VERIFY)
    built = read_record(context.records, BUILD)
    found: list[Finding] = []
    wheels = [one for one in artifacts if one.kind == "wheel"]
    trials = _installing(context, wheels, say, isolated=isolated) if installs else ()
    for finding in chain(_checks(context, artifacts, built, index), trials):
        say(finding.line)
        found.append(finding)
    record = context.note(
        VERIFY,
        # What was changed when it was built is in the files, whatever the checkout holds by now.
        dirty=built.dirty,
        # What nobody installed is not verified.
        passed=installs and all(one.passed for one in found),
        details={
            "version": str(artifacts[0].version),
            "files": [one.as_json() for one in artifacts],
            "checks": [one.as_json() for one in found],
            "installed": installs,
            "isolated": isolated,
        },
    )
    return record, found


def _checks(
    context: Context, artifacts: Sequence[Artifact], built: Record, index: str | None
) -> Iterator[Finding]:
    """Every check that only looks."""
    kinds = {one.kind for one in artifacts}
    yield judged(
        "artifacts",
        ", ".join(one.filename for one in artifacts),
        holds=kinds == {"sdist", "wheel"},
        remedy="both an sdist and a wheel are needed: run spyre-ci package build",
    )
    yield check_build(context.project, artifacts, built)
    if index is not None:
        yield from check_index(artifacts, index, context.index(index))
    for tool in tools_for(context.project, artifacts, context.package.toplevel):
        yield ask(tool)
    for one in artifacts:
        if any("linux" in platform for platform in one.platforms):
            yield _libraries(one, context.package.repair_exclude)


def check_build(project: Project, artifacts: Sequence[Artifact], record: Record) -> Finding:
    """Check that these are the files that `build` made of the commit that is checked out."""
    here, built = project.source.commit[:_DIGITS], record.commit[:_DIGITS]
    changed = [one.filename for one in artifacts if record.hashes.get(one.filename) != one.sha256]
    wrong = ""
    if changed:
        wrong = f"changed since the build: {', '.join(changed)}"
    elif built != here:
        wrong = f"built from {built or 'no commit'}, but {here or 'no commit'} is checked out"
    remedy = "build again, or check out the commit that was built"
    count = len(record.dirty)
    changes = f", with {counted(count, 'uncommitted change')}: it cannot be published" if count else ""
    seen = f"built from {here or 'a folder without Git'}{changes}"
    return judged("build record", wrong or seen, holds=not wrong, remedy=remedy)


def tools_for(project: Project, artifacts: Sequence[Artifact], toplevel: Sequence[str]) -> Iterator[Tool]:
    """The tools that are asked, each with its command.

    Args:
        project: the checkout; its own settings of check-wheel-contents win.
        artifacts: what was built of it.
        toplevel: what a wheel may install at the top level; none: the project's name as it is imported.
    """
    yield Tool(
        check=PYPROJECT,
        words=["validate_pyproject", project.folder / PYPROJECT],
        remedy="fix the key that is named",
    )
    module = project.canonical.replace("-", "_")
    for one in artifacts:
        yield Tool(
            check=f"{one.kind} twine check",
            words=["twine", "check", "--strict", one.path],
            remedy="fix the README, or [project] of pyproject.toml; `twine check --strict` shows it again",
        )
        if one.kind == "sdist":
            continue
        # auditwheel puts libraries into a folder beside the package, which holds no modules.
        allowed = ",".join([*(toplevel or [module]), f"{one.filename.partition('-')[0]}.libs"])
        ignored = "W009,W201" if one.platforms == {"any"} else "W004,W009,W010,W201"
        words: list[str | Path] = ["--no-config", "--toplevel", allowed, "--ignore", ignored]
        if project.tool("check-wheel-contents") is not None:
            words = ["--config", project.folder / PYPROJECT]
        yield Tool(
            check="wheel check-wheel-contents",
            words=["check_wheel_contents", *words, one.path],
            remedy="package only the project's own modules, list others in package.toplevel, or ignore the "
            "check in [tool.check-wheel-contents]",
        )


def ask(tool: Tool) -> Finding:
    """What a tool says: passed where it ends with 0, else what it printed."""
    try:
        run_tool(tool.words)
    except CommandError as error:
        return Finding(check=tool.check, seen=in_a_line(error), remedy=tool.remedy)
    return Finding(check=tool.check, seen="no problems")


def run_tool(words: Sequence[str | Path]) -> str:
    """What a tool of this environment prints.

    Raises:
        CommandError: it ends with another code than 0.
    """
    # Without network: validate-pyproject would fetch the list of classifiers.
    quiet = {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb", "VALIDATE_PYPROJECT_NO_NETWORK": "1"}
    command: list[str | Path] = [sys.executable, "-E", "-P", "-m", *words]
    return run_command(command, timeout_s=_TIMEOUT_S, env={**os.environ, **quiet, "NO_NETWORK": "1"})


def _libraries(one: Artifact, excluded: Sequence[str]) -> Finding:
    """What auditwheel says of a wheel for Linux."""
    try:
        shown = run_tool(["auditwheel", "show", "--json", one.path])
    except CommandError as error:
        remedy = "run `auditwheel show`, which is available only on Linux"
        return Finding(check="wheel libraries", seen=in_a_line(error), remedy=remedy)
    return check_libraries(one, shown, excluded=excluded)


def check_libraries(one: Artifact, shown: str, *, excluded: Sequence[str]) -> Finding:
    """Check that a wheel for Linux runs where its tag says, by what auditwheel saw.

    Args:
        one: the wheel.
        shown: what `auditwheel show --json` printed.
        excluded: globs of libraries that are found at run time.
    """
    said: Mapping[str, Any] = json.loads(shown)
    libraries = said.get("external_libs", {})
    foreign = [name for name in libraries if not any(fnmatchcase(name, glob) for glob in excluded)]
    if foreign:
        return Finding(
            check="wheel libraries",
            seen=f"links {', '.join(foreign)}, which it does not contain",
            remedy="let auditwheel copy them, or list what exists at run time in package.repair_exclude",
        )
    symbols = str(said.get("sym_tag", "an unknown glibc"))
    least, claimed = _glibc(symbols), [_glibc(platform) for platform in one.platforms]
    return judged(
        "wheel libraries",
        f"{', '.join(sorted(one.platforms))}; its symbols need {symbols}",
        holds=not any(one is not None and least is not None and one < least for one in claimed),
        remedy="repair it again: it needs a newer glibc than its tag says",
    )


def _glibc(platform: str) -> tuple[int, int] | None:
    found = _MANYLINUX.match(platform)
    return (int(found[1]), int(found[2])) if found else None


def _installing(
    context: Context, wheels: Sequence[Artifact], say: Callable[[str], None], *, isolated: bool
) -> Iterator[Finding]:
    """Each wheel in a clean environment of each Python that it is for."""
    pythons = context.package.pythons if isolated else [sys.executable]
    untried = {one.filename for one in wheels}
    for python, short in interpreters(context.project.pyproject.project.requires_python, os.environ, pythons):
        for one in wheels:
            say(f"installing {one.filename} with Python {short}")
            if finding := try_wheel(one, context, python, short, isolated=isolated):
                untried.discard(one.filename)
                yield finding
    for name in sorted(untried):
        yield Finding(
            check="wheel installed",
            seen=f"no Python on this machine can install {name}",
            remedy="verify it where there is a Python that fits its requires-python and tags",
        )
