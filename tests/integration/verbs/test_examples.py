"""Every example in the help of every verb is typed, and ends as it is to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scripts.man_pages import Facts
from tests.unit.cli.every_verb import every_verb

from .table import ROWS
from .world import World


def verbs() -> list[Facts]:
    """Those that do something by themselves."""
    return [one for one in every_verb() if one.runs]


def cases() -> Iterator[Any]:
    for facts in verbs():
        row = ROWS.get(facts.name)
        marks = [pytest.mark.nightly] if row is not None and row.heavy else []
        for example in facts.examples if row is None or not row.elsewhere else ():
            if row is None or not row.once:
                yield pytest.param(facts.name, example, id=f"{facts.name}-{example}", marks=marks)


def test_every_verb_has_an_example_and_a_row() -> None:
    found = verbs()
    assert [one.name for one in found if not one.examples] == []
    assert sorted(ROWS) == sorted(one.name for one in found)
    assert [
        one.name for one in found if not all(f"spyre-ci {one.name}" in text for text in one.examples)
    ] == []


@pytest.mark.parametrize(("verb", "example"), list(cases()))
def test_an_example_runs(world: World, verb: str, example: str) -> None:
    row = ROWS[verb]
    for prepare in row.after:
        prepare(world)
    said = world.interrupt(example, row.until) if row.until else world.type(example)
    assert said.code == row.code, said.out + said.err
    assert row.says in said.out
