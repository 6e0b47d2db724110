"""Signatures are found in source, wherever a name is from; what only running it tells is told by nobody."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.pins.entry_points import Source, files_of, signatures
from ci.pins.signatures import shown

TREE = {
    "demo/__init__.py": """
        from typing import TYPE_CHECKING, overload
        from .core import run, Base as Renamed
        from .stars import *
        from . import core
        from outside import borrowed
        from demo.missing import lost
        if TYPE_CHECKING:
            from .lazy.inner import Lazy
        again = run
        through = core.run
        made = make_one()
        def plain(a, /, b: int = 1, *args, c=[1, 2], d, **kwargs) -> None: ...
        async def later(a): ...
        @overload
        def both(a: int) -> int: ...
        @overload
        def both(a: str) -> str: ...
        def both(a, b=2): ...
        """,
    "demo/core.py": """
        import dataclasses
        from abc import ABC
        from typing import Generic, TypeVar
        from outside import Foreign
        T = TypeVar("T")
        def run(model, *, steps=8 * 4): ...
        class Base(ABC):
            def __init__(self, name, size=3): ...
            def method(self, a): ...
            @staticmethod
            def static(a): ...
            @classmethod
            def of(cls, a): ...
            @property
            def shape(self): ...
        class Child(Base): ...
        class Bare: ...
        class Typed(Generic[T]): ...
        class Newed:
            def __new__(cls, a): ...
        class Strange(Foreign): ...
        class Own(Foreign):
            def __init__(self, only): ...
        @dataclasses.dataclass
        class Data:
            a: int
            b: list = dataclasses.field(default_factory=list)
        @dataclasses.dataclass
        class More(Data):
            c: int = 0
        class Plain(Data): ...
        @outside.define
        class Decorated:
            a: int
        class Round(Round): ...
        """,
    "demo/stars.py": "from .hidden import *\ndef starred(x): ...\n",
    "demo/hidden.py": "def deep(y): ...\n",
    "demo/lazy/__init__.py": "def __getattr__(name): ...\n",
    "demo/lazy/inner.py": "from ..core import Base\nclass Lazy(Base): ...\n",
    "demo/native.pyi": """
        from typing import overload
        def quick(a: int, b: int = ...) -> int: ...
        @overload
        def several(a: int) -> int: ...
        @overload
        def several(a: str) -> str: ...
        class Several:
            @overload
            def __init__(self, a: int) -> None: ...
            @overload
            def __init__(self, a: str) -> None: ...
        """,
    "demo/late.py": "import sys\nsys.modules[__name__] = lazily()\ndef there(a): ...\n",
    "demo/broken.py": "def f(:\n",
    "demo/zero.py": "\0",
    "demo/noisy.py": "s = '\\d'\ndef f(a): ...\n",
    "demo/cycle.py": "from .cycle2 import x\n",
    "demo/cycle2.py": "from .cycle import x\n",
}


def source_of(tree: dict[str, str]) -> Source:
    def read(module: str) -> tuple[Path, str] | None:
        for path in files_of(module):
            if path.as_posix() in tree:
                return path, textwrap.dedent(tree[path.as_posix()])
        return None

    return read


@pytest.mark.parametrize(
    ("entry", "seen"),
    [
        ("demo:plain", "(a, /, b=1, *args, c=[1, 2], d, **kwargs)"),
        ("demo:later", "(a)"),
        ("demo:both", "(a, b=2)"),
        ("demo:run", "(model, *, steps=8 * 4)"),
        ("demo:again", "(model, *, steps=8 * 4)"),
        ("demo:through", "(model, *, steps=8 * 4)"),
        ("demo:core.run", "(model, *, steps=8 * 4)"),
        ("demo.core:run", "(model, *, steps=8 * 4)"),
        ("demo:starred", "(x)"),
        ("demo:deep", "(y)"),
        ("demo:Lazy", "(name, size=3)"),
        ("demo:Lazy.method", "(a)"),
        ("demo:Renamed.static", "(a)"),
        ("demo:Renamed.of", "(a)"),
        ("demo.core:Child", "(name, size=3)"),
        ("demo.core:Bare", "()"),
        ("demo.core:Typed", "()"),
        ("demo.core:Newed", "(a)"),
        ("demo.core:Own", "(only)"),
        ("demo.core:Data", "(a, b=list())"),
        ("demo.core:Plain", "(a, b=list())"),
        ("demo.native:quick", "(a, b=...)"),
        ("demo.noisy:f", "(a)"),
        ("demo.late:there", "(a)"),
        ("demo.core:gone", "(gone)"),
        ("demo.core:Base.gone", "(gone)"),
        ("demo.gone:run", "(gone)"),
        ("gone:run", "(gone)"),
    ],
)
def test_an_entry_point_has_the_parameters_of_what_it_names(entry: str, seen: str) -> None:
    assert {name: shown(one) for name, one in signatures([entry], source_of(TREE)).items()} == {entry: seen}


@pytest.mark.parametrize(
    "entry",
    [
        "demo:borrowed",  # another distribution's
        "demo:lost",  # of a module that is not there, or native
        "demo:made",  # what a call gives
        "demo:core",  # a module is no entry point
        "demo.core:Base.shape",  # a property is not called
        "demo.core:Strange",  # of a base that is elsewhere
        "demo.core:Round",
        "demo.core:More",  # a dataclass, whose base has fields too
        "demo.core:Decorated",
        "demo.native:several",
        "demo.native:Several",
        "demo.lazy:anything",  # `__getattr__` may have it
        "demo.late:anything",
        "demo.broken:f",
        "demo.zero:f",
        "demo.cycle:x",
    ],
)
def test_what_only_running_it_would_tell_is_left_out(entry: str) -> None:
    assert signatures([entry], source_of(TREE)) == {}


def test_several_entry_points_are_told_as_each_by_itself_and_no_module_is_read_twice() -> None:
    asked = []

    def noted(module: str) -> tuple[Path, str] | None:
        asked.append(module)
        return source_of(TREE)(module)

    entries = ["demo:run", "demo:Lazy.method", "demo.core:Child", "demo.late:anything", "demo.late:there",
               "demo:deep", "demo:gone", "gone:run"]  # fmt: skip
    alone = [signatures([one], source_of(TREE)) for one in entries]
    assert signatures(entries, noted) == {name: seen for one in alone for name, seen in one.items()}
    assert len(asked) == len(set(asked))


def test_source_without_end_is_given_up() -> None:
    asked = []

    def endless(module: str) -> tuple[Path, str]:
        asked.append(module)
        return Path("x/__init__.py"), f"from n{len(asked)}a import *\nfrom n{len(asked)}b import *\n"

    assert signatures(["m:f"], endless) == {}
    assert len(asked) < 1000


@pytest.mark.parametrize("text", ["(" * 5000, "-" * 100_000 + "1", "x = " + "[" * 150 + "]" * 150, "é" * 3])
def test_source_that_is_made_to_break_the_reading_is_left_out(text: str) -> None:
    assert signatures(["demo:f"], source_of({"demo.py": text})) in ({}, {"demo:f": None})


@given(st.text(max_size=100))
def test_no_source_breaks_the_reading(text: str) -> None:
    signatures(["demo:f"], source_of({"demo.py": text}))
