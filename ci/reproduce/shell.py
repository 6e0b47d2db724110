"""Opening the image of a run: files that Git knows are copied, and the copy is what the image may write."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import ci
from ci.core.errors import CommandError
from ci.core.git import finish_git
from ci.image.shell import WORKSPACE, Caller, find_client, shell_command
from ci.reproduce.container import SHIM, choose_image, confined, mounts
from ci.reproduce.evidence import Evidence
from ci.reproduce.read_evidence import REPRODUCE_DIR
from ci.steps.context import Context

GIT_S = 60


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
