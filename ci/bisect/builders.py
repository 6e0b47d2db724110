"""How a commit is made ready: only its files, a wheel built of it, or an image; a dict by name."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci.bisect.search import UnbuildableError
from ci.core.errors import CommandError
from ci.core.process import LAST_LINES, Ended, finish_command
from ci.core.shared_folders import Kept, forget
from test_selection.files import write_text

_SHORT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A commit that is ready.

    Attributes:
        tree: its files; `test/` in it holds the tests.
        python: runs them.
        image: they run in; empty: here.
        cached: whether a collection of its tests may be kept: what is built decides which tests there are.
        release: to be called when it is not needed any more.
    """

    tree: Path
    python: Path = field(default_factory=lambda: Path(sys.executable))
    image: str = ""
    cached: bool = True
    release: Callable[[], None] = lambda: None


class Builder(Protocol):
    """Makes commits ready."""

    def build(self, sha: str, tree: Path) -> Made:
        """Make one ready; the tree holds its files.

        Raises:
            UnbuildableError: the commit cannot be built.
            CommandError: it took too long, or what builds is not there: the machine's fault.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What builders are told.

    Attributes:
        command: words with `{tree}`, `{sha}`, `{out}` and `{tag}` in them.
        cache: folder for what is kept.
        keep: how many commits are kept there.
        image: name of images.
        environ: the environment of commands.
        timeout_s: seconds a build may take.
        stop: says that the search was ended.
    """

    command: Sequence[str]
    cache: Path
    keep: int
    image: str
    environ: Mapping[str, str]
    timeout_s: float
    stop: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Checkout:
    """The tests of a commit on the torch that is installed: only tests change."""

    plan: Plan

    def build(self, sha: str, tree: Path) -> Made:  # noqa: ARG002  # as every builder
        """Nothing is to be built."""
        return Made(tree=tree)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of each commit, installed into an environment of its own over the one that runs us."""

    plan: Plan

    def build(self, sha: str, tree: Path) -> Made:
        """Build and install, unless that was done before."""
        folder = self.plan.cache / _key(self.plan.command) / sha
        kept = Kept(folder, stop=self.plan.stop, timeout_s=self.plan.timeout_s)
        try:
            if not kept.whole:
                self._make(sha, tree, folder)
            kept.done()
        except BaseException:
            kept.let_go()
            raise
        return Made(tree=tree, python=_python(folder), cached=False, release=lambda: self._let_go(kept))

    def _make(self, sha: str, tree: Path, folder: Path) -> None:
        out = folder.with_name(f"{sha}.wheel")
        for left in (folder, out):  # by a search that was killed
            shutil.rmtree(left, ignore_errors=True)
        out.mkdir()
        try:
            _build(self.plan, sha, tree, out)
            wheels = sorted(out.glob("*.whl"))
            if not wheels:
                raise UnbuildableError(
                    "the build left no wheel in {out}",
                    where="bisect.command",
                    remedy="have the command write its wheel there, such as with `--wheel-dir {out}`",
                )
            self._install(folder, _python(folder), wheels)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def _let_go(self, kept: Kept) -> None:
        kept.let_go()
        forget(kept.folder.parent, self.plan.keep)

    def _install(self, folder: Path, python: Path, wheels: Sequence[Path]) -> None:
        run = _runner(self.plan)
        run([sys.executable, "-m", "venv", "--without-pip", folder])
        site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        # All that is installed here is there as well, behind what is installed of the commit.
        ours = [str(path) for path in dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib")))]
        lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
        write_text(site / "_spyre_ci_below.pth", "".join(lines))
        words = ["install", "--quiet", "--no-deps", "--no-index", "--no-input", "--force-reinstall"]
        run([sys.executable, "-m", "pip", "--python", python, "--isolated", *words, *wheels])


@dataclass(frozen=True, slots=True)
class Image:
    """An image of each commit, that a command of the settings builds and tags."""

    plan: Plan

    def build(self, sha: str, tree: Path) -> Made:
        """Build it; the engine's cache knows what was built before."""
        with tempfile.TemporaryDirectory(prefix="spyre-ci-image-", dir=tree.parent) as out:
            _build(self.plan, sha, tree, Path(out))
        return Made(tree=tree, image=f"{self.plan.image}:{sha}", cached=False)


BUILDERS: Mapping[str, Callable[[Plan], Builder]] = {"checkout": Checkout, "wheel": Wheel, "image": Image}


def words_of(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """A command with the values put in; other braces stay, and nothing put in is looked at again. Pure."""
    found = []
    for word in command:
        made, rest = "", word
        while rest:
            at, name = min(
                ((rest.find(f"{{{name}}}"), name) for name in values if f"{{{name}}}" in rest),
                default=(-1, ""),
            )
            if at < 0:
                made, rest = made + rest, ""
            else:
                made, rest = made + rest[:at] + values[name], rest[at + len(name) + 2 :]
        found.append(made)
    return found


def _build(plan: Plan, sha: str, tree: Path, out: Path) -> None:
    values = {"tree": str(tree), "sha": sha, "out": str(out), "tag": f"{plan.image}:{sha}"}
    ended = finish_command(
        words_of(plan.command, values),
        timeout_s=plan.timeout_s,
        cwd=tree,
        env=plan.environ,
        stop=plan.stop,
    )
    said = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    if plan.stop():
        raise CommandError("the build was ended")
    if ended.code < 0:  # a signal: out of memory, or somebody's kill
        raise CommandError(f"the build was ended by signal {-ended.code}")
    if ended.code:
        log = plan.cache / f"build-{sha[:12]}.log"
        write_text(log, said)
        tail = " | ".join(said.strip().splitlines()[-3:])
        raise UnbuildableError(f"the build ended with code {ended.code}: {tail[-500:]}", where=log)


def _runner(plan: Plan) -> Callable[[Sequence[str | Path]], None]:
    def run(argv: Sequence[str | Path]) -> None:
        ended: Ended = finish_command(argv, timeout_s=_SHORT_S, env=plan.environ, stop=plan.stop)
        if ended.code:
            lines = (ended.stderr or ended.stdout).decode("utf-8", "replace").splitlines()[-LAST_LINES:]
            tail = "".join(f"\n  | {line}" for line in lines)
            raise CommandError(f"ended with code {ended.code}: {argv[0]} … {argv[-1]}{tail}")

    return run


def _key(command: Sequence[str]) -> str:
    """What builds by another command, or for another Python, is another thing."""
    said = "\0".join([sys.version, sys.prefix, *command])
    return hashlib.sha256(os.fsencode(said)).hexdigest()[:16]


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"
