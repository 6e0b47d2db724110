"""The whole comparison: what is said at the end, and in every form it is said in."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import Raw
from rich.console import Console

from ci.record.verdict import Verdict
from ci.report.compare.as_json import as_json
from ci.report.compare.comparison import Comparison, Side, check, compare_sides, unlike
from ci.report.compare.existing import Existence, Known
from ci.report.compare.lines import render_markdown, show
from ci.report.compare.page import render_page
from ci.report.reader import Row
from tests.json_documents import differences
from tests.unit.report.compare.making import rows

Golden = Callable[[str, str], None]
HOSTILE = (
    "<script>alert(1)</script> `a` | @all #1 http://evil.example ](http://evil.example) "
    "[red]x[/red] \x1b[31m \u202e &amp; me@evil.example \n::error::x\n##[error]y \udc80 ]]> {{ 7 * 7 }}"
)
FACTS = {"device": "spyre", "PyTorch": "2.13.0", "share": "5 %"}


def side(run: str, tests: Sequence[Row], **content: object) -> Side[Row]:
    return Side(run=run, rows=tests, **{"facts": FACTS, **content})  # type: ignore[arg-type]  # fields by name


def compared(now: Mapping[str, Verdict], base: Mapping[str, Verdict]) -> Comparison[Row]:
    return compare_sides(side("now", rows(now)), side("base", rows(base)))


def everything() -> Comparison[Row]:
    """A comparison that has something of every kind."""
    verdicts = list(Verdict)
    now = [
        Row(id=f"a.py::A::t_{one}_{two}", verdict=one, message=f"{one} message", card="0", seconds=2.0)
        for one in verdicts
        for two in verdicts
    ]
    base = [
        Row(id=f"a.py::A::t_{one}_{two}", verdict=two, seconds=2.0) for one in verdicts for two in verdicts
    ]
    now += [
        Row(id="a.py::A::quarantined", verdict=Verdict.FAILED, quarantine=Raw(b"{}")),
        Row(id="a.py::A::other", verdict=Verdict.FAILED, message="1 != 2"),
        Row(id="a.py::new", verdict=Verdict.FAILED),
        Row(id="c.py::A::moved", verdict=Verdict.FAILED),
        Row(id="a.py::only", verdict=Verdict.FLAKY),
    ]
    base += [
        Row(id="a.py::A::quarantined", verdict=Verdict.PASSED),
        Row(id="a.py::A::other", verdict=Verdict.FAILED, message="SIGSEGV", cause="signal"),
        Row(id="b.py::A::moved", verdict=Verdict.PASSED),
        Row(id="a.py::gone", verdict=Verdict.FAILED),
    ]
    for number in range(40):
        seconds = 60.0 if number == 7 else 2.0 + number / 100
        now.append(Row(id=f"d.py::t{number}", verdict=Verdict.PASSED, seconds=1.5 * seconds))
        base.append(Row(id=f"d.py::t{number}", verdict=Verdict.PASSED, seconds=2.0 + number / 100))
    here = {row.id for row in now}
    there = {row.id for row in base} | {"a.py::only", "a.py::vanished"}
    files = {"a.py", "b.py", "c.py", "d.py"}
    setups = {f"{number}.py": 2.0 for number in range(20)}
    return compare_sides(
        side(
            "monday",
            now,
            facts=FACTS | {"device": "cpu"},
            known=Known(
                ids=here - {"a.py::only"} | {"a.py::only"}, files=files, broken={"e.py": "ImportError"}
            ),
            setups=setups | {"3.py": 9.0},
            lacking="3 tests without an outcome",
            under_test="torch_spyre 1.2 at 0123456789ab",
        ),
        side("sunday", base, known=Known(ids=there | {"e.py::x"}, files=files | {"e.py"}), setups=setups),
    )


def printed(comparison: Comparison[Row], *, limit: int = 20, terminal: bool = False) -> str:
    stream = io.StringIO()
    show(Console(file=stream, force_terminal=terminal, width=200), comparison, limit=limit)
    return stream.getvalue()


def test_everything_a_comparison_says_at_a_terminal(golden: Golden) -> None:
    golden("compare/terminal.txt", printed(everything()))


def test_everything_a_comparison_says_as_markdown(golden: Golden) -> None:
    golden("compare/comparison.md", render_markdown(everything(), "sunday") + "\n")


def test_everything_a_comparison_says_on_a_page(golden: Golden) -> None:
    golden("compare/page.html", render_page(everything(), check(everything())))


@pytest.mark.parametrize("limit", [0, 1])
def test_the_json_document_is_as_its_schema_has_it(limit: int) -> None:
    document = as_json(everything(), check(everything()), limit=limit)
    assert differences("compare", document) == []
    assert sum(document["counts"].values()) == 81 + 46
    assert len(document["tests"]["new_failures"]) == (1 if limit else document["counts"]["new_failures"])
    empty = compared({}, {})
    assert differences("compare", as_json(empty, check(empty))) == []


@pytest.mark.parametrize(
    ("now", "base", "code", "said"),
    [
        ({"a": Verdict.PASSED}, {"a": Verdict.PASSED}, 0, "no worse"),
        ({"a": Verdict.FAILED}, {"a": Verdict.FAILED}, 0, "no worse"),
        ({"a": Verdict.PASSED}, {"a": Verdict.FAILED}, 0, "no worse"),
        ({"a": Verdict.FAILED}, {"a": Verdict.PASSED}, 1, "worse: 1 newly failing"),
        ({"a": Verdict.FLAKY}, {"a": Verdict.PASSED}, 1, "worse: 1 newly flaky"),
        ({"a": Verdict.FLAKY}, {"a": Verdict.FAILED}, 0, "no worse"),
        (
            {"a": Verdict.FAILED, "b": Verdict.NOT_RUN},
            dict.fromkeys("ab", Verdict.PASSED),
            1,
            "1 newly failing",
        ),
        ({"a": Verdict.FAILED}, {"b": Verdict.PASSED}, 3, "1 test failing or flaky, outcome in base unknown"),
        (
            {"a": Verdict.FAILED},
            {"a": Verdict.HARDWARE},
            3,
            "1 test failing or flaky, outcome in base unknown",
        ),
        ({"a": Verdict.FLAKY}, {"a": Verdict.NOT_RUN}, 3, "1 test failing or flaky, outcome in base unknown"),
        ({"a": Verdict.INFRASTRUCTURE}, {"a": Verdict.PASSED}, 3, "1 test without an outcome in the new run"),
        ({"a": Verdict.PASSED}, {"a": Verdict.INFRASTRUCTURE}, 0, "no worse"),
        ({}, {"a": Verdict.PASSED}, 3, "a run without tests"),
        ({"a": Verdict.PASSED}, {}, 3, "a run without tests"),
        ({"a": Verdict.PASSED}, {"b": Verdict.PASSED}, 3, "no test is in both runs"),
    ],
)
def test_the_check_says_whether_it_is_worse_or_cannot_be_told(
    now: dict[str, Verdict], base: dict[str, Verdict], code: int, said: str
) -> None:
    outcome = check(compared(now, base))
    assert outcome.code == code
    assert said in outcome.said


def test_the_check_stops_at_nothing_that_is_quarantined() -> None:
    now = [Row(id=one, verdict=Verdict.FAILED, quarantine=Raw(b"{}")) for one in "ab"]
    found = compare_sides(side("now", now), side("base", rows({"a": Verdict.PASSED, "b": Verdict.NOT_RUN})))
    assert check(found).code == 0


def test_the_check_stops_at_a_new_test_that_fails_and_at_a_file_that_is_not_collected_any_more() -> None:
    base = side("base", rows({"a.py::x": Verdict.PASSED}), known=Known(ids={"a.py::x"}, files={"a.py"}))
    tests = rows({"a.py::x": Verdict.PASSED, "a.py::y": Verdict.FAILED})
    new = side("now", tests, known=Known(ids={"a.py::x", "a.py::y"}, files={"a.py"}))
    assert check(compare_sides(new, base)).said == "worse: 1 new and failing"
    broken = Known(ids=(), files={"a.py"}, broken={"a.py": "ImportError"})
    lost = compare_sides(side("now", rows({"a.py::x": Verdict.PASSED}), known=broken), base)
    assert (check(lost).code, check(lost).said) == (3, "unknown: 1 file not collected in the new run")


def test_what_the_runs_do_not_have_in_common_is_said_where_one_of_them_says_it() -> None:
    now, base = side("n", [], facts={"device": "cpu", "image": ""}), side("b", [], facts={"device": "spyre"})
    assert [tuple(one) for one in unlike(now, base, Existence())] == [("device", "cpu", "spyre")]


def test_another_scope_is_said_where_tests_that_came_and_went_do_not_explain_it() -> None:
    came = Existence(known=True, appeared=("a", "b"), vanished=("c",))
    now, base = side("n", [], in_scope=101), side("b", [], in_scope=100)
    assert unlike(now, base, came) == ()
    assert [tuple(one) for one in unlike(now, base, Existence())] == [("tests in scope", "101", "100")]
    assert unlike(now, side("b", []), Existence()) == ()


def test_nothing_changed_is_said_only_where_it_is_so() -> None:
    same = {"a": Verdict.PASSED}
    assert "Nothing changed: no test is newly failing or newly flaky." in printed(compared(same, same))
    for now in (Verdict.FAILED, Verdict.FLAKY, Verdict.SKIPPED):
        assert "Nothing changed" not in printed(compared({"a": now}, same))


def test_what_is_left_out_is_counted() -> None:
    now = dict.fromkeys((f"t{number:02}" for number in range(30)), Verdict.FAILED)
    found = compared(now, dict.fromkeys(now, Verdict.PASSED))
    assert "  and 27 more; --limit 0 shows all" in printed(found, limit=3)
    assert "more" not in printed(found, limit=0)
    assert "  - and 27 more" in render_markdown(found, "base", limit=3)
    assert "more" not in render_markdown(found, "base", limit=0)


def hostile(text: str) -> Comparison[Row]:
    """A comparison whose every word is a stranger's."""
    verdicts = list(Verdict)
    pairs = [(one, two) for one in verdicts for two in verdicts]
    now = [
        Row(id=f"{text}{place}", verdict=one, message=text, cause=text, card=text, seconds=1.0)
        for place, (one, _) in enumerate(pairs)
    ]
    base = [
        Row(id=f"{text}{place}", verdict=two, message="x", card=f"{text}x", seconds=1.0)
        for place, (_, two) in enumerate(pairs)
    ]
    for number in range(90):
        for tests, factor in ((now, 9.0 if number < 3 else 1.0), (base, 1.0)):
            tests.append(
                Row(
                    id=f"{text}::{number}",
                    verdict=Verdict.PASSED,
                    seconds=factor * 2,
                    card=f"{text}{number % 2}",
                )
            )
    setups = {f"{text}{number}": 2.0 for number in range(20)}
    known = Known(ids={f"{text}::new", text}, files={text}, broken={f"{text}2": text})
    return compare_sides(
        side(
            text,
            now,
            under_test=text,
            facts={text: text, "device": text},
            known=known,
            setups=setups | {f"{text}3": 9.0},
        ),
        side(
            text,
            base,
            facts={"device": "x"},
            known=Known(ids={f"{text}::old", text}, files={text}),
            setups=setups,
        ),
    )


