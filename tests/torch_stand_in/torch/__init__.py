"""As much of torch as runs ask for whose tests do not use it: importing it takes a second a process."""

from __future__ import annotations

from types import SimpleNamespace

from .version import __version__ as __version__

_C = SimpleNamespace(_get_privateuse1_backend_name=lambda: "privateuseone")


def set_num_threads(_count: int) -> None:
    """Nothing computes."""


def manual_seed(_seed: int) -> None:
    """Nothing is drawn."""
