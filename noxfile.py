"""The one face for people and for every CI: `nox -l` lists what there is, arguments go behind `--`."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5.1"
# NOX_DEFAULT_VENV_BACKEND=none takes the environment as it is: a runtime image's, or one that was prepared.
# So does a job whose runner is the runtime image; there no emulated device stands in for a card unasked.
IN_IMAGE = os.environ.get("SPYRE_CI_ENVIRONMENT") == "image"
nox.options.default_venv_backend = (
    "none" if IN_IMAGE else os.environ.get("NOX_DEFAULT_VENV_BACKEND") or "virtualenv"
)
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

# Tests of a group (tests/groups.py) are one worker's. What takes longest is told.
WORKERS: tuple[str, ...] = ("-n", "2", "--dist", "loadscope", "--durations=25", "--durations-min=5")
# The gate, which many wait for, runs a test that failed once more: it is listed at the end with how it failed
# and is to be mended. Elsewhere a failure is a failure.
if os.environ.get("SPYRE_CI_RERUNS"):
    WORKERS += ("--reruns", os.environ["SPYRE_CI_RERUNS"], "--rerun-show-tracebacks", "-raR")
LONG = "gate or nightly or soak"
PLACES = ("tests/integration", "tests/oracle")
PROJECT = nox.project.load_toml(Path(__file__).with_name("pyproject.toml"))
# The project with every extra that a test imports: the same wherever tests run or are type-checked.
TESTED = ".[torch,redis,s3,clickhouse,image,package,github,jobs,mlflow,pins]"
# After Ctrl-C a run still writes the account of what it did; nox alone would give it 0.3 seconds.
ACCOUNT_S = 120
# With what sessions ended that did not end well.
CODES: list[int] = []


@nox.session(tags=["check"])
def tests(session: nox.Session) -> None:
    """Unit tests, then quick integration tests; arguments go to pytest."""
    install(session, "-e", TESTED, groups=("test",))
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    session.run("pytest", "tests/unit", "-n", "2")
    # A third of it waits for processes and servers: one worker more than the two cores there are.
    session.run("pytest", *PLACES, "-m", f"not ({LONG})", *WORKERS, "-n", "3")


def unit_tests(session: nox.Session) -> None:
    """Unit tests on this version of Python; arguments go to pytest."""
    install(session, "-e", TESTED, groups=("test",))
    session.run("pytest", *(session.posargs or ("tests/unit", "-n", "2")))


for version in nox.project.python_versions(PROJECT):
    nox.session(name=f"tests-{version}", python=version, default=False, tags=["check"])(unit_tests)


@nox.session(default=False, tags=["check"])
def gate(session: nox.Session) -> None:
    """Long tests that guard the design's laws."""
    install(session, "-e", TESTED, groups=("test", "heavy"))
    long_tests(session, "gate and not (nightly or soak)")


@nox.session(default=False)
def rooms(session: nox.Session) -> None:
    """The nightly tests of the packages that a change since CI_BASE, or the last commit, touches."""
    install(session, "-e", TESTED, groups=("test", "heavy"))
    said = session.run("python", "scripts/touched.py", os.environ.get("CI_BASE") or "HEAD~1", silent=True)
    if places := str(said).split():
        long_tests(session, "nightly and not soak", places=places)


@nox.session(default=False, tags=["check"])
def nightly(session: nox.Session) -> None:
    """What the gate leaves out; then every property with 500 examples, then the quick benchmark."""
    install(session, "-e", TESTED, groups=("test", "heavy"))
    session.notify("properties")
    session.notify("bench", ["--quick"])
    long_tests(session, "nightly and not soak")


@nox.session(default=False)
def properties(session: nox.Session) -> None:
    """Unit tests, with 500 examples of every property."""
    install(session, "-e", TESTED, groups=("test",))
    session.run("pytest", "tests/unit", "-n", "2", "--hypothesis-profile", "nightly")


@nox.session(default=False, tags=["check"])
def soak(session: nox.Session) -> None:
    """What the gate and the night look at in part, in full: every seed, every file of PyTorch's tree."""
    install(session, "-e", TESTED, groups=("test", "heavy"))
    long_tests(session, "soak", "-o", "faulthandler_timeout=7200")


@nox.session(default=False, tags=["check"])
def macos(session: nox.Session) -> None:
    """What needs no card and no engine, as on a laptop: unit tests, and a share of the op suite."""
    install(session, "-e", TESTED, groups=("test",))
    session.run("pytest", "tests/unit", "-n", "2")
    spyre_ci(session, "pytorch", *(session.posargs or ("--percent", "1", "--cards", "2")))


