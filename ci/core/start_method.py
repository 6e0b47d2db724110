"""How processes that import tests begin: as copies of a prepared one, or afresh. Pure."""

from __future__ import annotations

from ci.core.errors import SettingsError

AUTO, FORK, SPAWN = "auto", "fork", "spawn"


def start_method(wanted: str, *, system: str) -> str:
    """`fork` where a copy of a process lives with the system's own libraries, else `spawn`.

    Source for macOS: Python's documentation of `multiprocessing`, "Contexts and start methods": fork is
    unsafe there, as system libraries may start threads.

    Args:
        wanted: the setting `run.start_method`: auto, fork or spawn.
        system: as `sys.platform` has it.

    Raises:
        SettingsError: fork is wanted where it is not safe.
    """
    if wanted == SPAWN or (wanted == AUTO and system != "linux"):
        return SPAWN
    if system != "linux":
        raise SettingsError(
            f"{FORK!r} is wanted, and a copy of a process is not safe with the libraries of {system}",
            where="run.start_method",
            remedy=f"give {SPAWN}, or leave it at {AUTO}, which is {SPAWN} here",
        )
    return FORK
