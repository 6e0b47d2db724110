"""Check disks: a file is written, and removed again, wherever a run will write, and how much is left."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.text import shell_line, size
from ci.doctor.cards import leases_folder
from ci.doctor.finding import Finding, fault, ok, warning
from ci.doctor.world import World

DISK = "disk"
MIB, GIB = 1 << 20, 1 << 30
# Files and folders that a run makes in one place: journals, JUnit, caches; what nox installs has more.
FEWEST_FILES = 50_000
_USUAL = "/tmp"  # noqa: S108  # where Python looks as well
_WRITTEN = b"x" * 65536
# What is there once packages are installed takes this much less.
_NOX_BYTES, _INSTALLED_BYTES = 6 * GIB, 512 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that a run writes into.

    Attributes:
        use: what for, such as `runs`.
        path: the folder.
        looked_at: it, or where it is not there yet the folder it would be made in.
        wants: bytes that a run takes there.
        device: number of its file system.
        free: bytes left for this user.
        files: files that can still be made; None where the file system has no such limit.
        why: it cannot be written; empty where it can.
        setting: by which another place is named; empty where there is none.
    """

    use: str
    path: str
    looked_at: str
    wants: int
    device: int = 0
    free: int = 0
    files: int | None = None
    why: str = ""
    setting: str = ""


def judge_disk(places: Sequence[Place]) -> list[Finding]:
    """A line for each place that cannot be written, and one for each file system of the others."""
    found = [_unwritable(one) for one in places if one.why]
    by_device: dict[int, list[Place]] = {}
    for one in places:
        if not one.why:
            by_device.setdefault(one.device, []).append(one)
    return [*found, *(line for several in by_device.values() for line in _room(several))]


def _unwritable(place: Place) -> Finding:
    another = f"; or name another place with {place.setting}" if place.setting else ""
    look = shell_line(["ls", "-ld", "--", place.looked_at])
    return fault(
        DISK,
        f"{place.use}: {place.looked_at} cannot be written: {place.why}",
        f"see whose it is: {look}{another}",
    )


def _room(places: Sequence[Place]) -> list[Finding]:
    """The places of one file system, which share what is left."""
    wants, first = sum(one.wants for one in places), places[0]
    uses = ", ".join(f"{one.use} {one.path}" for one in places)
    show = shell_line(["df", "-h", "--", first.looked_at])
    found = []
    if first.free < wants:
        said = f"{size(first.free)} left for {uses}; a run takes up to {size(wants)}"
        found.append(warning(DISK, said, f"free space there: {show}"))
    if first.files is not None and first.files < FEWEST_FILES:
        inodes = shell_line(["df", "-i", "--", first.looked_at])
        said = f"{first.files:,} files can still be made for {uses}; a run makes up to {FEWEST_FILES:,}"
        found.append(warning(DISK, said, f"remove files there: {inodes}"))
    return found or [ok(DISK, f"{size(first.free)} left for {uses}")]


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
