"""How the image of a run is opened: by its digest, with a copy of the checkout and no secret of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ci.core.errors import UsageError
from ci.core.provider import BY_DIGEST
from ci.image.shell import bound

# Where the toolkit's code is in the image, and the command that the line of a report begins with.
TOOLKIT = "/opt/spyre-ci"
COMMAND = "/usr/local/bin/spyre-ci"
SHIM = f"""#!/bin/sh
PYTHONPATH="{TOOLKIT}${{PYTHONPATH:+:$PYTHONPATH}}" exec python3 -m ci.cli "$@"
"""


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
