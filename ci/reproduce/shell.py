"""Open the image of a run by its digest, without a secret of the run.

Only the files that Git tracks are copied, and the copy is what the image may write.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from ci.core.container_shell import WORKSPACE, Caller, become, bound, find_client, shell_command
from ci.core.errors import CommandError, UsageError
from ci.core.git import finish_git
from ci.core.provider import BY_DIGEST
from ci.reproduce.evidence import Evidence
from ci.reproduce.names import REPRODUCE_DIR
from ci.runner.child import HOME
from ci.steps.context import Context

# Where our code is in the image, and the command that a reproduce line begins with.
TOOLKIT = "/opt/spyre-ci"
COMMAND = "/usr/local/bin/spyre-ci"
SHIM = f"""#!/bin/sh
PYTHONPATH="{TOOLKIT}${{PYTHONPATH:+:$PYTHONPATH}}" exec python3 -m ci.cli "$@"
"""
GIT_S = 60


def choose_image(
    recorded: str, requested: str | None, repository: str | None, where: str
) -> tuple[str, bool]:
    """The image to open, and whether it is one of the settings' registry. Pure.

    Args:
        recorded: by the run, name@sha256:…; empty where it has none.
        requested: by the user; None: the run's.
        repository: where the settings push images.
        where: what errors name.

    Raises:
        UsageError: none is known, or the run's is from another registry than the settings'.
    """
    image = recorded if requested is None else requested
    ours = repository is not None and image.rpartition("@")[0] == repository
    if requested is not None:
        if not requested or requested.startswith("-"):
            raise UsageError(f"{requested!r} is not an image", remedy="give --image name@sha256:…")
    elif not BY_DIGEST.fullmatch(recorded):
        raise UsageError("the run recorded no image", where=where or None, remedy="name one with --image")
    elif not ours:
        raise UsageError(
            f"the run's image {recorded} is not from {repository or 'image.repository, which is not set'}",
            where=where or None,
            remedy=f"if you trust it, name it: --image {recorded}",
        )
    return image, ours


def open_shell(context: Context, found: Evidence, requested: str | None) -> NoReturn:
    """Become a shell in the image; an image that is not from the settings' registry has no network.

    Raises:
        UsageError: no image is known, or it is not trusted.
        CommandError: there is no container engine's command, or no Git checkout.
    """
    settings = context.settings
    image, ours = choose_image(found.image, requested, settings.model.image.repository, found.at)
    client = find_client(context.environ, shutil.which)
    base = settings.base.resolve()
    files = tracked_files(base, context.environ)
    (context.state(REPRODUCE_DIR)).mkdir(parents=True, exist_ok=True)
    # It stays, with what is written in the image, until it is pruned.
    folder = Path(tempfile.mkdtemp(prefix="shell-", dir=context.state(REPRODUCE_DIR)))
    workspace, command = folder / "workspace", folder / "spyre-ci"
    for name in files:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(base / name, workspace / name, follow_symlinks=False)
    command.write_text(SHIM, encoding="utf-8")
    command.chmod(0o755)
    mounts = {COMMAND: command, **{f"{TOOLKIT}/{name}": HOME / name for name in ("ci", "test_selection")}}
    if found.own and found.source and Path(found.source).is_dir():
        tests = Path(found.source).resolve()
        mounts[str(tests)] = tests
    if found.own and found.at and found.info.run == Path(found.at).name:
        (workspace / "runs" / found.info.run).mkdir(parents=True, exist_ok=True)
        mounts[f"{WORKSPACE}/runs/{found.info.run}"] = Path(found.at)
    caller = Caller(user=os.getuid(), group=os.getgid(), checkout=workspace, terminal=sys.stdin.isatty())
    words = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    words += [word for to, one in mounts.items() for word in ("--mount", bound(one, to, readonly=True))]
    context.say(f"{WORKSPACE} is the copy {workspace}; in the image: {found.command}")
    become(shell_command(client, image, caller, network=None if ours else "none", more=words))


def tracked_files(base: Path, environ: Mapping[str, str]) -> list[str]:
    """The files of a checkout that Git tracks; others may be secrets.

    Raises:
        CommandError: it is not a Git checkout.
    """
    ended = finish_git(base, "ls-files", "-z", "--cached", environ=environ, timeout_s=GIT_S)
    if ended.code:
        raise CommandError(
            "Git does not list the files of this folder",
            where=base,
            remedy="run it in a Git checkout: only files that Git tracks are shown to an image",
        )
    names = filter(None, os.fsdecode(ended.stdout).split("\0"))
    # The others were deleted, or are repositories of their own.
    return [name for name in names if (base / name).is_symlink() or (base / name).is_file()]
