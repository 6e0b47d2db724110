"""What a release breaks: calls of entry points as griffe tells, and needs of suites."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ci.config.pins_model import Suite
from ci.pins.compatibility import broken, meets, unsupported
from ci.pins.record import Parameter, ParameterKind, Record, Signature
from tests.pin_tracks import release


def function(text: str) -> Callable[..., dict[str, object]]:
    """A function of these parameters that says what each was given."""
    scope: dict[str, Callable[..., dict[str, object]]] = {}
    exec(f"def f({text}): return locals()", scope)  # noqa: S102  # parameters of this file
    return scope["f"]


def of(text: str) -> Signature:
    return tuple(
        Parameter(
            name=one.name,
            kind=cast("ParameterKind", one.kind.description.replace("keyword-or", "or keyword")),
            default=None if one.default is inspect.Parameter.empty else repr(one.default),
        )
        for one in inspect.signature(function(text)).parameters.values()
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("a, b=1", "a, b=2", []),
        ("a", "a, b=1", []),
        ("a", "a, *, b=1", []),
        ("a", "a, b", ["b is new and has no default"]),
        ("a, b", "b, a", ["a has moved", "b has moved"]),
        ("a, b=1", "a, *, b=1", ["b is now keyword-only"]),
        ("a", "a, /", ["a is now positional-only"]),
        ("a, /", "a", []),
        ("a", "b", ["a was removed", "b is new and has no default"]),
        ("a, b", "a, *args, **kwargs", []),
        ("a, b, /", "a, *args", []),
        ("a, b", "a, *args", ["b was removed"]),
        ("*, a", "", ["a was removed"]),
        ("*, a", "**kwargs", []),
        ("*, a", "a", []),
        ("a=1", "a", ["a no longer has a default"]),
        ("*args", "", ["args was removed"]),
        ("**kwargs", "", ["kwargs was removed"]),
    ],
)
def test_what_breaks_callers_is_told(before: str, after: str, said: list[str]) -> None:
    assert broken(of(before), of(after)) == said


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Parameters as they are written: at most four, by position or by name, required or not."""
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(0, 4))]
    by_name = draw(st.integers(0, len(names)))
    optional = draw(st.integers(0, by_name))
    placed = [f"{name}=1" if place >= optional else name for place, name in enumerate(names[:by_name])]
    named = [f"{name}=1" if draw(st.booleans()) else name for name in names[by_name:]]
    return ", ".join([*placed, *["*"] * bool(named), *named, *["**kwargs"] * draw(st.integers(0, 1))])


def grown(text: str) -> str:
    """With one more parameter that nobody has to give."""
    parts = [one for one in text.split(", ") if one and one != "**kwargs"]
    return ", ".join(
        [
            *parts,
            "e=1" if "*" in parts or "=1" in text or not parts else "*, e=1",
            *["**kwargs"] * ("**" in text),
        ]
    )


@given(texts(), st.booleans(), texts(), st.data())
def test_where_nothing_breaks_every_call_goes_on_and_values_go_where_they_went(
    before: str, grows: bool, after: str, data: st.DataObject
) -> None:
    after = grown(before) if grows else after
    old, new = of(before), of(after)
    assume(not broken(old, new))
    still = {one.name for one in old if "keyword" in one.kind} & {one.name for one in new}
    values = [f"value {number}" for number in range(data.draw(st.integers(0, 5)))]
    named = {name: f"by name {name}" for name in sorted(still) if data.draw(st.booleans())}
    try:
        was = function(before)(*values, **named)
    except TypeError:
        return  # was no call that anybody made
    now = function(after)(*values, **named)
    kept = {name for name in still - {"kwargs"} if str(was[name]).startswith(("value", "by"))}
    assert {name: was[name] for name in kept} == {name: now[name] for name in kept}


def why(
    suite: Suite, packages: dict[str, str], before: Record | None = None, after: Record | None = None
) -> str:
    found = unsupported([suite], before, after or release("2.13.0", 20, packages=packages))
    assert all(one.suite == suite.name for one in found)
    return "; ".join(f"{'' if one.certain else 'perhaps '}{'; '.join(one.why)}" for one in found)


