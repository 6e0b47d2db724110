"""Keyword expressions mean what pytest's `-k` means, and a bad one is shown with its column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.errors import UsageError
from test_selection.keyword_expression import compile_keyword

NAME = "test_x.py::TestBinary::test_add[dtype=float32,op=nn.functional.relu]"


@pytest.mark.parametrize(
    ("expression", "accepts"),
    [
        ("add", True),
        ("ADD", True),
        ("testbinary", True),
        ("mul", False),
        ("not mul", True),
        ("not not add", True),
        ("add and float32", True),
        ("add and float64", False),
        ("mul or add", True),
        ("not mul and add", True),
        ("not add or add", True),
        ("not (add or mul)", False),
        ("mul and mul or add", True),
        ("mul and (mul or add)", False),
        ("op=nn.functional.relu", True),
        ("TestBinary::test_add[", True),
        ("dtype=float32,op=nn", True),
        ("add\tand\nfloat32", True),
        ("notadd or android", False),
        ("not(mul)", True),
        ("", True),
        ("  ", True),
    ],
)
def test_what_an_expression_accepts(expression: str, *, accepts: bool) -> None:
    assert compile_keyword(expression)(NAME) is accepts


@pytest.mark.parametrize(
    ("expression", "column", "expected", "seen"),
    [
        ("add and", 8, "a name, `not` or `(`", "the end"),
        ("and add", 1, "a name, `not` or `(`", "'and'"),
        ("add mul", 5, "`and`, `or` or the end", "'mul'"),
        ("(add or mul", 12, "`)`", "the end"),
        ("add)", 4, "`and`, `or` or the end", "')'"),
        ("()", 2, "a name, `not` or `(`", "')'"),
        ("add and 'mul'", 9, "a name, `not` or `(`", '"\'"'),
        ("a & b", 3, "`and`, `or` or the end", "'&'"),
    ],
)
def test_a_bad_expression_is_shown_with_the_column(
    expression: str, column: int, expected: str, seen: str
) -> None:
    with pytest.raises(UsageError) as caught:
        compile_keyword(expression)
    assert f"cannot read {expression!r} at column {column}: expected {expected}, not {seen}" in str(
        caught.value
    )
    assert str(caught.value).startswith("-k: ")
    assert "remedy: join parts of names by and, or, not" in str(caught.value)


def test_too_many_brackets_are_refused_too() -> None:
    with pytest.raises(UsageError, match="expected fewer brackets"):
        compile_keyword("(" * 100_000)


terms = st.recursive(
    st.sampled_from(["add", "mul", "float32", "int8"]),
    lambda inner: st.one_of(
        inner.map(lambda one: f"not {one}"),
        inner.map(lambda one: f"({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
    ),
    max_leaves=8,
)


@given(terms)
def test_an_expression_means_what_python_makes_of_it(expression: str) -> None:
    names = {word: word in NAME for word in ("add", "mul", "float32", "int8")}
    meant = eval(expression, {"__builtins__": {}}, names)  # noqa: S307  # the reference for the same grammar
    assert compile_keyword(expression)(NAME) is meant
