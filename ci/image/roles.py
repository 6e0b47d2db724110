"""What an image is started as: the entry script, the roles of a stack file, and the labels that tell them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ci.image.model import RoleName, Stack

ENTRY = "/opt/spyre/entry"
FOLDER = "/opt/spyre/roles"
LABEL = "io.github.torch-spyre.role."
NAMES: tuple[RoleName, ...] = ("test", "notebook", "serve")
# Where a role listens unless PORT says another; entry.sh has the same numbers.
PORTS: Mapping[str, int] = {"notebook": 8888, "serve": 8080}
MODEL = "/model"


def packages_of(stack: Stack) -> set[str]:
    """The Python packages roles want."""
    return {package for role in stack.roles.values() for package in role.packages}


def make_entry(stack: Stack) -> str:
    """The step that puts the entry script and the roles' commands into the image."""
    lines = [f"install -d -m 0755 {FOLDER}", *_file(ENTRY, _script(), "0755")]
    for name in sorted(stack.roles):
        text = f'exec {stack.roles[name].command} "$@"\n'
        lines += _file(f"{FOLDER}/{name}", text, "0644")
    return "; ".join(lines)


def labels_of(stack: Stack) -> dict[str, str]:
    """A label a role, whose value is the words it is verified with."""
    return {f"{LABEL}{name}": shlex.join(stack.roles[name].check) for name in sorted(stack.roles)}


def roles_in(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The roles an image's labels tell of, with the words each is verified with."""
    return {name: _words(labels[f"{LABEL}{name}"]) for name in NAMES if f"{LABEL}{name}" in labels}


def _words(label: str) -> list[str]:
    """The words of a label, which on an image of others may be anything."""
    try:
        return shlex.split(label)
    except ValueError:
        return []


def _file(path: str, text: str, mode: str) -> list[str]:
    # A word a line: linters of Containerfiles read no script that goes over several.
    lines = " ".join(map(shlex.quote, text.splitlines()))
    return [f"printf '%s\\n' {lines} > {path}", f"chmod {mode} {path}"]


@cache
def _script() -> str:
    """The entry script without its comments, a change of which makes no other image."""
    text = files("ci.image").joinpath("templates/entry.sh").read_text(encoding="utf-8")
    first, *lines = text.splitlines()
    return "\n".join([first, *(one for one in lines if one and not one.lstrip().startswith("#"))])
