"""Promotion: the changed file lets pass what passes, decides nothing else differently, keeps its bytes."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import CatalogTest
from test_selection.selection import Expectation
from test_selection.suite_decide import Decider
from test_selection.suite_promote import Promotion, promote
from test_selection.suite_read import parse_suite

PATH = Path("suite.yaml")


def variant(name: str, dtype: str = "", *, node: str = "") -> CatalogTest:
    return CatalogTest(
        id=f"test_x.py::TestX::{name}[dtype={dtype}]", node=node or f"test_x.py::TestX::{name}",
        file="test_x.py", cls="TestX", template=name, dtype=dtype or None,
    )  # fmt: skip


TESTS = [variant(f"test_{one}", dtype) for one in "abcdz" for dtype in ("float16", "int8")]

TEXT = """\
# A suite.
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py   # the file
      unlisted_test_mode: xfail
      tests:
        # Known to fail.
        - names:
            - TestX::test_a   # issue 1
            - TestX::test_b
          mode: xfail  # for now
          tags: [one,
                 two]
          edits:
            dtypes:
              exclude: [{name: float64}]
        - names: ["TestX::test_c"]
          mode:   'xfail_strict'

  global:
    supported_dtypes: [float16, int8]
"""


def ids(*names: str) -> set[str]:
    return {test.id for test in TESTS if test.template in {f"test_{name}" for name in names}}


def proposed(text: str, passing: set[str], tests: list[CatalogTest] | None = None) -> Promotion:
    return promote([parse_suite(PATH, text)], {PATH: text}, tests or TESTS, passing)


def changes(text: str, found: Promotion) -> list[str]:
    after = found.texts.get(PATH, text)
    told = difflib.unified_diff(text.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in told if not line.startswith(("---", "+++", "@@"))]


def decided(text: str, tests: list[CatalogTest]) -> dict[str, tuple[str, Expectation | None]]:
    decider = Decider(parse_suite(PATH, text))
    rows = {test.id: decider.decide(test) for test in tests}
    return {name: (one.out, one.expected) for name, one in rows.items()}


def test_an_entry_that_passes_as_a_whole_flips_its_mode() -> None:
    found = proposed(TEXT, ids("a", "b", "c"))
    assert found.promoted == ids("a", "b", "c")
    assert changes(TEXT, found) == [
        "-          mode: xfail  # for now",
        "+          mode: mandatory_success  # for now",
        "-          mode:   'xfail_strict'",
        "+          mode:   mandatory_success",
    ]


def test_names_that_pass_move_with_their_edits_and_tags() -> None:
    found = proposed(TEXT, ids("b"))
    assert found.promoted == ids("b")
    copy = TEXT[TEXT.index("        - names:\n") : TEXT.index("        - names: [")]
    copy = copy.replace("            - TestX::test_a   # issue 1\n", "")
    copy = copy.replace("mode: xfail  # for now", "mode: mandatory_success")
    rest = TEXT.replace("            - TestX::test_b\n", "")
    assert found.texts[PATH] == rest.replace("        - names:\n", copy + "        - names:\n")


def test_what_no_entry_names_is_added() -> None:
    found = proposed(TEXT, ids("d", "z"))
    assert found.promoted == ids("d", "z")
    assert changes(TEXT, found) == [
        "+        - names:",
        "+            - TestX::test_d",
        "+            - TestX::test_z",
        "+          mode: mandatory_success",
    ]


@pytest.mark.parametrize("tests", ["", "      tests:\n", "      tests: []  # none yet\n"])
def test_a_file_without_tests_gets_them(tests: str) -> None:
    text = f"test_suite_config:\n  files:\n    - path: test_x.py\n{tests}    - path: test_y.py"
    found = proposed(text, ids("a"))
    assert found.promoted == ids("a")
    assert found.texts[PATH].count("tests:") == 1
    assert proposed(text.replace("\n    - path: test_y.py", ""), ids("a")).promoted == ids("a")


def test_a_test_with_a_variant_that_fails_or_was_not_run_stays_and_says_why() -> None:
    one = {variant("test_a", "int8").id}
    found = proposed(TEXT, one)
    assert (found.texts, found.promoted) == ({}, frozenset())
    assert "other variants" in found.left[next(iter(one))]


def test_what_a_force_xfail_holds_back_names_it() -> None:
    text = TEXT.replace("[float16, int8]", "[float16, {name: int8, force_xfail: true}]").replace(
        "xfail  #", "skip  #"
    )
    text = text.replace("skip  #", "mandatory_success  #")
    found = proposed(text, {variant("test_a", "int8").id})
    assert found.texts == {}
    assert list(found.left.values()) == [
        "int8 is marked force_xfail at suite.yaml:21: remove that when all of it passes"
    ]


def test_tests_of_a_pattern_are_named_one_by_one() -> None:
    text = TEXT.replace("TestX::test_a   #", "TestX::test_(a|z)   #")
    found = proposed(text, ids("a"))
    assert found.promoted == ids("a")
    assert "+            - TestX::test_a" in changes(text, found)
    assert not [line for line in changes(text, found) if line.startswith("-")]


def test_a_name_that_would_speak_for_others_is_left() -> None:
    tests = [
        variant("test_from", one, node=f"test_x.py::TestX::test_from_{one}") for one in ("float16", "int8")
    ]
    text = TEXT.replace("TestX::test_b", "TestX::test_from_int8").replace("mode: xfail\n", "mode: skip\n")
    found = proposed(text, {tests[1].id}, [*TESTS, *tests])
    assert found.promoted == {tests[1].id}
    assert "+            - TestX::test_from_int8" in changes(text, found)
    unlisted = proposed(TEXT, {tests[1].id}, [*TESTS, *tests])
    assert (unlisted.texts, unlisted.promoted) == ({}, frozenset())


def test_line_ends_and_a_missing_last_one_are_kept() -> None:
    text = TEXT.replace("\n", "\r\n").rstrip()
    after = proposed(text, ids("b", "c", "d")).texts[PATH]
    assert after.count("\n") == after.count("\r\n")
    assert not after.endswith("\n")


def test_two_suites_are_changed_each_in_its_file() -> None:
    other = Path("other.yaml")
    second = TEXT.replace("test_a", "test_d").replace("test_b", "test_z").replace("test_c", "test_q")
    texts = {PATH: TEXT, other: second}
    suites = [parse_suite(path, text) for path, text in texts.items()]
    found = promote(suites, texts, TESTS, ids("a", "z"))
    assert found.promoted == ids("a", "z")
    assert set(found.texts) == {PATH, other}


STYLES = st.sampled_from(
    [
        "{dash}- names: [{flow}]\n{pad}mode: {mode}\n",
        "{dash}- mode: {mode}  # why\n{pad}names:\n{block}",
        "{dash}- {{names: [{flow}], mode: {mode}}}\n",
        "{dash}- names:\n{block}{pad}mode: {mode}\n{pad}edits: {{dtypes: {{include: [int8]}}}}\n",
        "{dash}- description: |\n{pad}  a - b\n{pad}names:\n{block}{pad}mode: {mode}\n",
    ]
)
NAMES = ["TestX::test_a", "test_b", "TestX::test_[cd]", "'test_.*'", "TestX::test_d", "Test.*::test_a"]
ENTRY = st.tuples(
    STYLES, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
    st.sampled_from(["xfail", "xfail_strict", "skip", "mandatory_success"]), st.integers(0, 4),
)  # fmt: skip


@given(
    st.lists(ENTRY, max_size=3),
    st.sampled_from(["xfail", "skip", "mandatory_success"]),
    st.sets(st.sampled_from(sorted(test.id for test in TESTS))),
    st.booleans(),
)
def test_the_changed_file_promotes_what_it_says_and_decides_nothing_else_differently(
    entries: list[tuple[str, list[str], str, int]], unlisted: str, passing: set[str], crlf: bool
) -> None:
    text = f"test_suite_config:\n  files:\n    - path: test_x.py\n      unlisted_test_mode: {unlisted}\n"
    text += "      tests:\n" if entries else ""
    for style, names, mode, comments in entries:
        quoted = [f"'{name.strip(chr(39))}'" for name in names]
        block = "".join(f"            - {name}\n" for name in names)
        text += "        # kept\n" * comments
        text += style.format(dash=" " * 8, pad=" " * 10, flow=", ".join(quoted), block=block, mode=mode)
    text = text.replace("\n", "\r\n") if crlf else text
    before = decided(text, TESTS)
    passing = {name for name in passing if before[name][1] and before[name][1].mode.startswith("xfail")}  # type: ignore[union-attr]  # asked before
    found = proposed(text, passing)
    after = decided(found.texts.get(PATH, text), TESTS)
    assert found.promoted <= passing
    assert found.promoted | found.left.keys() == passing
    for name, (out, expected) in before.items():
        if name in found.promoted:
            assert after[name][1].mode == "mandatory_success"  # type: ignore[union-attr]  # promoted, so expected
        else:
            assert after[name] == (out, expected)
    kept = found.texts.get(PATH, text).splitlines()
    assert kept.count("        # kept") == text.splitlines().count("        # kept")
