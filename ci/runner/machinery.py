"""Whether test files want PyTorch's test machinery, which takes twice as long to import as torch itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from test_selection.files import read_bounded

# What nearly every test file of PyTorch imports.
MACHINERY = ("common_utils", "common_device_type", "common_methods_invocations", "common_modules")
_NAMED = b"torch.testing"


def wants_machinery(tests: Path, files: Iterable[str]) -> bool:
    """Whether any of these files names PyTorch's test machinery, so that it is imported once for all of them.

    A file that imports it by way of another one imports it for itself, which takes its time and no more.

    Args:
        tests: the folder of the tests.
        files: test files, relative to it; one that cannot be read is taken to want it.
    """
    return any(_names(tests / file) for file in files)


def _names(path: Path) -> bool:
    try:
        return _NAMED in read_bounded(path)
    except OSError:
        return True
