"""The one face for people and for every CI: `nox -l` lists what there is, arguments go behind `--`."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

# Tests of a group wait for each other, so one worker has all of them.
WORKERS = ("-n", "2", "--dist", "loadgroup")
# The project with every extra that a test imports: the same wherever tests run or are type-checked.
TESTED = ".[torch,redis,s3,clickhouse,image,package,github]"
# After Ctrl-C a run still writes the account of what it did; nox alone would give it 0.3 seconds.
ACCOUNT_S = 120


@nox.session(tags=["check"])
def tests(session: nox.Session) -> None:
    """Unit tests, then quick integration tests; arguments go to pytest."""
    install(session, "-e", TESTED, groups=("test",))
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    session.run("pytest", "tests/unit", "-n", "2")
    session.run("pytest", "tests/integration", "-m", "not heavy", *WORKERS)


@nox.session(default=False, tags=["check"])
def heavy(session: nox.Session) -> None:
    """What takes minutes: faults of runs, the real PyTorch tree, README's commands in a clean clone."""
    install(session, "-e", TESTED, groups=("test", "heavy"))
    session.run("pytest", *(session.posargs or ("tests/heavy", "tests/integration", "-m", "heavy", *WORKERS)))


@nox.session(tags=["check"])
def lint(session: nox.Session) -> None:
    """Every linter, types and the repository; `-- --fix` mends what it can; `-- PROJECT` lints another."""
    if names_project(session):
        install(session, "-e", ".[package]")
        run_keeping_code(session, "spyre-ci", "package", "lint", *with_project(session))
        return
    # With torch and what tests import: their types are part of what is checked.
    install(session, "-e", TESTED, groups=("lint", "test", "fuzz"))
    run_keeping_code(session, "spyre-ci", "package", "lint", ".", *session.posargs)
    session.run("mypy")
    session.run("python", "scripts/check_repository.py")


@nox.session(default=False, tags=["check"])
def bench(session: nox.Session) -> None:
    """Plans beside other tools', the runner beside pytest; `-- --only trivial`, `--quick`, `--json`."""
    install(session, "-e", ".[torch,clickhouse]", groups=("bench", "heavy"))
    session.run("python", "tests/benchmarks/bench.py", *session.posargs)


@nox.session(default=False)
def pytorch(session: nox.Session) -> None:
    """The main job: a staged share of PyTorch's tests, on the emulated device where there is no card."""
    install(session, "-e", ".[torch]")
    run_keeping_code(session, "spyre-ci", "pytorch", *session.posargs)


@nox.session(default=False)
def unit(session: nox.Session) -> None:
    """A project's tests that need no device; `-- PROJECT -- ARGS OF PYTEST` for others."""
    install(session, "-e", ".[package]")
    run_keeping_code(session, "spyre-ci", "package", "unit", *with_project(session))


@nox.session(default=False)
def device(session: nox.Session) -> None:
    """A project's tests that need cards, by the runner; `-- PROJECT` for another one than this."""
    install(session, "-e", ".[torch,package]")
    run_keeping_code(session, "spyre-ci", "package", "device", *with_project(session))


@nox.session(default=False)
def image(session: nox.Session) -> None:
    """Build the runtime image; `-- --push` pushes it, `-- shell` is a shell in it, `-- verify` checks it."""
    install(session, "-e", ".[image]")
    named = bool(session.posargs) and not session.posargs[0].startswith("-")
    verb = [] if named else ["build"]
    run_keeping_code(session, "spyre-ci", "image", *verb, *session.posargs)


@nox.session(default=False)
def package(session: nox.Session) -> None:
    """Build a project's sdist and wheel and verify them: `-- PROJECT`, `-- PROJECT --index testpypi`."""
    install(session, "-e", ".[package]")
    for verb in ("build", "verify"):
        run_keeping_code(session, "spyre-ci", "package", verb, *with_project(session))


@nox.session(default=False)
def publish(session: nox.Session) -> None:
    """Publish what was verified and install it from there; `-- --index testpypi`, `--dry-run` asks only."""
    install(session, "-e", ".[package]")
    run_keeping_code(session, "spyre-ci", "package", "publish", *with_project(session))


@nox.session(default=False)
def hud(session: nox.Session) -> None:
    """Serve the embedded HUD-compatible endpoint with its pages."""
    install(session, "-e", ".")
    run_keeping_code(session, "spyre-ci", "hud", "serve", *session.posargs)


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Post the report that another CI handed over in SPYRE_CI_REPORT, with this job's own token."""
    install(session, "-e", ".")
    run_keeping_code(session, "spyre-ci", "hud", "forward", *session.posargs)


def names_project(session: nox.Session) -> bool:
    """Whether the arguments begin with the folder of a project: another than this one."""
    return bool(session.posargs) and not session.posargs[0].startswith("-")


def with_project(session: nox.Session) -> list[str]:
    """The arguments, with the project's folder as whoever called nox means it: from where he stands."""
    if not names_project(session):
        return [".", *session.posargs]
    folder, *others = session.posargs
    return [str(Path(session.invoked_from, folder)), *others]


def install(session: nox.Session, *arguments: str, groups: tuple[str, ...] = ()) -> None:
    """Install the project and dependency groups, unless nox was told to use the environment as it is."""
    if session.venv_backend == "none":
        return
    project = nox.project.load_toml("pyproject.toml")
    session.install(*arguments, *(nox.project.dependency_groups(project, *groups) if groups else ()))


def run_keeping_code(session: nox.Session, *command: str) -> None:
    """Run a command and let nox end with its exit code: 3 (incomplete) is not 1 (a failed test)."""
    try:
        session.run(*command, interrupt_timeout=ACCOUNT_S, terminate_timeout=ACCOUNT_S)
    except CommandFailed as error:
        # Nox before 2026 says the code in words only.
        code = getattr(error, "return_code", None) or int(str(error).rpartition(" ")[2])
        atexit.register(_exit_with, code)
        raise


def _exit_with(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
