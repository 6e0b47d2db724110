"""What is in an image, as its own interpreter tells it, and what should not be there."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from importlib.resources import files

import msgspec

from ci.core.findings import Finding, judged
from ci.core.text import listed
from ci.image.container import Conditions
from ci.image.verify.expected import Expected
from ci.image.verify.subject import Subject, how

MOST_LINES = 500_000
TIMEOUT_S = 600
MOST_SHOWN = 5
# Sees every file; it has no network, and what it would write is thrown away.
_ALL = Conditions(user="0:0", read_only=True, scratch=("/tmp",))  # noqa: S108  # in memory


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What is in an image.

    Attributes:
        python: name and version of its Python packages.
        kind: deb or rpm; empty where its distribution has neither.
        distribution: such as debian.
        packages: name, version and architecture of the distribution's.
        powerful: files with setuid or setgid that are of no package.
        writable: paths that everybody can write, besides those meant for it.
    """

    python: tuple[tuple[str, str], ...]
    kind: str = ""
    distribution: str = ""
    packages: tuple[tuple[str, str, str], ...] = ()
    powerful: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


def take(subject: Subject) -> Inventory | Finding:
    """What is in it, or a finding that it cannot be told."""
    code = files("ci.image.verify").joinpath("inside.py").read_text(encoding="utf-8")
    lines: deque[str] = deque(maxlen=MOST_LINES)
    ended = subject.run(
        ["run", "python", "-c", code], _ALL, timeout_s=TIMEOUT_S, on_line=lambda _, line: lines.append(line)
    )
    with suppress(ValueError, msgspec.DecodeError):
        # What else is said comes before; within, no line is a brace alone.
        begin = len(lines) - 1 - list(reversed(lines)).index("{")
        return msgspec.json.decode("\n".join(list(lines)[begin:]), type=Inventory)
    return Finding(
        check="contents", seen=how(ended), remedy="let `run python` in it start a Python of 3.9 or newer"
    )


def check_contents(found: Inventory) -> Finding:
    """It can be told what is in it."""
    told = f"{len(found.packages)} of {found.distribution}" if found.kind else "none of a distribution known"
    return Finding(check="contents", seen=f"{len(found.python)} Python packages, {told}")


def check_powerful(found: Inventory) -> Finding:
    """No file gives root's rights to who starts it, besides those of the distribution."""
    return judged(
        "setuid",
        listed(found.powerful, MOST_SHOWN) or "none besides the distribution's",
        holds=not found.powerful,
        remedy="take the bits away where they are put there: chmod ug-s",
    )


def check_writable(found: Inventory) -> Finding:
    """Nothing can be written by everybody, besides /tmp and its like."""
    return judged(
        "writable by all",
        listed(found.writable, MOST_SHOWN) or "nothing besides /tmp",
        holds=not found.writable,
        remedy="chmod o-w where it is made; group 0 is enough",
    )


def check_build_packages(found: Inventory, expected: Expected) -> Finding:
    """What components are built with is not in it."""
    leaked = sorted({name for name, _, _ in found.packages} & set(expected.absent))
    return judged(
        "build packages",
        listed(leaked, MOST_SHOWN) or f"none of {len(expected.absent)}",
        holds=not leaked,
        remedy="see which of base.packages or of components' packages needs it",
    )