def assert_harmless_markdown(text: str) -> None:
    known = re.compile(r"</?(code|span)>")
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        assert token.type != "html_block", token.content
        inside = 0
        for child in token.children or []:
            inside += {"<code>": 1, "</code>": -1}.get(child.content, 0)
            assert child.type not in {"link_open", "image"}, child
            assert child.type != "html_inline" or known.fullmatch(child.content), child.content
            if child.type == "text" and not inside:
                assert not re.search(r"(^|[^\w])@[A-Za-z]|://", child.content), child.content


odd_texts = st.text(
    alphabet=st.sampled_from([*"ab `|\\<>!-[]()@#&;:/\n\r\t*_~'\"{}%", "\x1b", "\u202e", "\udc80"]),
    min_size=1,
)


@given(text=odd_texts)
def test_no_word_of_a_run_is_markup_a_command_or_an_end_of_a_line(text: str) -> None:
    found = hostile(text)
    assert_harmless_markdown(render_markdown(found, text))
    lines = printed(found).splitlines()
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
    assert len(lines) < 400


def test_a_hostile_run_is_shown_as_the_text_it_is() -> None:
    found = hostile(HOSTILE)
    assert_harmless_markdown(render_markdown(found, HOSTILE))
    page = render_page(found, check(found))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "{{ 7 * 7 }}" in page
    assert re.findall(r'\b(?:href|src|on\w+)="', page) == []
    assert "[red]x[/red]" in printed(found, terminal=True)
    assert "<script>" in printed(found)
    assert differences("compare", json.loads(json.dumps(as_json(found, check(found))))) == []
