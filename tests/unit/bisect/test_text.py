"""What is said at the end: pull requests, words, and text that stays data."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.asking import Limits, finding
from ci.bisect.commits import About
from ci.bisect.record import Record, as_json
from ci.bisect.text import (
    bar,
    binned,
    command_of,
    issue_text,
    marks,
    masses,
    percent,
    pull_request,
    render,
    result_lines,
    result_of,
    round_lines,
)
from tests.json_documents import differences
from tests.unit.bisect.hands import Knowing, record_of, searched

BODY = "Pull Request resolved: https://github.com/pytorch/pytorch/pull/{}"
NASTY = "@everyone fixes #1 `x` | </code><script>alert(1)</script> ![a](https://e.example/x.png)\n::error::\x1b[31m"


def ended(broken: int = 40, subject: str = "Change (#123)", body: str = "", test: str = "") -> Record:
    record = record_of(63, **({"test": test} if test else {}))
    searched(record, Knowing(broken=broken)).run()
    found = finding(record.belief(), Limits())
    about = (
        []
        if found.kind in {"before", "never"}
        else [
            About(sha=record.commits[one], authored="2026-01-02T03:04:05+00:00", subject=subject, body=body)
            for one in range(found.first, found.last + 1)
        ]
    )
    record.result = result_of(record, found, confidence=0.99, about=about)
    return record


@pytest.mark.parametrize(
    ("subject", "body", "wanted"),
    [
        ("Fix (#123)", "", (123, "")), ("Fix", "", (None, "")), ('Revert "Fix (#1)" (#22)', "", (22, "")),
        ("Fix #12", "see (#12)", (None, "")), ("Fix (#0)", "", (None, "")),
        ("Fix (#99999999999)", "", (None, "")),
        ("Fix (#1)", BODY.format(77), (77, "https://github.com/pytorch/pytorch/pull/77")),
        # Who reverts quotes the message of what is reverted, with its trailer.
        ("R", f"{BODY.format(1)}\n{BODY.format(2)}", (2, "https://github.com/pytorch/pytorch/pull/2")),
        ("Fix (#1)", "Pull Request resolved: https://evil.example/pull/77", (1, "")),
        ("Fix (#1)", f"{BODY.format(7)})](https://evil.example", (1, "")),
        ("Fix (#1)", f"    {BODY.format(7)}", (1, "")),
        ("Fix (#1)", "Pull Request resolved: https://github.com/../other/pull/7", (1, "")),
        ("Fix (#1)", "Pull Request resolved: https://github.com/pytorch/../pull/7", (1, "")),
        ("Fix (#1)", "Pull Request resolved: https://github.com/p\u0443torch/x/pull/7", (1, "")),
    ],
)  # fmt: skip
def test_the_pull_request_is_the_one_it_was_merged_by(
    subject: str, body: str, wanted: tuple[int | None, str]
) -> None:
    assert pull_request(subject, body) == wanted


@given(st.text(), st.text())
def test_any_message_has_a_pull_request_or_none(subject: str, body: str) -> None:
    number, url = pull_request(subject, body)
    assert number is None or number > 0
    assert re.fullmatch(r"(https://github\.com/[\w.-]+/[\w.-]+/pull/\d+)?", url)


def test_the_issue_says_all_there_is_to_say() -> None:
    record = ended(body=BODY.format(123))
    text = issue_text(record)
    for wanted in (
        "This commit broke the test", record.commits[40], "2026-01-02T03:04:05+00:00", "Change (#123)",
        "[123](https://github.com/pytorch/pytorch/pull/123)", "### Evidence", command_of(record),
        "asked for: 99.0 %", "7 rounds, 7 commits asked",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert "--good " + record.commits[0] in text
    assert "this commit broke the test: more than 99.9 % (asked for: 99.0 %)" in result_lines(record)[0]


def test_what_commits_and_tests_say_is_data() -> None:
    record = ended(subject=NASTY, test=f"test_a.py::T::{NASTY}```")
    record.barred[3] = NASTY
    record.notes.append(NASTY)
    text, page = issue_text(record), render(record)
    bare = re.sub(r"(?s)(`{3,})sh\n.*?\n\1|<code>.*?</code>|`[^`\n]*`", "", text)
    for bad in ("@everyone", "fixes #1", "<script>", "![a]", "::error"):
        assert bad not in bare, bad
    assert "<script>" not in page
    assert "base-uri 'none'; form-action 'none'\">" in page
    assert "\x1b" not in text + page + "".join(result_lines(record))


@pytest.mark.parametrize(
    ("broken", "words"),
    [(0, "The test was broken before the good end"), (64, "The test is not broken at the bad end")],
)
def test_there_is_no_such_commit(broken: int, words: str) -> None:
    record = ended(broken)
    text = issue_text(record)
    assert words in text
    assert record.result is not None
    assert (record.result["first"], record.result["candidates"]) == (None, [])
    assert "| author's date |" not in text
    assert words.lower() in result_lines(record)[0].lower()
    assert words.lower() in render(record).lower()


def test_several_that_are_not_told_apart() -> None:
    record = record_of(63)
    searched(record, Knowing(broken=40, unbuilt=frozenset(range(36, 44)))).run()
    found = finding(record.belief(), Limits())
    about = [About(sha=one, authored="2026", subject="s", body="") for one in record.commits[36:45]]
    record.result = result_of(record, found, confidence=0.99, about=about)
    assert record.result["count"] == 9
    assert "One of these commits broke the test" in issue_text(record)
    assert any("cannot be built" in line for line in result_lines(record))


def test_a_search_that_has_not_ended_can_be_told() -> None:
    record = record_of(63)
    assert "has not ended" in issue_text(record)
    assert "the same command goes on" in result_lines(record)[0]
    assert "not ended" in render(record)
    assert len(round_lines(record)) == 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.integers(1, 80))
def test_a_bar_shows_everybody_once(found: list[float], width: int) -> None:
    bins = binned(found, width)
    assert len(bins) == min(width, len(found)) == len(bar(found, width))
    assert sum(bins) == pytest.approx(sum(found))


@given(st.integers(1, 700))
def test_a_drawing_stays_in_its_frame(last: int) -> None:
    record = record_of(last)
    for one in [*masses(record), *marks(record)]:
        assert 0 <= one.x <= one.x + one.width <= 1000.1
        assert 0 <= one.y <= one.y + one.height <= 100.1
    assert masses(record)[0].title.startswith(record.commits[1][:12])
    assert record.commits[-1][:12] in masses(record)[-1].title


@pytest.mark.parametrize(
    ("chance", "wanted"),
    [
        (0.5, "50.0 %"),
        (1, "100.0 %"),
        (0.9999999, "more than 99.9 %"),
        (0, "0.0 %"),
        (1e-9, "less than 0.1 %"),
    ],
)
def test_shares_are_not_rounded_to_what_they_are_not(chance: float, wanted: str) -> None:
    assert percent(chance) == wanted


def document(record: Record, code: int) -> dict[str, Any]:
    return {"schema": "spyre-ci/bisect/1", **as_json(record), "exit_code": code}


def test_what_is_printed_for_machines_is_as_its_schema_says() -> None:
    for made in (document(ended(), 0), document(ended(0), 1), document(record_of(3), 3)):
        assert differences("bisect", json.loads(json.dumps(made))) == []
