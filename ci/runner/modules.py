"""How a module of ours becomes a process: without the folder that it is called in among what it imports."""

from __future__ import annotations

import sys
from pathlib import Path

import ci

# Of an installation this is where packages are, of a checkout the checkout.
HOME = Path(ci.__file__).parents[1]


def module_words(name: str, *, here: Path | None = None, home: Path = HOME) -> list[str]:
    """The words that run a module.

    A back end's checkout has a folder that is called as what it installs (`torch_spyre/`), where nothing is
    compiled. `python -m` takes the folder it is called in for a place of packages, and would import that.

    Args:
        name: of the module.
        here: the folder that it is called in; None: this process's.
        home: where our own packages are. Called there, nothing else may say where they are.
    """
    try:
        here = Path.cwd() if here is None else here
    except FileNotFoundError:  # removed meanwhile: nothing is imported from there
        return [sys.executable, "-P", "-m", name]
    return [sys.executable, *([] if here == home else ["-P"]), "-m", name]
