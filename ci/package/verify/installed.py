"""How an artifact installs: in a clean environment of each Python, tried away from its checkout."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.config.package_model import Package
from ci.core.errors import CommandError, MissingInputError
from ci.core.findings import Finding
from ci.core.resources import compile_jobs
from ci.package import compiling
from ci.package.artifacts import Artifact
from ci.package.environment import Environment, passing
from ci.package.project import Project

_GIB = 2**30
_TRY_TIMEOUT_S = 900
_TAGS = (
    "import json; from pip._vendor.packaging.tags import sys_tags; print(json.dumps([*map(str, sys_tags())]))"
)
_IMPORT = """
import importlib, json, pathlib, sys
inside = pathlib.Path(sys.prefix).resolve()
for name in json.loads(sys.argv[1]):
    module = importlib.import_module(name)
    places = [module.__file__] if module.__file__ else list(module.__path__)
    for place in places:
        if not pathlib.Path(place).resolve().is_relative_to(inside):
            raise SystemExit(f"{name} was imported from {place}, not from what was installed")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How artifacts are tried.

    Attributes:
        project: of theirs.
        settings: of packaging.
        packages: what is imported.
        smoke: tests, by path in the project.
        requirements: what the smoke tests need.
        constraints: requirements that hold for whatever is installed.
        environ: the user's variables.
        say: takes a line for people.
    """

    project: Project
    settings: Package
    packages: Sequence[str]
    smoke: Sequence[str]
    requirements: Sequence[str]
    constraints: Sequence[str]
    environ: Mapping[str, str]
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a trial came to.

    Attributes:
        finding: for people.
        installed: what was in the environment, as pip names it; empty where it came to nothing.
    """

    finding: Finding
    installed: tuple[str, ...] = ()


def try_artifact(one: Artifact, trial: Trial, python: str, short: str) -> Tried:
    """Install an artifact, import what it brings and run the smoke tests.

    Of an sdist pip builds a wheel, which is given what `build` gives its own.

    Args:
        one: the artifact.
        trial: how.
        python: the interpreter.
        short: its version, such as 3.12.
    """
    check = f"{one.kind} on Python {short}"
    trial.say(f"installing {one.filename} with Python {short}")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="spyre-ci-given-") as folder,
            passing(given(trial, Path(folder)), python=python, constraints=trial.constraints) as environment,
        ):
            if one.kind == "wheel" and not _runs_on(one, environment):
                return Tried(finding=Finding(check=check, seen="not for this machine: not tried here"))
            environment.install([one.path], timeout_s=trial.settings.build_timeout_s)
            installed = tuple(environment.freeze())
            seen = _tried(environment, trial)
    except CommandError as error:
        remedy = "install it by hand in a new virtual environment to see all of it"
        return Tried(finding=Finding(check=check, seen=_in_a_line(error), remedy=remedy))
    return Tried(finding=Finding(check=check, seen=seen), installed=installed)


def given(trial: Trial, folder: Path) -> dict[str, str]:
    """The variables of a trial: the user's, and those of a build.

    Args:
        trial: how artifacts are tried.
        folder: one for as long as the trial takes.
    """
    jobs = compile_jobs(trial.settings.memory_gib_per_job * _GIB)
    environ = compiling.constrained(trial.environ, folder, trial.constraints)
    environ |= compiling.jobs_environment(trial.environ, jobs)
    environ["SOURCE_DATE_EPOCH"] = str(compiling.moment(trial.environ, trial.project.source.committed_at))
    if trial.settings.ccache == "auto":
        environ |= compiling.cache_environment(environ, folder)
    return environ


def _runs_on(one: Artifact, environment: Environment) -> bool:
    known = set(json.loads(environment.run(["-I", "-c", _TAGS], timeout_s=60)))
    return any(str(tag) in known for tag in one.tags)


def _tried(environment: Environment, trial: Trial) -> str:
    environment.run(["-m", "pip", "check", "--disable-pip-version-check"], timeout_s=_TRY_TIMEOUT_S)
    environment.run(["-I", "-c", _IMPORT, json.dumps(list(trial.packages))], timeout_s=_TRY_TIMEOUT_S)
    seen = f"installs, imports {', '.join(trial.packages)}"
    if not trial.smoke:
        return f"{seen}; no smoke tests are named (package.smoke)"
    environment.install(trial.requirements)
    with tempfile.TemporaryDirectory(prefix="spyre-ci-smoke-") as name:
        folder = Path(name).resolve()
        for test in trial.smoke:
            _copy(trial.project.folder, test, folder)
        words = ["-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
        words += ["-c", "/dev/null", "--rootdir", str(folder), *trial.smoke]
        said = environment.run(words, timeout_s=_TRY_TIMEOUT_S, cwd=folder)
    last = (said.strip().splitlines() or [""])[-1]
    return f"{seen}; smoke tests: {last.strip('= ')}"


def _copy(project: Path, test: str, into: Path) -> None:
    source = (project / test).resolve()
    if not source.exists() or not source.is_relative_to(project):
        raise MissingInputError(
            f"there is no {test!r} in the project", where="package.smoke", remedy="name its smoke tests"
        )
    target = into / test
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _in_a_line(error: CommandError) -> str:
    lines = [line.strip().removeprefix("| ") for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[-600:]
