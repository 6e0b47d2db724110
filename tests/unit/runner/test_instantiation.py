from __future__ import annotations

import enum
import functools

import pytest

from ci.runner.instantiation import parts_of, value_text


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


def test_the_device_is_no_parameter() -> None:
    assert dict(parts_of(helper, None, "test_x", {"device": "spyre:0", "dtype": "f"}).params) == {
        "dtype": "f"
    }


def test_op_and_dtype_come_from_the_parameters() -> None:
    parts = parts_of(helper, None, "test_x", {"op": WithName(), "dtype": "float32"})
    assert (parts.op, parts.dtype) == ("add.with_out", "float32")
    assert parts_of(helper, None, "test_x", {"module_info": "nn.Linear"}).op == "nn.Linear"
