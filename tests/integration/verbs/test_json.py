"""What `--json` prints: one object, as its schema in docs/schemas has it, for every example that takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .table import ROWS
from .test_examples import verbs
from .world import ROOT, World

SCHEMAS = ROOT / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
FLAG = "--json"
# jenkins/vars/spyreImage.groovy reads the last line of `image build`; the others are for users like it.
ON_ONE_LINE = {"image build", "image tree", "job watch", "job cancel", "hud rows", "prune"}


def takers() -> list[str]:
    """The verbs that take `--json`."""
    return [one.name for one in verbs() if any(FLAG in option.names for option in one.options)]


def path_of(verb: str) -> Path:
    return SCHEMAS / f"{verb.replace(' ', '-')}.json"


def schema_of(verb: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path_of(verb).read_text(encoding="utf-8"))
    return content


def check(verb: str, out: str) -> None:
    """Standard output is one JSON object, as documented."""
    told = json.loads(out)
    assert isinstance(told, dict)
    assert told["schema"].startswith("spyre-ci/")
    assert (len(out.splitlines()) == 1) == (verb in ON_ONE_LINE)
    jsonschema.Draft202012Validator(schema_of(verb)).validate(told)


def test_every_verb_with_json_has_a_schema_and_every_schema_a_verb() -> None:
    assert sorted(path.stem for path in SCHEMAS.glob("*.json")) == sorted(
        path_of(one).stem for one in takers()
    )


@pytest.mark.parametrize("verb", takers())
def test_a_schema_is_one_and_describes_every_field(verb: str) -> None:
    schema = schema_of(verb)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT
    assert schema["description"]
    shapes = schema.get("oneOf", [schema])
    assert all("schema" in one["properties"] and "schema" in one["required"] for one in shapes)
    fields = [field for one in shapes for field in one["properties"].values()]
    assert [one for one in fields if not one.get("description")] == []


def test_what_is_not_as_documented_would_be_found() -> None:
    with pytest.raises(jsonschema.ValidationError):
        check("prune", json.dumps({"schema": "spyre-ci/prune/1", "dry_run": "maybe"}))
    with pytest.raises(json.JSONDecodeError):
        check("prune", "words\n{}")


def test_the_verbs_that_print_one_line_are_named() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    named = text.partition("On one line")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z ]+)`", named)) == ON_ONE_LINE


def test_every_verb_without_json_is_named_with_its_reason() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `spyre-ci ([a-z -]+)` \|", text, re.MULTILINE))
    assert named == {one.name for one in verbs()} - set(takers())


def cases() -> Iterator[Any]:
    for facts in verbs():
        row = ROWS.get(facts.name)
        if facts.name in takers() and row is not None and not row.elsewhere:
            marks = [pytest.mark.nightly] if row.heavy else []
            for example in facts.examples:
                yield pytest.param(facts.name, example, id=f"{facts.name}-{example}", marks=marks)


@pytest.mark.parametrize(("verb", "example"), list(cases()))
def test_an_example_prints_what_its_schema_says(world: World, verb: str, example: str) -> None:
    row = ROWS[verb]
    for prepare in row.after:
        prepare(world)
    said = world.type(example, FLAG)
    assert said.code == row.code, said.out + said.err
    check(verb, said.out)
