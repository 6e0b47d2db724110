"""What a step hands on to GitHub is read back as it was, whatever it holds, and is nothing else's output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.provider import output_lines, output_text, write_outputs

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,12}", fullmatch=True)
DELIMITER = "4f0c9b1e6a7d5328"


def read_by_the_runner(text: str) -> dict[str, str]:
    """The file as GitHub's runner reads it: name=value, or name<<MARK until a line that is MARK.

    By "Workflow commands for GitHub Actions", multiline strings; a carriage return ends a line here too, so
    that whatever ends one for some runner is tried.
    """
    found = {}
    lines = re.split(r"\r\n|\n", text)
    while lines:
        line = lines.pop(0)
        if not line:
            continue
        name, sign, rest = re.split(r"(=|<<)", line, maxsplit=1)
        if sign == "=":
            found[name] = rest
            continue
        value = []
        while (line := lines.pop(0)) != rest:
            value.append(line)
        found[name] = "\n".join(value)
    return found


def test_text_is_handed_on_as_it_is_and_anything_else_as_json() -> None:
    values = [output_text(one) for one in ("a b", True, 3, ["x"], {"lint": 30}, "")]
    assert values == ["a b", "true", "3", '["x"]', '{"lint":30}', ""]


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\r"), max_size=60), max_size=6))
def test_whatever_a_value_holds_is_read_back(outputs: dict[str, str]) -> None:
    assert read_by_the_runner(output_lines(outputs, delimiter=DELIMITER)) == outputs


@given(st.dictionaries(NAMES, st.recursive(st.text() | st.integers() | st.booleans(), st.lists), max_size=6))
def test_what_is_no_text_needs_no_delimiter(outputs: dict[str, Any]) -> None:
    outputs = {name: [value] for name, value in outputs.items()}
    found = read_by_the_runner(output_lines(outputs))
    assert {name: json.loads(text) for name, text in found.items()} == outputs


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a<<b", "a\nb", "1a", "ä", "a\n"])
def test_a_name_that_would_be_read_as_something_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an output"):
        output_lines({name: "x"}, delimiter=DELIMITER)


@pytest.mark.parametrize(
    ("value", "delimiter"),
    [
        ("a\nb", ""), ("a\rb", ""), (f"a\n{DELIMITER}\nadmin=true", DELIMITER), ("a\nb", "x\ny"),
        ("a\nb", "x y"),
    ],
)  # fmt: skip
def test_several_lines_need_a_delimiter_they_do_not_hold(value: str, delimiter: str) -> None:
    with pytest.raises(ValueError, match="no delimiter that its value can be told from"):
        output_lines({"value": value}, delimiter=delimiter)


def test_a_value_makes_no_second_output() -> None:
    text = output_lines({"files": "a\nstage=5\nb<<c"}, delimiter=DELIMITER)
    assert read_by_the_runner(text) == {"files": "a\nstage=5\nb<<c"}


def test_outputs_are_added_to_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "output"
    environ = {"GITHUB_OUTPUT": str(file)}
    assert write_outputs(environ, {"one": 1})
    assert write_outputs(environ, {"name": "caf\udce9"})
    assert file.read_bytes() == b"one=1\nname=caf\\udce9\n"


def test_a_refused_output_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "output"
    with pytest.raises(ValueError, match="no delimiter"):
        write_outputs({"GITHUB_OUTPUT": str(file)}, {"good": "1", "bad": "a\nb"})
    assert not file.exists()


@pytest.mark.parametrize("environ", [{}, {"GITHUB_OUTPUT": ""}])
def test_elsewhere_there_is_nothing_to_write(environ: dict[str, str]) -> None:
    assert not write_outputs(environ, {"one": 1})
