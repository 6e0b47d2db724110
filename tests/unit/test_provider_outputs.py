"""What a step hands on to GitHub is read back as it was, whatever it holds, and is nothing else's output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.provider import output_lines, write_outputs

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
    outputs = dict(zip("abcdef", ("a b", True, 3, ["x"], {"lint": 30}, ""), strict=True))
    told = 'a=a b\nb=true\nc=3\nd=["x"]\ne={"lint":30}\nf=\n'
    assert output_lines(outputs, delimiter=DELIMITER) == told


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\r"), max_size=60), max_size=6))
def test_whatever_a_value_holds_is_read_back(outputs: dict[str, str]) -> None:
    assert read_by_the_runner(output_lines(outputs, delimiter=DELIMITER)) == outputs


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a<<b", "a\nb", "1a", "ä", "a\n"])
def test_a_name_that_would_be_read_as_something_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an output"):
        output_lines({name: "x"}, delimiter=DELIMITER)


def test_outputs_are_added_to_what_is_there_and_a_refused_one_adds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "output"
    environ = {"GITHUB_OUTPUT": str(file)}
    write_outputs(environ, {"one": 1})
    write_outputs(environ, {"name": "caf\udce9"})
    with pytest.raises(ValueError, match="is no name"):
        write_outputs(environ, {"good": "1", "b d": "1"})
    assert file.read_bytes() == b"one=1\nname=caf\\udce9\n"
    write_outputs(environ, {"files": "a\nstage=5"})
    write_outputs({}, {"two": 2})
    write_outputs({"GITHUB_OUTPUT": ""}, {"two": 2})
    found = read_by_the_runner(file.read_text())
    assert found == {"one": "1", "name": "caf\\udce9", "files": "a\nstage=5"}
