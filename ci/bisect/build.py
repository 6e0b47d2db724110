"""How a commit is prepared: only its files, a wheel built of it, or an image; a dict by name."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.config.bisect_model import Bisect
from ci.core.commands import finish_command, run_command
from ci.core.errors import CommandError, SpyreCiError
from ci.core.shared_folders import Kept, forget
from test_selection.files import write_text

_INSTALL_S = 300.0


class UntestableError(SpyreCiError):
    """The commit cannot be built, or does not have the test, so nothing is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A prepared commit.

    Attributes:
        sha: of it.
        tree: its files; `test/` in it holds the tests.
        packages: folder with what was built of it, to be imported before anything else; None: nothing was.
        image: the tests run in it; empty: here.
    """

    sha: str
    tree: Path
    packages: Path | None = None
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """What builds commits: settings, a folder for what is kept, the environment, and whether to stop."""

    settings: Bisect
    cache: Path
    environ: Mapping[str, str]
    stop: Callable[[], bool]

    def run(self, sha: str, tree: Path, out: Path) -> None:
        """Run the command of the settings in a tree.

        Raises:
            UntestableError: it failed; its output is in a log.
            CommandError: it was killed or took too long, which says nothing about the commit.
        """
        values = {"tree": str(tree), "sha": sha, "out": str(out), "tag": f"{self.settings.image}:{sha}"}
        words, timeout_s = words_of(self.settings.command, values), self.settings.build_timeout_s
        ended = finish_command(words, timeout_s=timeout_s, cwd=tree, env=self.environ, stop=self.stop)
        if ended.code < 0:  # out of memory, or somebody's kill
            raise CommandError(f"the build was ended by signal {-ended.code}")
        if ended.code:
            text = (ended.stdout + ended.stderr).decode("utf-8", "replace")
            write_text(log := self.cache / f"build-{sha[:12]}.log", text)
            last = " | ".join(text.strip().splitlines()[-3:])[-500:]
            raise UntestableError(f"cannot be built: exit code {ended.code}: {last} (all of it: {log})")


@contextmanager
def checkout(_: Builder, sha: str, tree: Path) -> Iterator[Made]:
    """The tests of a commit on the torch that is installed."""
    yield Made(sha=sha, tree=tree)


@contextmanager
def image(builder: Builder, sha: str, tree: Path) -> Iterator[Made]:
    """An image that the command builds and tags; the engine's cache knows what was built before."""
    builder.run(sha, tree, tree)
    yield Made(sha=sha, tree=tree, image=f"{builder.settings.image}:{sha}")


@contextmanager
def wheel(builder: Builder, sha: str, tree: Path) -> Iterator[Made]:
    """A wheel, unpacked into a folder that is kept for later searches."""
    key = "\0".join([sys.version, sys.prefix, *builder.settings.command])
    folder = builder.cache / hashlib.sha256(os.fsencode(key)).hexdigest()[:16] / sha
    kept = Kept(folder, stop=builder.stop, timeout_s=builder.settings.build_timeout_s)
    try:
        if not kept.whole:
            _install(builder, sha, tree, folder)
        kept.done()
        yield Made(sha=sha, tree=tree, packages=folder)
    finally:
        kept.let_go()
        forget(folder.parent, builder.settings.keep_wheels)


BUILDERS = {"checkout": checkout, "wheel": wheel, "image": image}


def words_of(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """A command with its `{names}` replaced; other braces stay, and values are not looked into. Pure."""
    names = re.compile(r"\{(" + "|".join(values) + r")\}")
    return [names.sub(lambda found: values[found[1]], word) for word in command]


def _install(builder: Builder, sha: str, tree: Path, folder: Path) -> None:
    out = folder.with_name(f"{sha}.wheel")
    for left in (folder, out):  # by a search that was killed
        shutil.rmtree(left, ignore_errors=True)
    out.mkdir()
    try:
        builder.run(sha, tree, out)
        wheels = sorted(map(str, out.glob("*.whl")))
        if not wheels:
            raise UntestableError("cannot be built: bisect.command left no wheel in {out}")
        options = ["--quiet", "--no-deps", "--no-index", "--no-input", "--target", str(folder)]
        words = [sys.executable, "-m", "pip", "--isolated", "install", *options, *wheels]
        run_command(words, timeout_s=_INSTALL_S, env=builder.environ)
    finally:
        shutil.rmtree(out, ignore_errors=True)
