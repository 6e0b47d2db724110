from __future__ import annotations

import enum
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.runner.instantiation import InspectOnce, parts_of, value_text, when_imported


class Colour(enum.Enum):
    RED = 1


class Numbered(enum.IntEnum):
    SECOND = 2


class WithName:
    name = "add"
    variant_test_name = "with_out"


class Plain:
    pass


class Array:
    shape, dtype = (2, 3), "float32"


def helper() -> None:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"), (None, "None"), (True, "True"), (1.5, "1.5"), (Colour.RED, "RED"),
        (Numbered.SECOND, "SECOND"),
        (helper, "helper"), (Plain, "Plain"), ((1, "x"), "1+x"), ({"b", "a"}, "a+b"), ({"k": 1}, "{k:1}"),
        (functools.partial(print, 1, flush=False), "print(1 flush:False)"),
        (WithName(), "add.with_out"), (Plain(), "Plain"), (Array(), "Array(2+3 float32)"),
    ],
)  # fmt: skip
def test_a_value_is_the_same_text_in_every_process(value: object, text: str) -> None:
    assert value_text(value) == text


def test_a_test_pytorch_did_not_make_keeps_its_own_class_and_name() -> None:
    parts = parts_of(helper, Plain, "test_x", {"n": 3})
    assert (parts.cls, parts.template, dict(parts.params)) == ("Plain", "test_x", {"n": "3"})


def test_a_class_within_a_class_keeps_the_name_of_the_outer_one() -> None:
    class Outer:
        class Inner:
            pass

    assert parts_of(helper, Outer.Inner, "test_x", {}).cls == "Outer::Inner"


def test_the_device_is_no_parameter() -> None:
    assert dict(parts_of(helper, None, "test_x", {"device": "spyre:0", "dtype": "f"}).params) == {
        "dtype": "f"
    }


def test_op_and_dtype_come_from_the_parameters() -> None:
    parts = parts_of(helper, None, "test_x", {"op": WithName(), "dtype": "float32"})
    assert (parts.op, parts.dtype) == ("add.with_out", "float32")
    assert parts_of(helper, None, "test_x", {"module_info": "nn.Linear"}).op == "nn.Linear"


def template(self: object, device: str, dtype: int = 3) -> None:
    pass


@functools.wraps(template)
def wrapper(*args: object) -> None:
    pass


@functools.wraps(wrapper)
def declared(*args: object) -> None:
    pass


declared.__signature__ = inspect.signature(helper)  # type: ignore[attr-defined]  # as decorators set it


@functools.wraps(declared)
def around_declared(*args: object) -> None:
    pass


@functools.wraps(functools.partial(template, dtype=4))
def around_partial(*args: object) -> None:
    pass


@pytest.mark.parametrize(
    "function",
    [
        template,
        wrapper,
        declared,
        around_declared,
        around_partial,
        functools.partial(template, 1),
        Plain,
        len,
    ],
)
def test_signatures_are_those_that_inspect_has(function: Callable[..., Any]) -> None:
    once = InspectOnce("inspect")
    for _ in range(2):
        assert once.signature(function) == inspect.signature(function)
        unwrapped = inspect.signature(function, follow_wrapped=False)
        assert once.signature(function, follow_wrapped=False) == unwrapped
    assert once.unwrap is inspect.unwrap


def test_what_wraps_one_function_is_looked_into_once() -> None:
    once = InspectOnce("inspect")
    assert once.signature(wrapper) is once.signature(template)


def test_operators_of_one_name_and_other_variants_are_told_apart() -> None:
    other = WithName()
    other.variant_test_name = "with_in"
    assert [value_text(one) for one in (WithName(), other, WithName(), other)] == [
        "add.with_out", "add.with_in", "add.with_out", "add.with_in",
    ]  # fmt: skip


NAME = "made_to_be_imported_later"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that nobody has imported yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    file = tmp_path / f"{NAME}.py"
    file.write_text("VALUE = 1\n", encoding="utf-8")
    yield file
    sys.modules.pop(NAME, None)


def doubled(module: Any) -> None:
    module.VALUE *= 2


@pytest.mark.usefixtures("module")
def test_a_module_that_is_imported_later_is_seen_once_it_is_whole() -> None:
    before = len(sys.meta_path)
    when_imported(NAME, doubled)
    assert NAME not in sys.modules
    assert importlib.import_module(NAME).VALUE == 2
    assert importlib.import_module(NAME).VALUE == 2
    assert len(sys.meta_path) == before


@pytest.mark.usefixtures("module")
def test_a_module_that_is_imported_already_is_seen_at_once() -> None:
    made = importlib.import_module(NAME)
    when_imported(NAME, doubled)
    assert made.VALUE == 2


@pytest.mark.usefixtures("module")
def test_two_may_wait_for_one_module() -> None:
    when_imported(NAME, doubled)
    when_imported(NAME, doubled)
    assert importlib.import_module(NAME).VALUE == 4


@pytest.mark.usefixtures("module")
def test_who_only_looks_for_a_module_is_not_its_import() -> None:
    before = len(sys.meta_path)
    when_imported(NAME, doubled)
    assert importlib.util.find_spec(NAME) is not None
    assert importlib.import_module(NAME).VALUE == 2
    assert len(sys.meta_path) == before


def test_a_module_that_loads_the_second_time_is_seen_then(module: Path) -> None:
    whole = module.read_text(encoding="utf-8")
    module.write_text("raise ValueError('broken')  # for a moment\n", encoding="utf-8")
    when_imported(NAME, doubled)
    with pytest.raises(ValueError, match="broken"):
        importlib.import_module(NAME)
    module.write_text(whole, encoding="utf-8")
    importlib.invalidate_caches()
    assert importlib.import_module(NAME).VALUE == 2


def test_a_module_that_does_not_load_fails_as_it_would(module: Path) -> None:
    module.write_text("raise ValueError('broken')\n", encoding="utf-8")
    when_imported(NAME, doubled)
    with pytest.raises(ValueError, match="broken"):
        importlib.import_module(NAME)


def test_a_module_that_is_not_there_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    when_imported("there_is_no_such_module", doubled)
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        importlib.import_module("there_is_no_such_module")
