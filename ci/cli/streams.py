"""Standard output that outlasts its reader: `| head` or a full disk ends the text, never the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast


class LastingStream:
    """Hands everything on to a stream; once that cannot take more, what follows goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop what nobody can take; what the encoding lacks is written as its escape."""
        self._last(lambda: self._stream.write(self._encodable(text)))
        return len(text)

    def flush(self) -> None:
        """Flush, or drop what nobody can take."""
        self._last(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _encodable(self, text: str) -> str:
        # Names of tests may hold anything, and a C locale holds ASCII alone: no reason to end a run.
        encoding = self._stream.encoding or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def _last(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError:
            # The descriptor, not this object: what is still buffered must find a taker as well.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


def outlast_readers() -> None:
    """Let standard output and standard error of this process outlast their readers."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None:  # a closed descriptor gives none
            setattr(sys, name, cast("TextIO", LastingStream(stream)))
