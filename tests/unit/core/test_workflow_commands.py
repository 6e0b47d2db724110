from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.workflow_commands import Defused, command, defused


def understood(line: str) -> bool:
    """Whether GitHub's runner takes a line for a command, as its source has it."""
    return line.lstrip().startswith("::") or "##[" in line


def test_a_command_has_its_value_and_its_properties_escaped() -> None:
    assert command("error", "50 %\r\nlost: a, b", file="a,b.py", title="x: y") == (
        "::error file=a%2Cb.py,title=x%3A y::50 %25%0D%0Alost: a, b"
    )
    assert command("endgroup") == "::endgroup::"


@pytest.mark.parametrize(
    "line",
    [
        "::error::mine",
        "  \t::add-mask::a",
        "\u200b::stop-commands::x",
        "\u00ad::error::",
        "\x00::error::",
        "before ##[error]mine",
        "##[add-path]x",
    ],
)
def test_what_looks_like_a_command_is_made_harmless(line: str) -> None:
    assert not understood(defused(line))
    assert not defused(line).startswith(line[:1] + "::")


@pytest.mark.parametrize(
    "line", ["a.py::T::test passed", "  failed: a.py::x", "### [x]", "", "12 :: 3", "# x"]
)
def test_what_is_no_command_stays_as_it_is(line: str) -> None:
    assert defused(line) == line


@given(st.lists(st.text(alphabet=":#[]e\r\n \u200b%", max_size=12)), st.booleans())
def test_nothing_that_is_written_is_a_command_however_it_is_cut(texts: list[str], flushing: bool) -> None:
    out = io.StringIO()
    stream = Defused(out)
    for text in texts:
        stream.write(text)
        if flushing:
            stream.flush()
    stream.command("::endgroup::")
    *written, last, _ = re.split(r"\r\n|\r|\n", out.getvalue())
    assert last == "::endgroup::"
    assert not [line for line in written if understood(line)]


def test_commands_stand_on_lines_of_their_own() -> None:
    out = io.StringIO()
    stream = Defused(out)
    stream.write("half a line")
    stream.command("::group::x")
    stream.write("whole\n")
    assert out.getvalue() == "half a line\n::group::x\nwhole\n"
