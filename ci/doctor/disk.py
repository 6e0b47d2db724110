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
# Python's, after what the environment names.
_USUAL = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  # the same
_WRITTEN = b"x" * 65536


def check_disk(machine: Machine) -> Iterator[Finding]:
    """A line for each place that cannot be written, and one for each file system of the others."""
    systems: dict[int, list[tuple[str, Path, int]]] = {}
    temporary, passed_over = _temporary(machine)
    yield from passed_over
    for use, path, needs, setting in places(machine, temporary):
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
            message = f"{size(free)} left, and a run takes up to {size(needs)}: {uses}"
            yield warning(message, f"free space there: {show}")
        else:
            yield ok(f"{size(free)} left for {uses}")


def _temporary(machine: Machine) -> tuple[Path, list[Finding]]:
    """Where Python puts temporary files, as `tempfile` looks for it, and what it passes over."""
    named = [(name, given) for name in ("TMPDIR", "TEMP", "TMP") if (given := machine.environ.get(name))]
    found = list[Finding]()
    for name, folder in [*named, *(("", one) for one in _USUAL)]:
        path = Path(folder).absolute()
        try:
            try_writing(path)
        except OSError as error:
            if name:
                why = f"{name} is {path}, which cannot be written: {error.strerror or error}"
                message = f"temporary files: {why}; Python looks for another folder, other programs may fail"
                found.append(warning(message, f"make it, or set {name} to another folder"))
        else:
            return path, found
    return machine.cwd, found


def places(machine: Machine, temporary: Path) -> Iterator[tuple[str, Path, int, str]]:
    """Where a run of these settings writes: use, folder, bytes, and the setting that names another place."""
    settings, environ = machine.settings, machine.environ
    yield "runs", settings.resolve(settings.model.runs), GIB, "runs"
    yield "state", settings.state_dir, GIB, "state"
    yield "temporary files", temporary, 2 * GIB, "TMPDIR"
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
