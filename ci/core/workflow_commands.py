"""What GitHub's runner reads in a log: workflow commands of ours, and none that a test printed.

The runner takes a line for a command that begins with `::` after blanks, or holds `##[` anywhere (an older
form); see "Workflow commands for GitHub Actions" in GitHub's documentation. What tests print is data.
"""

from __future__ import annotations

import re
from typing import Any, TextIO

# GitHub shows so many annotations of a kind and step, and drops the others in silence.
MAX_ANNOTATIONS = 10
_LINE_ENDS = re.compile(r"(\r\n|\r|\n)")
# Not only blanks: the runner compares as a language does, which passes over what has no width.
_COMMAND = re.compile(r"\W*?::")
_OLD = "##["


def data(text: str) -> str:
    """A command's value, escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_value(text: str) -> str:
    """The value of a command's property, escaped."""
    return data(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, value: str = "", **properties: str) -> str:
    """A workflow command, such as `::error file=a.py::it broke`."""
    given = ",".join(f"{key}={property_value(one)}" for key, one in properties.items())
    return f"::{name}{' ' if given else ''}{given}::{defused_old(data(value))}"


def defused_old(text: str) -> str:
    """The text with nothing that the older form of commands begins with."""
    return text.replace(_OLD, "# #[")


def defused(line: str) -> str:
    """A line that no runner takes for a command; what already is none stays as it is."""
    line = defused_old(line)
    return f"| {line}" if _COMMAND.match(line) else line


class Defused:
    """A stream for people in a log GitHub's runner reads: commands pass only where they are meant."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._open = ""

    def write(self, text: str) -> int:
        """Write every whole line; what is left open waits, or its second half could make it a command."""
        *whole, self._open = _LINE_ENDS.split(self._open + text)
        for line, end in zip(whole[::2], whole[1::2], strict=True):
            self._stream.write(defused(line) + end)
        return len(text)

    def command(self, line: str) -> None:
        """Write a command, on a line of its own."""
        self.flush()
        self._stream.write(line + "\n")
        self._stream.flush()

    def flush(self) -> None:
        """Write everything; a line that is still open ends here."""
        if self._open:
            self.write("\n")
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