@nox.session(tags=["check"])
def lint(session: nox.Session) -> None:
    """Every linter, types and the repository; `-- --fix` mends what it can; `-- PROJECT` lints another."""
    folder = project_of(session)
    if not is_ours(folder):
        install(session, "-e", ".[package]")
        spyre_ci(session, "package", "lint", *with_project(session))
        return
    # With torch and what tests import: their types are part of what is checked.
    install(session, "-e", TESTED, groups=("lint", "test", "fuzz"))
    spyre_ci(session, "package", "lint", *with_project(session))
    with session.chdir(folder):
        # At its strictest, which is more than other projects are asked for.
        session.run("zizmor", "--offline", "--persona=auditor", "--no-progress", "--quiet", ".")
        session.run("mypy")
        # As on macOS, whose Python lacks some calls; with a cache of its own, so that both are kept.
        there = ("--platform", "darwin", "--cache-dir", ".mypy_cache/darwin")
        session.run("mypy", *there, "ci", "test_selection")
        session.run("lint-imports", "--no-cache")
        session.run("python", "scripts/check_repository.py")


@nox.session(default=False, venv_backend="none")
def environment(session: nox.Session) -> None:
    """Put what every check wants into the environment that nox is in; then `nox --no-venv -s tests`."""
    wanted = nox.project.dependency_groups(PROJECT, "lint", "test", "heavy")
    session.run(sys.executable, "-m", "pip", "install", "-e", TESTED, *wanted, silent=True)


@nox.session(default=False, tags=["check"])
def bench(session: nox.Session) -> None:
    """Plans beside other tools', the runner beside pytest; `-- --only trivial`, `--quick`, `--json`."""
    install(session, "-e", ".[torch,clickhouse]", groups=("bench", "heavy"))
    session.run("python", "tests/benchmarks/bench.py", *session.posargs)


@nox.session(default=False)
def pytorch(session: nox.Session) -> None:
    """The main job: a staged share of PyTorch's tests, on the emulated device where there is no card."""
    install(session, "-e", ".[torch]")
    install_back_end(session)
    try:
        spyre_ci(session, "pytorch", *session.posargs)
    finally:
        if session.venv_backend != "none" and not os.environ.get("CI"):
            # A report's lines are pasted where the verbs are found.
            session.log(f'the verbs: export PATH="{session.bin}:$PATH"')


@nox.session(default=False)
def reproduce(session: nox.Session) -> None:
    """Bring one test of a run back, as a report's line does: `-- --run --seed 7 -- ID RUN`."""
    install(session, "-e", ".[torch]")
    spyre_ci(session, "reproduce", *session.posargs)


@nox.session(default=False)
def plan(session: nox.Session) -> None:
    """Collect, select and plan without a card, and group the shards into CI jobs."""
    install(session, "-e", ".[torch]")
    install_back_end(session)
    spyre_ci(session, "pipeline", "plan", *session.posargs)


@nox.session(default=False)
def shards(session: nox.Session) -> None:
    """Run shards of a plan on this host: `-- --run-dir runs/ci --shard 0-3`."""
    install(session, "-e", ".[torch]")
    install_back_end(session)
    spyre_ci(session, "run", *session.posargs)


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Report a run from whatever journals there are: `-- --run-dir runs/ci`."""
    install(session, "-e", ".[torch]")
    spyre_ci(session, "report", *session.posargs)


@nox.session(default=False)
def unit(session: nox.Session) -> None:
    """A project's tests that need no device; `-- PROJECT` for another one than this."""
    install(session, "-e", ".[package]")
    spyre_ci(session, "package", "unit", *with_project(session))


@nox.session(default=False)
def device(session: nox.Session) -> None:
    """A project's tests that need cards, by the runner; `-- PROJECT` for another one than this."""
    install(session, "-e", ".[torch,package]")
    with tested(session) as before:
        spyre_ci(session, "package", "device", *with_project(session), before=before)


@nox.session(default=False)
def image(session: nox.Session) -> None:
    """Build the runtime image; `-- --push` pushes it, `-- shell` opens it, `-- test IMAGE` checks it."""
    install(session, "-e", ".[image]")
    named = bool(session.posargs) and not session.posargs[0].startswith("-")
    verb = [] if named else ["build"]
    spyre_ci(session, "image", *verb, *session.posargs)


