"""Replacing a component's commit for a pull request: `flex=git+URL@SHA`, or `Test-With` lines; pure.

What stands in a pull request's text is data: each line is checked against the one form, and names only what
is taken from where. How it is built stays the stack file's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ci.core.addresses import without_secrets
from ci.core.errors import MissingInputError, UsageError
from ci.image.model import GitUrl, Ref, Stack

FORM = "NAME=git+URL@REF"
# Bytes; GitHub takes 65,536 characters.
MOST_TEXT = 4 * 65536
FORM_HERE = f"{FORM} or NAME=FOLDER"
# What looks like an address and is none would be reported as a missing folder.
_HERE = re.compile(r"(?P<name>[a-z][a-z0-9-]*)=(?P<folder>(?!git\+)(?!.*://).+)", re.DOTALL)
_FORM = re.compile(r"(?P<name>[a-z][a-z0-9-]*)=git\+(?P<url>\S+)@(?P<ref>[^@\s]+)")
_LINE = re.compile(r"^[ \t]*Test-With:[ \t]*(?P<value>.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_URL: TypeAdapter[str] = TypeAdapter(GitUrl)
_REF: TypeAdapter[str] = TypeAdapter(Ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A component that is taken from elsewhere: from a commit, or from a folder of this machine."""

    name: str
    url: str = ""
    ref: str = ""
    folder: Path | None = None


def parse_override(text: str, *, where: str = "--with", here: Path | None = None) -> Override:
    """An override in the form NAME=git+URL@REF, or NAME=FOLDER for a checkout on this machine.

    Args:
        text: what was given.
        where: it was given, for errors.
        here: the working folder; None: folders are not taken, as a pull request's text names none.

    Raises:
        UsageError: it has another form.
    """
    if here is not None and (folder := _HERE.fullmatch(text)):
        return Override(name=folder["name"], folder=here / folder["folder"])
    seen = without_secrets(text[:200])
    found = _FORM.fullmatch(text)
    if found is None:
        form = FORM if here is None else FORM_HERE
        raise UsageError(f"{seen!r} is not an override", where=where, remedy=f"write {form}")
    try:
        url, ref = _URL.validate_python(found["url"]), _REF.validate_python(found["ref"])
    except ValidationError as error:
        told = f"{seen!r} has no valid repository and commit: {error.errors()[0]['msg']}"
        raise UsageError(told, where=where, remedy=f"write {FORM}, without user and password") from None
    return Override(name=found["name"], url=url, ref=ref)


def overrides_in(path: Path) -> list[Override]:
    """The overrides of a pull request's text: its `Test-With: NAME=git+URL@REF` lines, in their order.

    Args:
        path: of a file with the text, of which at most as much is read as GitHub takes.

    Raises:
        MissingInputError: there is no such file.
        UsageError: such a line has another form, or names a repository of this machine.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MOST_TEXT).decode("utf-8", "replace")
    except FileNotFoundError:
        what, remedy = "there is no such file", "write the pull request's text there"
        raise MissingInputError(what, where=path, remedy=remedy) from None
    found = [parse_override(line["value"], where="Test-With") for line in _LINE.finditer(text)]
    for one in found:
        if one.url.startswith("file:"):
            raise UsageError(
                f"{one.url!r} is on this machine, and a pull request may not name that",
                where="Test-With",
                remedy="name a repository that others can reach",
            )
    return found


def overridden(stack: Stack, overrides: Iterable[Override]) -> Stack:
    """The stack with components taken from elsewhere.

    Raises:
        UsageError: there is no such component, it is not built from a repository, or it is named twice.
    """
    components = {one.name: one for one in stack.components}
    remedy = f"components: {', '.join(components) or 'none'}"
    seen: set[str] = set()
    for one in overrides:
        component = components.get(one.name)
        if component is None:
            raise UsageError(f"there is no component {one.name!r}", where="--with", remedy=remedy)
        if component.git is None:
            what = f"{one.name} is not built from a repository"
            raise UsageError(what, where="--with", remedy=remedy)
        if one.name in seen:
            raise UsageError(f"{one.name} is replaced twice", where="--with", remedy="keep one of them")
        seen.add(one.name)
        if one.folder is None:
            git = component.git.model_copy(update={"url": one.url, "ref": one.ref})
            components[one.name] = component.model_copy(update={"git": git})
    return stack.model_copy(update={"components": tuple(components.values())})
