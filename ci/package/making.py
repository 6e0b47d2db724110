"""`spyre-ci package build`: which version, the build, a second one to compare, and the record of both."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

from ci.core.errors import EXIT_TEST_FAILED, RunInUseError, SpyreCiError, UsageError
from ci.core.locks import alone
from ci.core.text import listed
from ci.package.artifacts import Artifact
from ci.package.building import Built, Wanted, build, differences
from ci.package.records import BUILD, VERIFY, Record, forget_record, write_record
from ci.package.wiring import Bench, index_of, version_of


class NotReproducibleError(SpyreCiError):
    """Two builds of one commit that differ."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a build made.

    Attributes:
        bench: the project.
        version: of it.
        built: the build.
        differing: what a second build differed in, by file; None where there was none.
    """

    bench: Bench
    version: str
    built: Built
    differing: Mapping[str, Sequence[str]] | None = field(default=None)

    @property
    def artifacts(self) -> Sequence[Artifact]:
        """Sdist and wheel."""
        return self.built.artifacts

    def as_json(self) -> dict[str, Any]:
        """For machines, and the record."""
        cache = self.built.cache
        return {
            "project": self.bench.project.canonical,
            "version": self.version,
            "source": self.bench.project.source.as_json(),
            "files": [one.as_json() for one in self.artifacts],
            "python": ".".join(map(str, sys.version_info[:3])),
            "environment": list(self.built.installed),
            "jobs": self.built.jobs,
            "ccache": None if cache is None else {"hits": cache.hits, "misses": cache.misses},
            "reproducible": None if self.differing is None else not self.differing,
            "differing": {name: list(found) for name, found in (self.differing or {}).items()},
        }


def make(bench: Bench, *, index: str | None, keep: bool, twice: bool, say: Callable[[str], None]) -> Made:
    """Build a project, and note it.

    Args:
        bench: the project.
        index: the name of the one it is for; None: any that takes local versions.
        keep: whether an earlier build's environment is used again.
        twice: whether it is built again elsewhere and compared.
        say: takes a line for people.

    Raises:
        UsageError: there is no such index.
        RunInUseError: another build of the project is under way.
        BuildError: the project cannot be built.
    """
    local = index is None or index_of(bench.package, index).local_versions
    version = version_of(bench, local=local)
    if not version:
        raise UsageError(
            "the project declares no version, and package.version is `declared`",
            where=bench.project.folder,
            remedy="set package.version: git",
        )
    untracked = [one for one in bench.project.source.untracked if not bench.is_ours(one)]
    if untracked:
        named = listed([ascii(name)[1:-1] for name in untracked], 3)
        say(f"left out, not being in the repository: {named}")
    # Were this to break, what was found of an earlier build would still open gates.
    for step in (BUILD, VERIFY):
        forget_record(bench.records, step)
    busy = RunInUseError(
        "another build of this project is under way", where=bench.work, remedy="wait for its end"
    )
    with alone(bench.work / "lock", busy):
        built = build(_wanted(bench, version, bench.work, keep=keep), bench.dist, say)
        differing = _again(bench, version, built, say) if twice else None
    made = Made(bench=bench, version=version, built=built, differing=differing)
    content = made.as_json()
    for name in ("project", "source"):
        del content[name]
    source = bench.project.source
    write_record(
        bench.records,
        Record(
            step=BUILD, project=bench.project.canonical, commit=source.commit, dirty=source.dirty,
            passed=not differing, details=content,
        ),
    )  # fmt: skip
    return made


def refuse_differences(made: Made) -> None:
    """Raise where two builds differed, naming the members.

    Raises:
        NotReproducibleError: they did.
    """
    if not made.differing:
        return
    lines = "".join(
        f"\n  {name}: {listed([ascii(one)[1:-1] for one in found], 8)}"
        for name, found in made.differing.items()
    )
    raise NotReproducibleError(
        f"two builds of {made.version} differ{lines}",
        where=made.bench.dist,
        remedy="find what of time, path or order gets into them; a pure package must not differ",
    )


def _again(bench: Bench, version: str, built: Built, say: Callable[[str], None]) -> dict[str, list[str]]:
    """Build once more, in another folder, and compare."""
    say("again, in another folder")
    work = bench.work.with_name(f"{bench.work.name}.again")
    work.mkdir(parents=True, exist_ok=True)
    wanted = _wanted(bench, version, work, keep=False)
    second = build(wanted, work / "dist", say)
    return differences(built.artifacts, second.artifacts)


def _wanted(bench: Bench, version: str, work: Path, *, keep: bool) -> Wanted:
    return Wanted(
        project=bench.project,
        version=Version(version),
        settings=bench.package,
        constraints=bench.constraints,
        work=work,
        environ=os.environ,
        keep=keep,
    )