@pytest.mark.parametrize(
    ("need", "there", "held"),
    [
        ("torch>=2.11,<3", "2.11.0", True),
        ("torch>=2.11,<3", "2.10.1", False),
        ("torch>=2.11,<3", "3.0", False),
        ("torch==2.13.0", "2.13.0+cpu", True),
        ("torch>=2.11", "2.14.0.dev20261101", True),
        ("torch", "2.13.0", True),
        # What the metadata of a package requires is a range, or nothing in particular.
        ("torch>=2.11", ">=2.4", True),
        ("torch>=2.11", "==2.10.0", False),
        ("torch>=2.11", "<2.11", False),
        ("torch>2.11", "<=2.11", False),
        ("torch<2.11", "<3,!=2.12", True),
        ("torch==2.11.*", ">2.11.3", True),
        ("torch~=2.11.0", ">=2.12", False),
        ("torch>=2.11", "", True),
        ("torch>=2.11", "*", True),
        ("torch<3", '==3.5.0; platform_system == "Linux"', False),
        ("torch>=2.11", "[opt-einsum]>=2", True),
        ("torch>=2.11", "[opt-einsum]<2", False),
        ("torch>=2.11", '<2; extra == "old" | >=2.12; extra == "new"', True),
        ("torch>=2.11", '<2; extra == "old" | ==2.0; extra == "new"', False),
        ("torch>=2.11", '; python_version < "4"', True),
        ("torch>=2.11", "<2 | @ https://host.example/torch | >=2", True),
        ("Flash_Attn>=2", "no", True),
        # What cannot be shown is asked.
        ("torch>=2.11", "unknown", None),
        ("torch>=2.11", "git+https://host.example/torch", None),
        ("torch>=2.11", "<2 | @ https://h/t", None),
    ],
)
def test_what_a_suite_needs_is_held_against_the_packages(need: str, there: str, held: bool | None) -> None:
    unmet = f"needs `{need}`, but the release has `{there}`"
    wanted = {True: "", False: unmet, None: f"perhaps {unmet}"}[held]
    packages = {"torch": there, "flash-attn": "2.8"}
    assert why(Suite(name="s", needs=[need]), packages) == wanted
    missing = why(Suite(name="s", needs=[need, "x"]), packages)
    assert missing == "; ".join(
        [*([unmet] if held is False else []), "needs `x`, which the release does not have"]
    )


def signatures(**found: str | None) -> Record:
    read = {name.replace("_", ":"): None if text is None else of(text) for name, text in found.items()}
    return release("2.13.0", 20, signatures=read)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (signatures(m_f="path, mmap"), signatures(m_f="path"), "`m:f`: `mmap was removed`"),
        (signatures(m_f="path"), signatures(m_f=None), "`m:f` was removed"),
        (None, signatures(m_f="path"), ""),
        (signatures(m_f="path"), signatures(m_f="path, mmap=1"), ""),
        (signatures(m_f=None), signatures(m_f="path"), ""),
        (signatures(), signatures(m_f=None), ""),
        (signatures(m_f="path"), signatures(), ""),
        (signatures(m_f="path", m_g="x"), signatures(m_f="path", m_g=None), ""),
    ],
)
def test_a_call_that_breaks_is_told_and_nothing_else(before: Record | None, after: Record, said: str) -> None:
    assert why(Suite(name="s", calls=["m:f"]), {}, before, after) == said


NUMBERS = st.sampled_from(["0.9", "1.0", "1.0.1", "1.1", "1.5", "2.0", "2.0.post1"])
RANGES = st.lists(
    st.builds(str.__add__, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBERS), max_size=3
)


@given(RANGES, RANGES)
def test_two_ranges_meet_wherever_any_version_is_in_both(given_: list[str], needed: list[str]) -> None:
    one, other = SpecifierSet(",".join(given_)), SpecifierSet(",".join(needed))
    shown = [f"{major}.{minor}.{patch}" for major in range(4) for minor in range(7) for patch in range(3)]
    shown += ["2.0.post1", "2.0.post2"]
    common = any(one.contains(Version(text)) and other.contains(Version(text)) for text in shown)
    assert meets(str(one), other) or not common
