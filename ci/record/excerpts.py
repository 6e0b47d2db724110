"""What is kept of the texts in journals: enough to see why each test failed, in a memory that does not grow.

A run in which everything fails writes gigabytes of tracebacks, and a report holds all of its tests at once.
The journals keep every text whole. Pure.
"""

from __future__ import annotations

from ci.record.events import JournalEvent

# Of one text, in characters; a fifth of it from the beginning, where a traceback says what was called.
LONGEST = {"detail": 16 << 10, "message": 4 << 10}
# Of the texts of all journals that are read together; of further ones the last lines are kept, and of
# messages the beginning, by which decisions are made.
TOTAL = 64 << 20
LAST_LINES, LAST_CHARS = 3, 300


class Excerpts:
    """Cuts the texts of events, one event after another, so that all together have a bounded length."""

    def __init__(self, room: int = TOTAL) -> None:
        """Begin with nothing kept.

        Args:
            room: characters that may be kept before only last lines are.
        """
        self._room = room

    def cut(self, event: JournalEvent, where: str) -> JournalEvent:
        """The event with its texts cut; changed in place.

        Args:
            event: any.
            where: the name of the journal that has them whole.
        """
        for key, longest in LONGEST.items():
            text = getattr(event, key, None)
            if isinstance(text, str) and len(text) > LAST_CHARS:
                kept = _ends(text, longest, where) if len(text) > longest else text
                if len(kept) > self._room:
                    kept = _first(text, where) if key == "message" else _last(text, where)
                self._room -= len(kept)
                setattr(event, key, kept)
        return event


def _ends(text: str, longest: int, where: str) -> str:
    head = longest // 5
    cut = len(text) - longest
    return f"{text[:head]}\n{_note(cut, where)}\n{text[head + cut :]}"


def _last(text: str, where: str) -> str:
    end = "\n".join(text[-LAST_CHARS:].splitlines()[-LAST_LINES:])
    return f"{_note(len(text) - len(end), where)}\n{end}"


def _first(text: str, where: str) -> str:
    return f"{text[:LAST_CHARS]} {_note(len(text) - LAST_CHARS, where)}"


def _note(cut: int, where: str) -> str:
    # In ASCII, for one other sign makes the whole text take twice the memory.
    return f"[{cut:,} characters cut; the full text is in {where}]"