@nox.session(default=False)
def job(session: nox.Session) -> None:
    """Jobs on Kubernetes and OpenShift: `-- submit SPEC --collect`, `-- watch NAME`, `-- validate`."""
    install(session, "-e", ".[jobs,s3,mlflow]")
    spyre_ci(session, "job", *session.posargs)


@nox.session(default=False)
def pins(session: nox.Session) -> None:
    """Pinned versions: `-- status`, `-- record`, `-- decide`, `-- apply`."""
    install(session, "-e", ".[image,github,pins]")
    spyre_ci(session, "pins", *session.posargs)


@nox.session(default=False)
def lanes(session: nox.Session) -> None:
    """Recurring runs: `-- next`, `-- run` is the worker, `-- export` for CIs with a clock of their own."""
    install(session, "-e", ".[github,jobs]")
    spyre_ci(session, "lanes", *session.posargs)


@nox.session(default=False)
def package(session: nox.Session) -> None:
    """Build a project's sdist and wheel and verify them: `-- PROJECT`, `-- PROJECT --index testpypi`."""
    install(session, "-e", ".[package]")
    for verb in ("build", "verify"):
        spyre_ci(session, "package", verb, *with_project(session))


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build a project's sdist and wheel, and no more: `-- PROJECT`."""
    install(session, "-e", ".[package]")
    spyre_ci(session, "package", "build", *with_project(session))


@nox.session(default=False)
def verify(session: nox.Session) -> None:
    """Verify the sdist and wheel that were built: `-- PROJECT`."""
    install(session, "-e", ".[package]")
    spyre_ci(session, "package", "verify", *with_project(session))


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Write what was verified down as a release: release.json, SHA256SUMS, the gate."""
    install(session, "-e", ".[package]")
    spyre_ci(session, "package", "release", *with_project(session))


@nox.session(default=False)
def publish(session: nox.Session) -> None:
    """Publish what was verified and install it from there; `-- --index testpypi`, `--dry-run` asks only."""
    install(session, "-e", ".[package]")
    spyre_ci(session, "package", "publish", *with_project(session))


@nox.session(default=False)
def hud(session: nox.Session) -> None:
    """Serve the embedded HUD-compatible endpoint with its pages; `-- send RUN` sends what a run owes HUD."""
    install(session, "-e", ".")
    named = bool(session.posargs) and not session.posargs[0].startswith("-")
    verb = [] if named else ["serve"]
    spyre_ci(session, "hud", *verb, *session.posargs)


@nox.session(default=False)
def pipeline(session: nox.Session) -> None:
    """A verb of a pipeline, such as `-- changes` or `-- gate --expect lint,unit`."""
    install(session, "-e", ".[github]")
    spyre_ci(session, "pipeline", *session.posargs)


@nox.session(default=False)
def webhooks(session: nox.Session) -> None:
    """The webhooks of a list of repositories: `-- apply`, `-- apply --check`."""
    install(session, "-e", ".[github]")
    spyre_ci(session, "webhooks", *session.posargs)


def long_tests(
    session: nox.Session,
    marks: str,
    *words: str,
    places: Sequence[str] = (),
) -> None:
    """Run the long tests with these marks; arguments of the session take the place of all that.

    Places that a change touched need have none of them, which pytest calls 5; else that is a failure.
    """
    chosen = (*(places or ("tests/heavy", *PLACES)), "-m", marks, *words, *WORKERS)
    session.run("pytest", *(session.posargs or chosen), success_codes=[0, 5] if places else [0])


@nox.session(default=False)
def issue(session: nox.Session) -> None:
    """Keep the issue that tells of a red night; NEEDS has the results of its jobs."""
    install(session, "-e", ".[github]")
    session.run("python", "scripts/nightly_issue.py")


def names_project(session: nox.Session) -> bool:
    """Whether the arguments begin with the folder of a project: another than the one nox was called in."""
    return bool(session.posargs) and not session.posargs[0].startswith("-")


def project_of(session: nox.Session) -> Path:
    """The folder of the project: the one that is named, else where nox was called."""
    return Path(session.invoked_from, *session.posargs[: names_project(session)])


def with_project(session: nox.Session) -> list[str]:
    """The arguments, the project's folder first."""
    return [*session.posargs] if names_project(session) else [".", *session.posargs]


def is_ours(folder: Path) -> bool:
    """Whether a folder is a checkout of this toolkit, be it this one or another."""
    file = folder / "pyproject.toml"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return re.search(r'^name *= *"spyre-ci"$', text, re.MULTILINE) is not None


