"""Replacing a component's commit for a pull request: `flex=git+URL@SHA`, or `Test-With` lines; pure.

What stands in a pull request's text is data: each line is checked against the one form, and names only what
is taken from where. How it is built stays the stack file's word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
_HERE = re.compile(r"(?P<name>[a-z][a-z0-9-]*)=(?P<folder>(?!git\+).+)", re.DOTALL)
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


def parse_override(text: str, *, where: str = "--with", form: str = FORM) -> Override:
    """An override in the form NAME=git+URL@REF.

    Args:
        text: what was given.
        where: it was given, for errors.
        form: that is taken there, for errors.

    Raises:
        UsageError: it has another form.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{without_secrets(text[:200])!r} is no override", where=where, remedy=f"write {form}"
        )
    try:
        url, ref = _URL.validate_python(found["url"]), _REF.validate_python(found["ref"])
    except ValidationError as error:
        seen, why = without_secrets(text[:200]), error.errors()[0]["msg"]
        told = f"{seen!r} names no repository and commit that can be taken: {why}"
        raise UsageError(told, where=where, remedy=f"write {FORM}, without user and password") from None
    return Override(name=found["name"], url=url, ref=ref)


def parse_with(text: str, *, here: Path) -> Override:
    """What `--with` is given: an override, or NAME=FOLDER for a checkout on this machine.

    Only for what a user types: a pull request's text names no folders.

    Args:
        text: what was given.
        here: the working folder.

    Raises:
        UsageError: it has another form.
    """
    found = _HERE.fullmatch(text)
    # What looks like an address and is none would be said to be a folder that is not there.
    if found is not None and "://" not in found["folder"]:
        return Override(name=found["name"], folder=here / found["folder"])
    return parse_override(text, form=FORM_HERE)


def read_text(path: Path) -> str:
    """A pull request's text; at most as much of it as GitHub takes.

    Raises:
        MissingInputError: there is no such file.
    """
    try:
        with path.open("rb") as file:
            return file.read(MOST_TEXT).decode("utf-8", "replace")
    except FileNotFoundError:
        raise MissingInputError(
            "there is no such file", where=path, remedy="write the pull request's text there"
        ) from None


def overrides_in(text: str) -> list[Override]:
    """The overrides of a pull request's text: its `Test-With: NAME=git+URL@REF` lines, in their order.

    Raises:
        UsageError: such a line has another form.
    """
    found = [parse_override(line["value"], where="Test-With") for line in _LINE.finditer(text)]
    for one in found:
        if one.url.startswith("file:"):
            raise UsageError(
                f"{one.url!r} is on this machine, which a pull request has no word on",
                where="Test-With",
                remedy="name a repository that others reach",
            )
    return found


def overridden(stack: Stack, overrides: Iterable[Override]) -> Stack:
    """The stack with components taken from elsewhere.

    Raises:
        UsageError: there is no such component, it is not built from a repository, or it is named twice.
    """
    components = {one.name: one for one in stack.components}
    seen: set[str] = set()
    for one in overrides:
        component = components.get(one.name)
        if component is None or component.git is None:
            raise _no_such(one, list(components), known=component is not None)
        if one.name in seen:
            raise UsageError(f"{one.name} is replaced twice", where="--with", remedy="keep one of them")
        seen.add(one.name)
        if one.folder is None:
            git = component.git.model_copy(update={"url": one.url, "ref": one.ref})
            components[one.name] = component.model_copy(update={"git": git})
    return stack.model_copy(update={"components": tuple(components.values())})


def _no_such(one: Override, names: Sequence[str], *, known: bool) -> UsageError:
    what = f"{one.name} is not built from a repository" if known else f"there is no component {one.name!r}"
    return UsageError(what, where="--with", remedy=f"components: {', '.join(names) or 'none'}")
