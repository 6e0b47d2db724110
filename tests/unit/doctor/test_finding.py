"""What a finding says is on one line and without secrets, and what mends it can be pasted."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.core.text import shell_line
from ci.doctor.finding import Finding, Level, counts, document, exit_code, fault, of_error, ok, warning
from tests.json_documents import differences


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([], 0),
        ([ok("disk", "fine")], 0),
        ([ok("disk", "fine"), warning("nox", "old", "newer")], 0),
        ([warning("nox", "old", "newer"), fault("disk", "full", "free")], 2),
    ],
)
def test_only_a_fault_is_told_by_the_exit_code(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code
    assert sum(counts(findings).values()) == len(findings)


def test_a_finding_shows_no_password_and_no_control() -> None:
    one = fault(
        "index", "https://me:pass/word@host/simple\n\x1b[31mred ?token=abc", "retry https://u:p@host/x"
    )
    assert one.said == "https://host/simple red ?token=***"
    assert one.remedy == "retry https://host/x"


def test_what_is_fine_has_no_remedy_and_all_else_has() -> None:
    with pytest.raises(ValueError, match="has no remedy"):
        Finding(look="disk", level=Level.OK, said="fine", remedy="mend")
    with pytest.raises(ValueError, match="has no remedy"):
        Finding(look="disk", level=Level.FAULT, said="bad")


def test_an_error_of_ours_keeps_its_words() -> None:
    found = of_error("hud", Level.FAULT, SettingsError("is wrong", where="report.endpoint", remedy="mend it"))
    assert (found.said, found.remedy) == ("report.endpoint: is wrong", "mend it")
    assert of_error("hud", Level.FAULT, SettingsError("is wrong")).remedy


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_a_command_survives_as_a_remedy(words: list[str]) -> None:
    """Blanks in paths are neither lost nor joined: what is pasted is what was meant."""
    words = ["rm", "--", *(word.encode("utf-8", "replace").decode() for word in words)]
    line = shell_line(words)
    shown = fault("disk", "x", line).remedy
    assert "\n" not in shown
    if "$'" not in line:
        assert shlex.split(shown) == words
    else:
        assert shown == line


@given(
    st.lists(
        st.builds(
            lambda look, level, said: Finding(
                look=look, level=level, said=f"x{said}", remedy="" if level is Level.OK else "mend"
            ),
            st.sampled_from(["disk", "torch"]),
            st.sampled_from(list(Level)),
            st.text(),
        )
    )
)
def test_the_document_has_the_shape_it_is_said_to_have(findings: list[Finding]) -> None:
    made = document(findings, seconds={"disk": 1.23456})
    assert differences("doctor", json.loads(json.dumps(made))) == []
    assert made["seconds"] == {"disk": 1.235}
    assert all("\n" not in one.said and "\x1b" not in one.said for one in findings)


def test_an_address_with_a_query_keeps_what_stands_behind_it() -> None:
    assert fault("hud", "it is away (https://h/x?***)", "x").said == "it is away (https://h/x?***)"
