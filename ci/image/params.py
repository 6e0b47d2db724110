"""One scheme for what steps are given and what the image's environment is; collisions are refused; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ci.core.addresses import without_credentials
from ci.core.errors import SettingsError
from ci.image.model import Component, Stack
from test_selection.yaml_lines import Document

PREFIX = "PARAM_"
# What steps find besides; a value of that name would be lost.
OURS = frozenset(
    {
        "DESTDIR",
        "WHEELS",
        "JUNIT_DIR",
        "PATH",
        "HOME",
        "SOURCE_DATE_EPOCH",
        "PORT",
        "MODEL",
        "USER",
        "LOGNAME",
    }
)
_SECRET = (
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "PRIVATE_KEY",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "_PAT",
    "_PASS",
)


def params_of(stack: Stack, component: Component) -> dict[str, str]:
    """What a component's steps are given, by variable, in the order of names."""
    given = {**stack.args, **component.args}
    return {f"{PREFIX}{name}": given[name] for name in sorted(given)}


def environment_of(stack: Stack) -> dict[str, str]:
    """The image's environment, in the order of names."""
    merged: dict[str, str] = dict(stack.environment)
    for component in stack.components:
        merged.update(component.environment)
    return dict(sorted(merged.items()))


def check_values(stack: Stack, document: Document) -> None:
    """Refuse values that collide, or look like secrets, which every layer's history would tell.

    Raises:
        SettingsError: with the place of the value.
    """
    _check(stack.args, ["args"], document, taken={})
    owners: dict[str, tuple[str, str]] = {
        name: ("the stack", text) for name, text in stack.environment.items()
    }
    _check(stack.environment, ["environment"], document, taken={})
    for index, component in enumerate(stack.components):
        at = ["components", str(index)]
        _check(component.args, [*at, "args"], document, taken=dict.fromkeys(stack.args, "the stack"))
        _check(component.environment, [*at, "environment"], document, taken={})
        for name, text in component.environment.items():
            owner, before = owners.setdefault(name, (component.name, text))
            if before != text:
                raise SettingsError(
                    f"{component.name} and {owner} give {name} different values",
                    where=document.place([*at, "environment", name]),
                    remedy="give it once, or the same value in both",
                )


def _check(values: Mapping[str, str], at: list[str], document: Document, *, taken: Mapping[str, str]) -> None:
    for name, text in values.items():
        place = document.place([*at, name])
        if name in OURS or name.startswith(PREFIX):
            told = f"{name} is given by the build itself; values of `args` get {PREFIX} before their name"
            raise SettingsError(told, where=place, remedy="choose another name")
        if name in taken:
            told = f"{name} is given by {taken[name]} already: both would be {PREFIX}{name}"
            raise SettingsError(told, where=place, remedy="choose another name")
        if any(part in name for part in _SECRET) or without_credentials(text) != text:
            raise SettingsError(
                f"{name} looks like a secret, and the image's history would tell it",
                where=place,
                remedy="give secrets to the build by settings (image.*), which keep them out of layers",
            )
