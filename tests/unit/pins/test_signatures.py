"""What breaks a caller is found, and what does not is told as such."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ci.pins.record import Parameter, ParameterKind
from ci.pins.signatures import Signature, compare, shown

_KINDS: dict[inspect._ParameterKind, ParameterKind] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional or keyword",
    inspect.Parameter.VAR_POSITIONAL: "variadic positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only",
    inspect.Parameter.VAR_KEYWORD: "variadic keyword",
}

# How `texts` writes down what is given by name alone.
_BY_NAME = 3


def function(text: str) -> Callable[..., dict[str, object]]:
    """A function of these parameters that says what each was given."""
    scope: dict[str, Callable[..., dict[str, object]]] = {}
    exec(f"def f({text}): return locals()", scope)  # noqa: S102  # parameters of this file
    return scope["f"]


def of(text: str) -> Signature:
    return tuple(
        Parameter(
            name=one.name,
            kind=_KINDS[one.kind],
            default=None if one.default is inspect.Parameter.empty else repr(one.default),
        )
        for one in inspect.signature(function(text)).parameters.values()
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("a, b=1", "a, b=1", {}),
        ("a", "a, b=1", {"b is new": False}),
        ("a", "a, *, b=1", {"b is new": False}),
        ("a", "a, b", {"b is new and has no default": True}),
        ("a", "a, *, b", {"b is new and has no default": True}),
        ("a, b", "b, a", {"a stands elsewhere": True, "b stands elsewhere": True}),
        ("a, b=1", "a, *, b=1", {"b is keyword-only now": True}),
        ("a", "a, /", {"a is positional-only now": True}),
        ("a, /", "a", {}),
        ("a, /", "b, /", {"a is called b now": False}),
        ("a", "b", {"a is gone": True, "b is new and has no default": True}),
        ("a, b", "a", {"b is gone": True}),
        ("a, b", "a, *args, **kwargs", {"b is gone": False, "takes any *args": False,
                                        "takes any **kwargs": False}),
        ("a, b, /", "a, *args", {"b is gone": False, "takes any *args": False}),
        ("a, b", "a, *args", {"b is gone": True, "takes any *args": False}),
        ("*, a", "", {"a is gone": True}),
        ("*, a", "**kwargs", {"a is gone": False, "takes any **kwargs": False}),
        ("*, a", "a", {}),
        ("*args, a=1", "a=1, *args", {"a takes what went into *args": True}),
        ("*args", "a=1, *args", {"a is new and takes what went into *args": True}),
        ("a=1", "a", {"a has no default any more": True}),
        ("a", "a=1", {"the default of a is 1, and was none": False}),
        ("*, a=1", "*, a=2", {"the default of a is 2, and was 1": False}),
        ("*args, c", "c, /, *args, **kwargs", {"c is gone": False, "c is new and has no default": True,
                                               "takes any **kwargs": False}),
        ("*args", "", {"takes no more *args": True}),
        ("**kwargs", "", {"takes no more **kwargs": True}),
    ],
)  # fmt: skip
def test_a_difference_is_told_with_whether_it_breaks_callers(
    before: str, after: str, said: dict[str, bool]
) -> None:
    assert {one.text: one.breaks for one in compare(of(before), of(after))} == said


def test_an_entry_point_that_is_gone_breaks_and_a_new_one_does_not() -> None:
    assert [one.breaks for one in compare(of("a"), None)] == [True]
    assert [one.breaks for one in compare(None, of("a"))] == [False]
    assert compare(None, None) == ()


@pytest.mark.parametrize(
    "text",
    ["", "a", "a, /", "a, /, b", "a, *, b=1", "a, /, *, b", "*args, b", "a, /, *args, b=1, **kw", "**kw"],
)
def test_a_signature_is_shown_as_python_writes_it(text: str) -> None:
    assert shown(of(text)) == f"({text})"


def test_what_is_gone_is_shown_as_gone() -> None:
    assert shown(None) == "(gone)"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Parameters as they are written: at most four, of every kind."""
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(0, 4))]
    kinds = sorted(draw(st.lists(st.sampled_from([0, 1, 3]), min_size=len(names), max_size=len(names))))
    parts: dict[int, list[str]] = {0: [], 1: [], 3: []}
    optional = False
    for name, kind in zip(names, kinds, strict=True):
        default = draw(st.sampled_from(["", "=1", "=2"]))
        if kind != _BY_NAME:
            default = default or ("=1" if optional else "")
            optional = bool(default)
        parts[kind].append(f"{name}{default}")
    stars = ["*args"] if draw(st.booleans()) else ["*"] * bool(parts[3])
    rest = ["**kwargs"] if draw(st.booleans()) else []
    return ", ".join([*parts[0], *["/"] * bool(parts[0]), *parts[1], *stars, *parts[3], *rest])


@given(texts(), texts(), st.data())
def test_where_nothing_breaks_every_call_goes_on_and_values_go_where_they_went(
    before: str, after: str, data: st.DataObject
) -> None:
    old, new = of(before), of(after)
    assume(not any(one.breaks for one in compare(old, new)))
    named_ones, still = (
        {one.name for one in each if one.kind in {"positional or keyword", "keyword-only"}}
        for each in (old, new)
    )
    values = [f"value {number}" for number in range(data.draw(st.integers(0, 6)))]
    named = {name: f"by name {name}" for name in sorted(named_ones) if data.draw(st.booleans())}
    if "**kwargs" in before:
        named["other"] = "x"
    try:
        was = function(before)(*values, **named)
    except TypeError:
        return  # was no call that anybody made
    now = function(after)(*values, **named)
    given_ones = {name for name in named_ones & still if str(was[name]).startswith(("value", "by"))}
    assert {name: was[name] for name in given_ones} == {name: now[name] for name in given_ones}
