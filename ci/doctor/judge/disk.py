"""Room on disks: where a run writes, whether it can, and how much is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.core.text import shell_line, size
from ci.doctor.finding import Finding, fault, ok, warning

DISK = "disk"
MIB, GIB = 1 << 20, 1 << 30
# Files and folders that a run makes in one place: journals, JUnit, caches; what nox installs has more.
FEWEST_FILES = 50_000


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
