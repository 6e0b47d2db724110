"""Check disks: wherever a run writes, a file is written and removed, and the free space compared."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ci.core.text import shell_line, size
from ci.doctor.cards import leases_folder
from ci.doctor.finding import Finding, fault, ok, warning
from ci.doctor.machine import Machine

MIB, GIB = 1 << 20, 1 << 30
# What nox installs; once it is there, a run adds little.
_NOX_BYTES, _INSTALLED_BYTES = 6 * GIB, 512 * MIB
_WRITTEN = b"x" * 65536


def check_disk(machine: Machine) -> Iterator[Finding]:
    """A line for each place that cannot be written, and one for each file system of the others."""
    systems: dict[int, list[tuple[str, Path, int]]] = {}
    for use, path, needs, setting in places(machine):
        here = path
        try:
            here = next(one for one in (path, *path.parents) if one.exists() or one.is_symlink())
            try_writing(here)
            systems.setdefault(here.stat().st_dev, []).append((f"{use} {path}", here, needs))
        except OSError as error:
            message = f"{use}: {here} cannot be written: {error.strerror or error}"
            remedy = f"see whose it is: {shell_line(['ls', '-ld', '--', str(here)])}; or set {setting}"
            yield fault(message, remedy)
    for there in systems.values():
        uses, needs = ", ".join(use for use, _, _ in there), sum(bytes_ for _, _, bytes_ in there)
        free = shutil.disk_usage(there[0][1]).free
        if free < needs:
            show = shell_line(["df", "-h", "--", str(there[0][1])])
            message = f"{size(free)} left for {uses}; a run takes up to {size(needs)}"
            yield warning(message, f"free space there: {show}")
        else:
            yield ok(f"{size(free)} left for {uses}")


def places(machine: Machine) -> Iterator[tuple[str, Path, int, str]]:
    """Where a run of these settings writes: use, folder, bytes, and the setting that names another place."""
    settings, environ = machine.settings, machine.environ
    yield "runs", settings.resolve(settings.model.runs), GIB, "runs"
    yield "state", settings.state_dir, GIB, "state"
    temporary = next(filter(None, map(environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp")  # noqa: S108  # Python's
    yield "temporary files", Path(temporary).absolute(), 2 * GIB, "TMPDIR"
    if settings.model.device.name != "cpu":
        yield "leases of cards", leases_folder(settings), MIB, "run.leases"
    if (share := settings.model.run.share) and "://" not in share:
        yield "claims of hosts", settings.resolve(Path(share)), MIB, "run.share"
    if (machine.cwd / "noxfile.py").is_file():
        environments = Path(environ.get("NOX_ENVDIR") or machine.cwd / ".nox").absolute()
        needs = _INSTALLED_BYTES if (environments / "pytorch").is_dir() else _NOX_BYTES
        yield "nox", environments, needs, "NOX_ENVDIR"


def try_writing(folder: Path) -> None:
    """Write a small file through to the disk, and remove it.

    Raises:
        OSError: that fails.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".spyre-ci-doctor-") as stream:
        stream.write(_WRITTEN)
        stream.flush()
        os.fsync(stream.fileno())
