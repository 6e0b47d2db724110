"""Globs and regular expressions between slashes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from test_selection.patterns import compile_pattern, compile_regex, has_wildcard, is_regex
from test_selection.suite_names import compile_name


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("test_x.py", "test_x.py", True),
        ("test_x.py", "a/test_x.py", False),
        ("test_x.py", "test_xxpy", False),
        ("test_*.py", "test_x.py", True),
        ("test_*.py", "test_a/x.py", False),
        ("*.py", "a/x.py", False),
        ("**/test_x.py", "test_x.py", True),
        ("**/test_x.py", "a/b/test_x.py", True),
        ("**/test_x.py", "a/other_test_x.py", False),
        ("a/**", "a/b/c.py", True),
        ("a/**", "b/a/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("test_?.py", "test_x.py", True),
        ("test_?.py", "test_/.py", False),
        ("test_[xy].py", "test_y.py", True),
        ("test_[!xy].py", "test_y.py", False),
        ("test_[!xy].py", "test_z.py", True),
        ("a[!x]b", "a/b", False),
        ("[]]", "]", True),
        ("[^a]", "^", True),
        ("test_[x.py", "test_[x.py", True),
        ("nn.functional.*", "nn.functional.relu", True),
        ("Test", "test", False),
        ("/_cuda$/", "test_x_cuda", True),
        ("/_cuda$/", "test_cuda_x", False),
        ("/", "/", True),
    ],
)
def test_what_a_pattern_matches(pattern: str, value: str, *, matches: bool) -> None:
    assert bool(compile_pattern(pattern).search(value)) is matches


def test_a_broken_regular_expression_is_named() -> None:
    with pytest.raises(ValueError, match=r"'/\(/' is not a regular expression: missing \)"):
        compile_pattern("/(/")


def test_a_set_the_wrong_way_round_is_named() -> None:
    with pytest.raises(ValueError, match=r"'\[z-a\]' is not a glob: bad character range"):
        compile_pattern("[z-a]")


@given(st.text(st.one_of(st.sampled_from("./[]!^$\\{}()+|&~-"), st.characters(exclude_characters="*?["))))
def test_a_glob_without_wildcards_matches_itself_alone(text: str) -> None:
    assume(not has_wildcard(text) and not is_regex(text))
    pattern = compile_pattern(text)
    assert pattern.search(text)
    assert not pattern.search(text + "x")
    assert not pattern.search("x" + text)


@given(st.text(st.sampled_from("a/*?[]!-^\\&~|"), max_size=8), st.text(st.sampled_from("a/]-"), max_size=5))
def test_any_glob_compiles_or_is_refused_and_stars_cross_no_folder(glob: str, value: str) -> None:
    assume(not is_regex(glob) and "**" not in glob)
    with contextlib.suppress(ValueError):  # a set the wrong way round
        assert not compile_pattern(glob).search(value) or value.count("/") <= glob.count("/")


@pytest.mark.parametrize("text", ["[[a]", "[a~~b]", "[a||b]"])
def test_what_python_may_read_otherwise_one_day_is_taken_without_a_warning(text: str) -> None:
    assert compile_regex(text).pattern == text
    assert compile_pattern(f"/{text}/").pattern == text
    assert compile_name(f"test_.*{text}").pattern == f"test_.*{text}"
