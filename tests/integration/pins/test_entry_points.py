"""Signatures are found in source, wherever a name is from; what only running it tells is told by nobody."""

from __future__ import annotations

import io
import textwrap
import zipfile
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.pins.entry_points import signatures
from ci.pins.record import Signature

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


def found(entries: list[str], tree: Mapping[str, str | bytes]) -> dict[str, Signature | None]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in tree.items():
            archive.writestr(name, textwrap.dedent(text) if isinstance(text, str) else text)
    with zipfile.ZipFile(packed) as archive:
        return signatures(entries, archive)


def shown(signature: Signature | None) -> str:
    """As Python writes it, without `/` and `*`; what is given by name alone has a star."""
    if signature is None:
        return "gone"
    marks = {"keyword-only": "*", "variadic positional": "*", "variadic keyword": "**"}
    parts = [f"{marks.get(one.kind, '')}{one.name}={one.default}".removesuffix("=None") for one in signature]
    return f"({', '.join(parts)})"


SEEN = {
    "demo:plain": "(a, b=1, *args, *c=[1, 2], *d, **kwargs)",
    "demo:later": "(a)",
    "demo:both": "(a, b=2)",
    "demo:run": "(model, *steps=8 * 4)",
    "demo:core.run": "(model, *steps=8 * 4)",
    "demo.core:run": "(model, *steps=8 * 4)",
    "demo:starred": "(x)",
    "demo:deep": "(y)",
    "demo:Lazy": "(name, size=3)",
    "demo:Lazy.method": "(a)",
    "demo:Renamed.static": "(a)",
    "demo:Renamed.of": "(a)",
    "demo.core:Child": "(name, size=3)",
    "demo.core:Bare": "()",
    "demo.core:Typed": "()",
    "demo.core:Newed": "(a)",
    "demo.core:Own": "(only)",
    "demo.core:Data": "(a, b=list())",
    "demo.core:Plain": "(a, b=list())",
    "demo.core:More": "(a, b=list(), c=0)",
    "demo.native:quick": "(a, b=...)",
    "demo.noisy:f": "(a)",
    "demo.late:there": "(a)",
    "demo.core:gone": "gone",
    "demo.core:Base.gone": "gone",
    "demo.gone:run": "gone",
    "gone:run": "gone",
}
UNTOLD = [
    "demo:borrowed",  # another distribution's
    "demo:lost",  # of a module that is not found, or native
    "demo:made",  # what a call gives
    "demo:again",  # what a name stands for that is assigned
    "demo:core",  # a module is no entry point
    "demo.core:Base.shape",  # a property is not called
    "demo.core:Strange",  # of a base that is elsewhere
    "demo.core:Round",
    "demo.core:Decorated",
    "demo.native:several",
    "demo.native:Several",
    "demo.lazy:anything",  # `__getattr__` may have it
    "demo.late:anything",
    "demo.broken:f",
    "demo.zero:f",
    "demo.cycle:x",
]


@pytest.mark.parametrize("folder", ["", "demo-1.0.data/purelib/"])
def test_an_entry_point_has_the_parameters_of_what_it_names_and_what_is_untold_is_left_out(
    folder: str,
) -> None:
    tree = {f"{folder}{name}": text for name, text in TREE.items()}
    told = found([*SEEN, *UNTOLD], tree)
    assert {name: shown(one) for name, one in told.items()} == SEEN


@pytest.mark.parametrize(
    "text", ["(" * 5000, "-" * 100_000 + "1", "x = " + "[" * 150 + "]" * 150, b"\xff\xfe"]
)
def test_source_that_is_made_to_break_the_reading_is_left_out(text: str | bytes) -> None:
    assert found(["demo:f"], {"demo.py": text}) in ({}, {"demo:f": None})


def test_what_leads_out_of_the_archive_or_is_too_large_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(["demo:f"], {"demo/../../demo.py": "def f(): ...", "/demo.py": "def f(): ..."}) == {
        "demo:f": None
    }
    monkeypatch.setattr("ci.pins.entry_points._MOST_BYTES", 10)
    assert found(["demo:f"], {"demo.py": "def f(): ..."}) == {"demo:f": None}


@given(st.text(max_size=100))
def test_no_source_breaks_the_reading(text: str) -> None:
    found(["demo:f"], {"demo.py": text})
