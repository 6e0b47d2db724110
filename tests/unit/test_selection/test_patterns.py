"""Globs and regular expressions between slashes."""

from __future__ import annotations

import contextlib
import math
import re
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from test_selection.patterns import (
    Linear,
    compile_pattern,
    compile_regex,
    has_wildcard,
    is_regex,
    steps,
)
from test_selection.suite_model import compile_name


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


LONG = "a" * 5000 + "!"


def python_s(text: str) -> re.Pattern[str]:
    """As Python has it; that it may one day read `[[a]` otherwise is no mistake of the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(text)


@pytest.mark.parametrize(
    "text",
    [
        "/(a+)+$/", "/(a|aa)+$/", "/(a|a?)+b/", "/(a*)*b/", "/^(?:a?){60}a{60}$/", "/a*a*a*a*a*a*a*b/",
        f"/^{'a?' * 60}{'a' * 60}$/", "/(.*a){20}b/", "/(?i)(a|b|ab)*c/", "*a*a*a*a*a*a*a*a*a*b",
        "**a**a**a**a**a**a**b",
    ],
)  # fmt: skip
def test_a_catastrophic_pattern_comes_to_an_end(text: str) -> None:
    # Python's engine would be at it for longer than the universe has been.
    compiled = compile_pattern(text)
    assert isinstance(compiled, Linear)
    assert not compiled.search(LONG)
    assert not compile_name("(x+x+)+y").fullmatch("x" * 5000)


@pytest.mark.parametrize(
    "text",
    [
        r"(a+)+\1",
        r"(?=(a+)+$)b",
        "(?!x).*.*.*y",
        "(?:a{999}){999}",
        "(?x)(a|aa) +$",
        "(?ix:(a|aa)\n+$)",
        "(?!z)" + "a?" * 9 + "a*a*b",
    ],
)
def test_what_neither_engine_can_bound_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="it may never finish matching; leave out look-around"):
        compile_pattern(f"/{text}/")


def test_a_look_ahead_with_few_repetitions_stays_python_s() -> None:
    found = compile_pattern(r"/(^|/)test_(?!aot_)[^/]*autograd[^/]*\.py$/")
    assert isinstance(found, re.Pattern)
    assert found.search("x/test_my_autograd_y.py")
    assert not found.search("test_aot_autograd.py")


@pytest.mark.parametrize(("text", "degree"), [("_cuda$", 0), ("a.*b", 1), ("(?i)a(b|c)?d+", 1), ("a*b*", 2)])
def test_what_python_does_quickly_is_left_to_it(text: str, degree: int) -> None:
    assert steps(text) == degree
    assert isinstance(compile_regex(text), re.Pattern) is (degree < 2)


@given(
    st.text(st.sampled_from("ab/*?[]!-^"), max_size=8) | st.text(st.sampled_from("ab/*?"), max_size=8),
    st.text(st.sampled_from("ab/]-^!"), max_size=8),
)
def test_a_glob_matches_what_python_s_engine_says(glob: str, text: str) -> None:
    assume(not (len(glob) > 1 and glob.startswith("/") and glob.endswith("/")))
    try:
        compiled = compile_pattern(glob)
    except ValueError:  # a set the wrong way round
        return
    assert bool(compiled.search(text)) is bool(python_s(compiled.pattern).search(text))


@given(
    st.text(st.sampled_from("ab.*+?|()[]^$Z\\d"), max_size=8), st.text(st.sampled_from("ab1Z.\\"), max_size=6)
)
def test_a_regular_expression_matches_what_python_s_engine_says(text: str, value: str) -> None:
    try:
        made = python_s(text)
        linear = Linear(text)
    except (re.error, RecursionError, OverflowError):
        return
    assert bool(linear.search(value)) is bool(made.search(value))
    assert bool(linear.fullmatch(value)) is bool(made.fullmatch(value))


def test_a_name_that_is_no_utf_8_is_matched_all_the_same() -> None:
    assert compile_pattern("/^a.*.*b$/").search("a\udc80b")
    assert compile_pattern("/^a.*\udc80.*b$/").search("a\udc80b")


@pytest.mark.parametrize(
    ("text", "hits", "misses"),
    [
        ("^test_a{,3}_.*_b.*$", ["test_aa_x_b", "test__x_b"], ["test_aaaa_x_b", "test_a{,3}_x_b"]),
        ("[[:digit:]]+x*y*", ["d]", ":]"], ["12"]),
        (r"^a\Zb*c*|a+b+\Z", ["aab"], ["aabc"]),
        (r"\u00e9+x*y*$", ["é"], ["e"]),
        (r"^[\b]+[^]a]+x*$", ["\bb"], ["b", "\ba"]),
        ("a+(?# as it was )b+c*$", ["ab"], ["a"]),
        (r"^[\u00e9[]+a*b*$", ["é["], ["u"]),
    ],
)
def test_re2_reads_what_python_reads(text: str, hits: list[str], misses: list[str]) -> None:
    found = compile_regex(text)
    assert isinstance(found, Linear)
    python = python_s(text)
    for one in (*hits, *misses):
        assert bool(found.search(one)) is bool(python.search(one)) is (one in hits), one


@pytest.mark.parametrize(
    "text",
    [
        "^(?!.*cuda)(?!.*mps).*$",
        r"a\+b\+c\+(?=d)",
        r"[*+]\d+\.\d+(?!x)",
        "(?#* + {)(?=x)y",
    ],
)
def test_a_look_around_that_cannot_take_long_is_python_s(text: str) -> None:
    assert isinstance(compile_regex(text), re.Pattern)


@pytest.mark.parametrize(
    ("text", "degree"),
    [
        ("^(?!.*cuda)(?!.*mps).*$", 1), (".*(?!.*x)", 2), ("(?=.*(?!.*x)).*", 2), (r"a\+b\*[*+]", 0),
        ("a{3}b{,2}", 2), ("(a)*", math.inf), ("(?x)a +", math.inf), ("a(b*", 1), ("a)*", math.inf),
    ],
)  # fmt: skip
def test_what_looks_around_multiplies_with_what_stands_before_it(text: str, degree: float) -> None:
    assert steps(text) == degree
