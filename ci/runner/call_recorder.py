"""What each test calls: operators of its device, as far as that says so, and Python functions of torch.

A device's module (`torch.spyre`) says so by `take_calls()`: what was called since it was last asked, each an
overload and a dtype, such as `aten::add.Tensor float32`. Functions are `torch/functional.py:norm`.
"""

from __future__ import annotations

import hashlib
import sys
import unittest
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

# `1`: the functions of torch are noted as well, which makes tests slower.
TRACE_FUNCTIONS = "SPYRE_CI_TRACE_FUNCTIONS"


class FunctionCalls:
    """The Python functions of torch that this thread calls."""

    def __init__(self, package: Path) -> None:
        """Begin to note them; `package` is torch's folder."""
        self._top, self._within = len(str(package.parent)) + 1, f"{package}/"
        self._seen: set[CodeType] = set()
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    def take(self) -> list[str]:
        """What was called since this was last asked, whatever a test did to the profile function."""
        seen, self._seen = self._seen, set()
        sys.setprofile(self._note)
        return [
            f"{code.co_filename[self._top :]}:{code.co_qualname.partition('.<locals>')[0]}"
            for code in seen
            if code.co_filename.startswith(self._within)
        ]


class CallRecorder:
    """Tells the calls of one test from those of the next; what a file or a class calls is each test's."""

    def __init__(self, *takes: Callable[[], Iterable[str]]) -> None:
        """Begin with what the file's import called.

        Args:
            takes: each says what was called since it was last asked.
        """
        self._takes = takes
        self._of_file = self._take()
        self._class: type | None = None
        self._of_class: set[str] = set()
        self._told: set[str] = set()

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str]) -> Self | None:
        """The recorder of what this process calls; None where nothing says what that is."""
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        name = torch._C._get_privateuse1_backend_name()  # noqa: SLF001  # there is no public way to ask
        takes = [getattr(getattr(torch, name, None), "take_calls", None)]
        if environ.get(TRACE_FUNCTIONS) == "1":
            takes.append(FunctionCalls(Path(str(torch.__file__)).parent).take)
        known = [take for take in takes if take is not None]
        return cls(*known) if known else None

    def set_up(self, of_class: type | None) -> None:
        """The fixtures of a test are set up: those of a TestCase's class, or what tests of the file share.

        Which of a file's other tests use a fixture is not asked.
        """
        called = self._take()
        of_one = self._class is not None and of_class is not None and issubclass(of_class, unittest.TestCase)
        if self._class is not of_class:
            self._class, self._of_class = of_class, set()
        if of_one:
            self._of_class |= called
        else:
            self._of_file |= called

    def of_test(self) -> tuple[str, list[str] | None]:
        """What the test called that ends now.

        Returns:
            The key of the set of its calls, and the set where that was not told before.
        """
        called = sorted(self._of_file | self._of_class | self._take())
        key = hashlib.sha256("\n".join(called).encode()).hexdigest()[:10]
        if key in self._told:
            return key, None
        self._told.add(key)
        return key, called

    def _take(self) -> set[str]:
        return {one for take in self._takes for one in take()}
