"""`spyre-ci package verify`: every check of what was built, and the record that publishing asks for.

The field's tools are asked, too: twine, check-wheel-contents, validate-pyproject, auditwheel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from ci.config.package_model import Index
from ci.core.archives import walk
from ci.core.errors import CommandError
from ci.core.findings import Finding
from ci.core.operating_system import in_words, is_linux
from ci.core.process import run_command
from ci.core.text import plain
from ci.package.artifacts import Artifact, artifacts_in, contents_of
from ci.package.environment import interpreters
from ci.package.project import PYPROJECT, Project
from ci.package.records import BUILD, VERIFY, Record, forget_record, read_record, write_record
from ci.package.verify import contents as inside
from ci.package.verify import metadata
from ci.package.verify.installed import Trial, Tried, try_artifact
from ci.package.wiring import Bench, index_of

_TIMEOUT_S = 300
# Of a project that names no index: what PyPI takes.
_MAX_MIB = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What verification found.

    Attributes:
        artifacts: what was looked at.
        findings: every check.
        installed: what the wheel was installed with on the newest Python, as pip names it.
    """

    artifacts: Sequence[Artifact]
    findings: Sequence[Finding]
    installed: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether all checks did."""
        return all(one.passed for one in self.findings)

    def as_json(self) -> dict[str, Any]:
        """For machines, and the record."""
        return {
            "version": str(self.artifacts[0].version),
            "files": [one.as_json() for one in self.artifacts],
            "checks": [one.as_json() for one in self.findings],
            "installed_with": list(self.installed),
        }


def verify(bench: Bench, *, index: str | None, installs: bool, say: Callable[[str], None]) -> Verified:
    """Check the artifacts of a project's dist folder, and note it.

    Args:
        bench: the project.
        index: the name of the one they are for; None: no certain one.
        installs: whether they are installed and tried.
        say: takes a line for people.

    Raises:
        MissingInputError: nothing was built, or nobody noted of what.
        BadFileError: a file is damaged.
    """
    chosen = index_of(bench.package, index) if index is not None else None
    artifacts = artifacts_in(bench.dist)
    forget_record(bench.records, VERIFY)
    built = read_record(bench.records, BUILD)
    found: list[Finding] = []
    installed: list[str] = []
    tried_here: set[str] = set()
    for finding in _static(bench, artifacts, chosen, built):
        say(finding.line)
        found.append(finding)
    for one, tried in _installing(bench, artifacts, say) if installs else ():
        say(tried.finding.line)
        found.append(tried.finding)
        installed = list(tried.installed) or installed
        if tried.installed or not tried.finding.passed:
            tried_here.add(one.filename)
    for one in artifacts if installs else ():
        if one.filename not in tried_here:
            found.append(_untried(one))
            say(found[-1].line)
    verified = Verified(artifacts=artifacts, findings=found, installed=installed)
    source = bench.project.source
    record = Record(
        step=VERIFY,
        project=bench.project.canonical,
        commit=source.commit,
        # What was changed when it was built is in the files, whatever the checkout holds by now.
        dirty=tuple(dict.fromkeys([*built.dirty, *source.dirty])),
        # What nobody installed is not verified.
        passed=verified.passed and installs,
        details={**verified.as_json(), "index": index, "installed": installs},
    )
    write_record(bench.records, record)
    return verified


def _static(
    bench: Bench, artifacts: Sequence[Artifact], index: Index | None, built: Record
) -> Iterator[Finding]:
    """Every check that only looks."""
    environ = _with_our_tools(os.environ)
    yield check_pyproject(bench.project, environ)
    yield metadata.check_together(artifacts)
    yield _from_this_commit(bench, artifacts, built)
    for one in artifacts:
        yield from _artifact(bench, one, index, environ)


def _installing(
    bench: Bench, artifacts: Sequence[Artifact], say: Callable[[str], None]
) -> Iterator[tuple[Artifact, Tried]]:
    """Each artifact in a clean environment of each Python, the wheel of a Python last."""
    wheels = [contents_of(one).members for one in artifacts if one.kind == "wheel"]
    trial = Trial(
        project=bench.project,
        settings=bench.package,
        packages=sorted({name for members in wheels for name in inside.installed_at_top(members)}),
        smoke=bench.package.smoke,
        requirements=bench.package.smoke_requirements,
        constraints=bench.constraints,
        environ=os.environ,
        say=say,
    )
    for python, short in interpreters(bench.project.requires_python, os.environ, bench.package.pythons):
        for one in artifacts:
            yield one, try_artifact(one, trial, python, short)


def _untried(one: Artifact) -> Finding:
    return Finding(
        check=f"{one.kind} installed",
        seen=f"{one.filename} was installed with no Python of this machine",
        remedy="verify it where a Python is that it is for; requires-python and tags say which",
    )


def _from_this_commit(bench: Bench, artifacts: Sequence[Artifact], record: Record) -> Finding:
    """Whether these are the files that `build` made of the commit that is checked out."""
    check, source = "build record", bench.project.source
    built = record.hashes
    changed = [one.filename for one in artifacts if built.get(one.filename) != one.sha256]
    seen = ""
    if changed:
        seen = f"not as they were built: {', '.join(changed)}"
    elif record.commit != source.commit:
        seen = f"built of {record.commit[:12] or 'nothing'}, and {source.commit[:12] or 'nothing'} is there"
    if seen:
        return Finding(check=check, seen=seen, remedy="build again, or check out the commit that was built")
    changed_then = (
        f", with changes: nothing of it is published ({len(record.dirty)} changed)" if record.dirty else ""
    )
    return Finding(check=check, seen=f"built of {source.commit[:12] or 'a folder without Git'}{changed_then}")


def _artifact(
    bench: Bench, one: Artifact, index: Index | None, environ: Mapping[str, str]
) -> Iterator[Finding]:
    contents = contents_of(one)
    toplevel = _toplevel(bench)
    yield from metadata.check_metadata(
        one, contents, project=bench.project.canonical, version=Version(str(one.version))
    )
    yield metadata.check_size(one, index.max_mib if index else _MAX_MIB)
    yield from inside.check_contents(one, contents, toplevel=toplevel, forbidden=bench.package.forbidden)
    yield check_twine(one, environ)
    if one.kind == "sdist":
        return
    yield check_wheel_contents(one, bench.project, environ)
    yield from metadata.check_tags(one, contents)
    if any("linux" in platform for platform in one.platforms):
        yield _linux(bench, one, index, environ)


def _linux(bench: Bench, one: Artifact, index: Index | None, environ: Mapping[str, str]) -> Finding:
    if not is_linux():
        return Finding(
            check="wheel libraries",
            seen=f"they cannot be looked at on {in_words()}, and nobody knows whether the tag is right",
            remedy="verify wheels for Linux on Linux, as CI does: nox -s verify",
        )
    try:
        shown = auditwheel_show(one, environ)
    except CommandError as error:
        return Finding(
            check="wheel libraries", seen=" ".join(str(error).split())[-400:], remedy="see auditwheel show"
        )
    wants = index is not None and not index.linux_tags
    return metadata.check_linux(one, shown, excluded=bench.package.repair_exclude, wants_manylinux=wants)


def _toplevel(bench: Bench) -> list[str]:
    """What the wheel may install at the top: as the settings say, or the project's name as it is imported."""
    return list(bench.package.toplevel) or [bench.project.canonical.replace("-", "_")]


def _with_our_tools(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's variables, with the programs of this environment first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])
    hidden = {"PYTHONPATH", "PYTHONHOME"}
    return {**{key: value for key, value in environ.items() if key not in hidden}, "PATH": path}


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
