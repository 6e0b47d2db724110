"""Every example in the help of every verb is typed, and ends as it is to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from ci.cli.app import app
from ci.cli.facts import Facts, walk

from .table import NOT_YET, ROWS
from .world import World

pytestmark = pytest.mark.integration


def verbs() -> list[Facts]:
    """Those that do something by themselves."""
    return [one for one in walk(typer.main.get_command(app), without=NOT_YET) if one.runs]


def has_json(facts: Facts) -> bool:
    return any("--json" in one.names for one in facts.options)


def cases() -> Iterator[Any]:
    for facts in verbs():
        row = ROWS.get(facts.name)
        marks = [pytest.mark.heavy] if row is not None and row.heavy else []
        for example in facts.examples:
            modes = ["--json"] if has_json(facts) and (row is not None and row.once) else [""]
            for mode in modes:
                yield pytest.param(facts.name, example, mode, id=f"{facts.name}-{example}", marks=marks)


def test_every_verb_has_an_example_and_a_row() -> None:
    found = verbs()
    assert [one.name for one in found if not one.examples] == []
    assert sorted(ROWS) == sorted(one.name for one in found)
    assert [
        one.name for one in found if not all(f"spyre-ci {one.name}" in text for text in one.examples)
    ] == []


@pytest.mark.parametrize(("verb", "example", "more"), list(cases()))
def test_an_example_runs(world: World, verb: str, example: str, more: str) -> None:
    row = ROWS[verb]
    for prepare in row.after:
        prepare(world)
    if row.until:
        said = world.interrupt(example, row.until)
    else:
        said = world.type(example, *filter(None, [more]))
    assert said.code == row.code, said.out + said.err
    assert row.says in said.out
