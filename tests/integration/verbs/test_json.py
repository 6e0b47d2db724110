"""What `--json` prints: one object, as docs/json.md has it, for every example that takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ci.core.errors import EXIT_INCOMPLETE
from tests.json_documents import differences, documented

from .table import ROWS
from .test_examples import verbs
from .world import ROOT, World

FLAG = "--json"
# jenkins/vars/spyreImage.groovy reads the last line of `image build`; the others are for users like it.
ON_ONE_LINE = {"image build", "image tree", "job watch", "job cancel", "hud rows", "prune"}


def takers() -> list[str]:
    """The verbs that take `--json`."""
    return [one.name for one in verbs() if any(FLAG in option.names for option in one.options)]


def check(verb: str, out: str) -> None:
    """Standard output is one JSON object, as documented."""
    printed = json.loads(out)
    assert differences(verb, printed) == []
    assert (len(out.splitlines()) == 1) == (verb in ON_ONE_LINE)


def test_every_verb_with_json_has_its_fields_documented() -> None:
    assert sorted(documented()) == sorted(takers())


def test_what_is_not_as_documented_would_be_found() -> None:
    printed = {"schema": "spyre-ci/collect/1", "run_dir": "", "catalog": "", "tests": 1, "more": 2}
    assert differences("collect", printed) == ["more is undocumented", "collect_errors is missing"]
    printed = {"schema": "spyre-ci/job-validate/1", "findings": [{"check": "", "state": "", "seen": ""}]}
    assert differences("job validate", printed) == ["findings.remedy is missing"]


def test_the_verbs_that_print_one_line_are_named() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    named = text.partition("On one line")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z ]+)`", named)) == ON_ONE_LINE


def test_every_verb_without_json_is_named_with_its_reason() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    cells = " ".join(re.findall(r"^\| (`spyre-ci [^|]+) \|", text, re.MULTILINE))
    named = sorted(re.findall(r"`spyre-ci ([a-z -]+)`", cells))
    assert named == sorted({one.name for one in verbs()} - set(takers()))


def cases() -> Iterator[Any]:
    for facts in verbs():
        row = ROWS.get(facts.name)
        # What there is no result of has no document: tests/heavy/test_change_faults.py looks at one of it.
        if facts.name in takers() and row is not None and not row.elsewhere and row.code < EXIT_INCOMPLETE:
            marks = [pytest.mark.nightly] if row.heavy else []
            for example in facts.examples:
                yield pytest.param(facts.name, example, id=f"{facts.name}-{example}", marks=marks)


@pytest.mark.parametrize(("verb", "example"), list(cases()))
def test_an_example_prints_the_fields_documented(world: World, verb: str, example: str) -> None:
    row = ROWS[verb]
    for prepare in row.after:
        prepare(world)
    said = world.type(example, FLAG)
    assert said.code == row.code, said.out + said.err
    check(verb, said.out)
