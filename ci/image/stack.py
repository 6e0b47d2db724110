"""A stack file: read in the order it is built, with every mistake named by file, line and key."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from pydantic import ValidationError

from ci.config.explain import explain
from ci.core.errors import SettingsError
from ci.image.model import PYTORCH, Stack
from test_selection.yaml_reader import load_document

SEE = "images/README.md lists the keys of a stack file"


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
    for place, what, remedy in _mistakes(stack):
        raise SettingsError(what, where=document.place(place), remedy=remedy)
    by_name = {one.name: one for one in stack.components}
    needs = {name: [need for need in one.needs if need != PYTORCH] for name, one in by_name.items()}
    try:
        names = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise SettingsError(
            f"components need each other: {' > '.join(reversed(error.args[1]))}",
            where=document.place(["components"]),
            remedy="remove one of these `needs`",
        ) from None
    return stack.model_copy(update={"components": tuple(by_name[name] for name in names)})


def _mistakes(stack: Stack) -> Iterator[tuple[list[str], str, str]]:
    """The place of each thing that does not fit another one, what is wrong with it, and the remedy."""
    names = [one.name for one in stack.components]
    environment = {name: ("the stack", text) for name, text in stack.environment.items()}
    for index, one in enumerate(stack.components):
        at = ["components", str(index)]
        if one.name in names[:index]:
            yield [*at, "name"], f"two components are named {one.name!r}", "rename one of them"
        for need in sorted({*one.needs} - {*names, PYTORCH}):
            known = f"known components: {', '.join(names)}"
            yield [*at, "needs"], f"{one.name} needs {need!r}, which is not a component", known
        for name in sorted({*one.args} & {*stack.args}):
            told = f"{name} is given by the stack already: both would be PARAM_{name}"
            yield [*at, "args", name], told, "choose another name"
        for name, text in one.environment.items():
            owner, before = environment.setdefault(name, (one.name, text))
            if before != text:
                told = f"{one.name} and {owner} give {name} different values"
                yield [*at, "environment", name], told, "give it once, or the same value in both"
    for name, pytorch in stack.variants.items():
        if pytorch.wheel_index is not None and stack.base.python_version is None:
            told = f"{name} takes a wheel from an index, but the Python version is not set"
            yield ["variants", name], told, "give base.python_version, such as 3.12"
