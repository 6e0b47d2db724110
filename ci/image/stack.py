"""A stack file: read in the order it is built, with every mistake named by file, line and key.

One scheme says what steps are given and what the image's environment is; collisions are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from pydantic import ValidationError

from ci.config.explain import explain
from ci.core.addresses import without_credentials
from ci.core.errors import SettingsError
from ci.image.model import PYTORCH, Component, Stack
from test_selection.yaml_reader import Document, load_document

SEE = "images/README.md says what a stack file may hold"
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


def read_stack(path: Path) -> Stack:
    """The stack of a file, its components in the order they are built.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: it is no stack; names stand twice, needs name nobody or each other, values collide.
    """
    document = load_document(path)
    try:
        stack = Stack.model_validate(document.content)
    except ValidationError as error:
        raise explain(error, document, Stack, see=SEE) from None
    _check_names(stack.components, document)
    check_values(stack, document)
    _check_variants(stack, document)
    needs = {one.name: [need for need in one.needs if need != PYTORCH] for one in stack.components}
    try:
        names = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise SettingsError(
            f"components need each other: {' > '.join(reversed(error.args[1]))}",
            where=document.place(["components"]),
            remedy="take one of these needs away",
        ) from None
    by_name = {one.name: one for one in stack.components}
    return stack.model_copy(update={"components": tuple(by_name[name] for name in names)})


def _check_names(components: Sequence[Component], document: Document) -> None:
    names = [one.name for one in components]
    for index, one in enumerate(components):
        if one.name in names[:index]:
            raise _error(document, index, "name", f"two components are named {one.name!r}", "name one anew")
        for need in one.needs:
            if need not in {*names, PYTORCH}:
                known = _listed(name for name in names if name != one.name)
                raise _error(document, index, "needs", f"{one.name} needs {need!r}, which is none", known)


def _check_variants(stack: Stack, document: Document) -> None:
    for name, pytorch in stack.variants.items():
        if pytorch.wheel_index is not None and stack.base.python_version is None:
            raise SettingsError(
                f"{name} takes a wheel of an index, and nothing says for which Python",
                where=document.place(["variants", name]),
                remedy="give base.python_version, such as 3.12",
            )


def _listed(names: Iterable[str]) -> str:
    return f"known components: {', '.join(names) or 'none'}"


def _error(document: Document, index: int, key: str, what: str, remedy: str) -> SettingsError:
    return SettingsError(what, where=document.place(["components", index, key]), remedy=remedy)


def params_of(stack: Stack, component: Component | None) -> dict[str, str]:
    """What the steps of a component, or of PyTorch, are given, by variable, in the order of names."""
    given = {**stack.args, **(component.args if component else {})}
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