def install(session: nox.Session, *arguments: str, groups: tuple[str, ...] = ()) -> None:
    """Install the project and dependency groups, unless nox was told to use the environment as it is."""
    if session.venv_backend == "none":
        return
    session.install(*arguments, *(nox.project.dependency_groups(PROJECT, *groups) if groups else ()))


def install_back_end(session: nox.Session) -> None:
    """Install what `device.install` of the project's settings says; an environment that was there has it.

    Words for pip, which no shell looks at; paths start from the settings' folder.
    """
    if session.venv_backend == "none":
        return
    file = Path(session.invoked_from, settings_file(session.posargs))
    words = ["--config", str(file)] if file.is_file() else []
    with session.chdir(file.parent if words else session.invoked_from):
        said = keeping_code(session, "spyre-ci", *words, "config", "show", "--json", silent=True, stderr=None)
        settings = json.loads(said) if isinstance(said, str) else {}
        if wanted := settings.get("device.install", {}).get("value"):
            session.install(*wanted)


def settings_file(words: Sequence[str]) -> str:
    """What `--config` names among a verb's arguments; else the file that is looked for."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", default="spyre-ci.yaml")
    try:
        return str(parser.parse_known_args(list(words))[0].config)
    except argparse.ArgumentError:  # it names none, which the verb itself refuses
        return ""


def spyre_ci(session: nox.Session, *words: str, before: str = "") -> None:
    """Call spyre-ci from where nox was called: the settings, runs and paths of that project count.

    An environment that is used as it is need not have it: the code is this checkout's, and `-P` keeps Python
    from looking for it in the folder where it is called.

    Args:
        session: of nox.
        words: its arguments.
        before: a folder whose packages come before those of the environment.
    """
    program, environ = ["spyre-ci"], {}
    if session.venv_backend == "none":
        path = [str(Path(__file__).resolve().parent), before, os.environ.get("PYTHONPATH", "")]
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        if shutil.which("spyre-ci") is None:
            program = ["python", "-P", "-m", "ci.cli"]
    if IN_IMAGE:
        environ["SPYRE_CI_EMULATE"] = os.environ.get("SPYRE_CI_EMULATE") or "0"
    with session.chdir(session.invoked_from):
        keeping_code(
            session,
            *program,
            *words,
            env=environ,
            interrupt_timeout=ACCOUNT_S,
            terminate_timeout=ACCOUNT_S,
        )


@contextlib.contextmanager
def tested(session: nox.Session) -> Iterator[str]:
    """Have what SPYRE_CI_TESTED names installed: the `wheel` in dist/ or the `checkout`; else what there is.

    Where nothing is, in an environment that nox made, it is the checkout.

    An environment that is used as it is stays so, and may be one that cannot be written: what is tested lies
    in a folder of its own, without its dependencies, and is built with what there is.

    Yields:
        That folder; empty where there is none.
    """
    project, what = project_of(session), os.environ.get("SPYRE_CI_TESTED") or "installed"
    if what not in {"installed", "wheel", "checkout"}:
        session.error(f"SPYRE_CI_TESTED is {what!r}; it is one of installed, wheel and checkout")
    found = {"wheel": sorted(project.glob("dist/*.whl")), "checkout": [project]}.get(what, [])
    if what == "wheel" and not found:
        session.error(f"there is no wheel in {project / 'dist'}; build it first: nox -s build")
    names = [str(one) for one in found]
    if session.venv_backend != "none":
        # An environment that nox made has nothing of the project but what is installed now.
        if names or not is_ours(project):
            session.install(*(names or [str(project)]))
        if what == "wheel":  # pip would keep the bytes of an earlier one with the same version
            session.install("--force-reinstall", "--no-deps", *names)
        yield ""
        return
    if not names:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="spyre-ci-tested-") as folder:
        alone = ["--no-deps", "--no-build-isolation", "--target", folder]
        session.run("python", "-m", "pip", "install", *alone, *names)
        yield folder


def keeping_code(session: nox.Session, *command: str, **how: Any) -> Any:
    """Run a command and let nox end with its exit code: 3 (incomplete) is not 1 (a failed test)."""
    try:
        return session.run(*command, **how)
    except CommandFailed as error:
        # Nox before 2026 says the code in words only; a program that is not found has none.
        word = str(error).rpartition(" ")[2]
        if code := getattr(error, "return_code", None) or (int(word) if word.isdecimal() else 0):
            if not CODES:
                atexit.register(_exit_with_the_worst)
            CODES.append(code)
        raise


def _exit_with_the_worst() -> None:
    """Of several sessions' codes the greatest: 3 (incomplete) beats 1 (a failed test)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(max(CODES))
