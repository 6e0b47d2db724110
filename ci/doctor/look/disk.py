"""Facts of disks: a file is written, and removed again, wherever a run will write."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ci.doctor.finding import Finding
from ci.doctor.judge.disk import GIB, MIB, Place, judge_disk
from ci.doctor.look.cards import leases_folder
from ci.doctor.world import World

_USUAL = "/tmp"  # noqa: S108  # where Python looks as well
_WRITTEN = b"x" * 65536
# What is there once packages are installed takes this much less.
_NOX_BYTES, _INSTALLED_BYTES = 6 * GIB, 512 * MIB


def look_disk(world: World) -> list[Finding]:
    """Every place a run of these settings writes into."""
    return judge_disk([facts_of(*one) for one in _places(world)])


def _places(world: World) -> list[tuple[str, Path, int, str]]:
    settings = world.settings
    named = (world.environ.get(one) for one in ("TMPDIR", "TEMP", "TMP"))
    # Not tempfile's own word: that is of this process's environment, and asked but once.
    temporary = next(filter(None, named), _USUAL)
    found = [
        ("runs", settings.resolve(settings.model.runs), GIB, "runs"),
        ("state", settings.state_dir, GIB, "state"),
        ("temporary files", Path(temporary), 2 * GIB, "TMPDIR"),
    ]
    if settings.model.device.name != "cpu":
        found.append(("leases of cards", leases_folder(settings), MIB, "run.leases"))
    if (share := settings.model.run.share) and "://" not in share:
        found.append(("claims of hosts", settings.resolve(Path(share)), MIB, "run.share"))
    environments = Path(world.environ.get("NOX_ENVDIR") or world.cwd / ".nox")
    if (world.cwd / "noxfile.py").is_file():
        there = (environments / "pytorch").is_dir()
        found.append(("nox", environments, _INSTALLED_BYTES if there else _NOX_BYTES, "NOX_ENVDIR"))
    return found


def facts_of(
    use: str,
    path: Path,
    wants: int,
    setting: str,
    write: Callable[[Path], None] | None = None,
) -> Place:
    """What is to be known of a place.

    Args:
        use: what it is for.
        path: the folder; it need not be there.
        wants: bytes a run takes there.
        setting: that names another place.
        write: tries to write into a folder; raises OSError.
    """
    here = path
    try:
        here = _nearest(path)
        (write or try_writing)(here)
        room = os.statvfs(here)
        device = here.stat().st_dev
    except OSError as error:
        why = error.strerror or str(error)
        return Place(use=use, path=str(path), looked_at=str(here), wants=wants, why=why, setting=setting)
    return Place(
        use=use,
        path=str(path),
        looked_at=str(here),
        wants=wants,
        device=device,
        free=room.f_bavail * room.f_frsize,
        files=room.f_favail if room.f_files else None,
        setting=setting,
    )


def try_writing(folder: Path) -> None:
    """Write a small file through to the disk, and remove it.

    Raises:
        OSError: that cannot be done.
    """
    path = folder / f".spyre-ci-doctor-{secrets.token_hex(8)}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        left = _WRITTEN
        while left:  # a disk that is nearly full takes a part and says no word of the rest
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()


def _nearest(path: Path) -> Path:
    """The folder itself, else the nearest above that is there.

    Raises:
        NotADirectoryError: something else is in its place.
    """
    for one in [path, *path.parents]:
        if one.is_dir():
            return one
        if one.exists() or one.is_symlink():
            raise NotADirectoryError(20, "it is no folder", str(one))
    raise FileNotFoundError(2, os.strerror(2), str(path))
