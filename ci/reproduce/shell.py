"""Open the image of a run by its digest, without a secret of the run.

Files that Git knows are copied, and the copy is what the image may write.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import ci
from ci.core.container_shell import WORKSPACE, Caller, bound, find_client, shell_command
from ci.core.errors import CommandError, UsageError
from ci.core.git import finish_git
from ci.core.provider import BY_DIGEST
from ci.reproduce.evidence import Evidence
from ci.reproduce.read_evidence import REPRODUCE_DIR
from ci.steps.context import Context

# Where the toolkit's code is in the image, and the command that the line of a report begins with.
TOOLKIT = "/opt/spyre-ci"
COMMAND = "/usr/local/bin/spyre-ci"
SHIM = f"""#!/bin/sh
PYTHONPATH="{TOOLKIT}${{PYTHONPATH:+:$PYTHONPATH}}" exec python3 -m ci.cli "$@"
"""
GIT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The image that is opened, and whether it is one of the settings' registry."""

    image: str
    ours: bool


def choose_image(noted: str, asked: str | None, repository: str | None, where: str) -> Chosen:
    """The image to open.

    Args:
        noted: what the run notes, name@sha256:…; empty where it notes none.
        asked: what the user names; None: the run's.
        repository: where the settings push images; None: nowhere.
        where: what errors name.

    Raises:
        UsageError: none is known, or the run's is of another registry than the settings'.
    """
    if asked is not None:
        if not asked or asked.startswith("-"):
            raise UsageError(f"{asked!r} is no image", remedy="give --image name@sha256:…")
        return Chosen(image=asked, ours=_ours(asked, repository))
    if not noted or not BY_DIGEST.fullmatch(noted):
        raise UsageError(
            "the run notes no image that it ran in", where=where or None, remedy="name one with --image"
        )
    if not _ours(noted, repository):
        raise UsageError(
            f"the run's image {noted} is none of {repository or 'image.repository, which is not set'}",
            where=where or None,
            remedy=f"if you trust it, say so: --image {noted}",
        )
    return Chosen(image=noted, ours=True)


def _ours(image: str, repository: str | None) -> bool:
    return repository is not None and image.rpartition("@")[0] == repository


def mounts(
    *, code: Path, shim: Path, tests: Path | None, runs: Sequence[tuple[Path, str]], workspace: str
) -> list[str]:
    """The words that put what is only read into the image: the toolkit, its command, and the run's folder.

    Args:
        code: the folder that holds the toolkit's packages.
        shim: the file that is the command.
        tests: a tree of tests on this machine, which is there under the same name; None: it is none.
        runs: folders of runs and their names below the folder of runs.
        workspace: where the copy of the checkout is.
    """
    pairs = [(code / name, f"{TOOLKIT}/{name}") for name in ("ci", "test_selection")]
    pairs += [(shim, COMMAND), *([] if tests is None else [(tests, str(tests))])]
    pairs += [(folder, str(PurePosixPath(workspace) / "runs" / name)) for folder, name in runs]
    return [word for source, target in pairs for word in ("--mount", bound(source, target, readonly=True))]


def confined(chosen: Chosen, network: str | None) -> list[str]:
    """The words that hold an image down: no rights to gain, and a stranger's has no network unasked."""
    held = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    given = network if network is not None else (None if chosen.ours else "none")
    return [*held, *([] if given is None else ["--network", given])]


def shell_words(
    context: Context, found: Evidence, *, image: str | None, network: str | None, folder: Path
) -> list[str]:
    """Make what the image is given, and the words that open a shell in it.

    Args:
        context: the outside world.
        found: the test.
        image: what the user names; None: the run's.
        network: none, host or a network's name; None: the engine's, or none in a stranger's image.
        folder: takes the copy of the checkout.

    Raises:
        UsageError: no image is known, or it is a stranger's.
        CommandError: there is no engine's command, or Git does not tell which files there are.
    """
    settings = context.settings
    chosen = choose_image(found.image, image, settings.model.image.repository, found.at)
    client = find_client(context.environ, shutil.which)
    workspace = folder / "workspace"
    copy_checkout(settings.base.resolve(), workspace, context.environ)
    shim = folder / "spyre-ci"
    shim.write_text(SHIM, encoding="utf-8")
    shim.chmod(0o755)
    run = Path(found.at) if found.own and found.at else None
    runs = [(run, found.run)] if run is not None and found.run == run.name else []
    for _, name in runs:
        (workspace / "runs" / name).mkdir(parents=True, exist_ok=True)
    caller = Caller(user=os.getuid(), group=os.getgid(), checkout=workspace, terminal=sys.stdin.isatty())
    code = Path(ci.__file__).resolve().parent.parent
    tests = Path(found.source) if found.own and found.source and Path(found.source).is_dir() else None
    given = mounts(code=code, shim=shim, tests=tests and tests.resolve(), runs=runs, workspace=WORKSPACE)
    words = [*given, *confined(chosen, network)]
    return shell_command(client, chosen.image, caller, network=None, more=words)


def new_folder(state: Path) -> Path:
    """A folder for the copy of a checkout; it stays, with what is written in the image, until it is pruned.

    Args:
        state: the state folder.
    """
    (state / REPRODUCE_DIR).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="shell-", dir=state / REPRODUCE_DIR))


def copy_checkout(base: Path, into: Path, environ: Mapping[str, str]) -> None:
    """Copy the files of a checkout that Git tracks; what it does not may be a secret, and stays.

    Args:
        base: the checkout.
        into: the copy, which is not there yet.
        environ: for Git.

    Raises:
        CommandError: it is no checkout of Git.
    """
    ended = finish_git(base, "ls-files", "-z", "--cached", environ=environ, timeout_s=GIT_S)
    if ended.code:
        raise CommandError(
            "Git does not tell which files are the checkout's",
            where=base,
            remedy="call it in a checkout: what is no file of Git's is not shown to an image",
        )
    into.mkdir(parents=True)
    for name in filter(None, os.fsdecode(ended.stdout).split("\0")):
        source, target = base / name, into / name
        if source.is_symlink() or source.is_file():  # else deleted, or a repository of its own
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
