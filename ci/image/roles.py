"""What an image is started as: the entry script, the roles of a stack file, and the labels that tell them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files

from ci.image.model import RoleName, Stack

LABEL = "io.github.torch-spyre.role."
NAMES: tuple[RoleName, ...] = ("test", "notebook", "serve")
# Where a role listens unless PORT says another; entry.sh has the same numbers.
PORTS: Mapping[str, int] = {"notebook": 8888, "serve": 8080}
MODEL = "/model"


def start_files(stack: Stack) -> dict[str, str]:
    """The entry script and the roles' commands, by their path below /opt/spyre."""
    script = files("ci.image").joinpath("templates/entry.sh").read_text(encoding="utf-8")
    roles = {f"roles/{name}": f'exec {role.command} "$@"\n' for name, role in sorted(stack.roles.items())}
    return {"entry": script, **roles}


def labels_of(stack: Stack) -> dict[str, str]:
    """A label a role, whose value is the words it is verified with."""
    return {f"{LABEL}{name}": shlex.join(role.check) for name, role in stack.roles.items()}


def roles_in(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The roles an image's labels tell of, with the words each is verified with."""
    return {name: _words(labels[f"{LABEL}{name}"]) for name in NAMES if f"{LABEL}{name}" in labels}


def _words(label: str) -> list[str]:
    """The words of a label, which on an image of others may be anything."""
    try:
        return shlex.split(label)
    except ValueError:
        return []
