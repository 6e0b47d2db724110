"""What the journal says of a child that ended before its work was done: whose fault that was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ci.record import events
from ci.record.journal import JournalWriter
from ci.runner.preflight import Finding
from ci.runner.ras import hardware_event
from ci.runner.watchdog import ChildMonitor

UNTOLD = "what became of it could not be written: there was no space left, or the disk failed"


def crashed(journal: JournalWriter, watch: ChildMonitor, code: int, check: Callable[[], Finding]) -> bool:
    """A test ended with its process; whether that was the card's fault.

    Args:
        journal: of the shard.
        watch: of the child.
        code: it ended with.
        check: checks the card, before it runs anything else, where it did not say itself that it failed.
    """
    cause, message = watch.why(code)
    ras = ""
    blame = None if cause == "oom" else _blame(watch, check)
    if blame is not None:
        said, ras = blame
        cause, message = "hardware", f"{message}; {said}"
    crash = events.Crash(
        id=watch.running or "",
        cause=cause,
        message=message,
        detail=watch.last_lines(),
        seconds=round(watch.running_s, 3),
        ras=ras,
    )
    journal.write(crash)
    return blame is not None


def _blame(watch: ChildMonitor, check: Callable[[], Finding]) -> tuple[str, str] | None:
    """Why a crash is the card's, with the card's own word for it, if it is."""
    if (event := hardware_event(watch.printed())) is not None:
        return f"the card said: {event}", str(event)
    found = check()
    return None if found.ok else (f"the card failed its check after it: {found.message}", found.ras)


def card_failed(journal: JournalWriter, file: str, watch: ChildMonitor) -> bool:
    """Whether it was the card that ended a process in which no test ran."""
    event = hardware_event(watch.printed())
    if event is not None:
        said = f"setting up {file}: the card said: {event}"
        journal.write(events.CardFault(message=said, ras=str(event), detail=watch.last_lines()))
    return event is not None


def not_forked(journal: JournalWriter, file: str, watch: ChildMonitor, code: int) -> None:
    """A copied process could not set the file up: what was imported before may have killed the copy."""
    _, message = watch.why(code)
    journal.write(
        events.Respawn(
            file=file,
            message=f"setting up {file} in a forked process: {message}; once more in a fresh one",
            detail=watch.last_lines(),
        )
    )


def not_set_up(journal: JournalWriter, file: str, watch: ChildMonitor, code: int) -> None:
    """The file itself could not be had."""
    _, message = watch.why(code)
    watch.file_error = f"setting up {file}: {message}"
    journal.write(events.FileError(file=file, message=watch.file_error, detail=watch.last_lines()))


def unwritten(journal: JournalWriter, watch: ChildMonitor, left: Sequence[str]) -> list[str]:
    """The child could not write to the journal. Where this can, space is back, and one test was lost.

    Returns:
        The ids that are left to be run.
    """
    journal.write(events.WorkerLost(id=watch.running, message=UNTOLD))
    return [name for name in left if name != watch.running]
