from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError
from ci.report.history import DAY_S, History
from ci.report.op_maps import export_op_map, keep_op_map
from ci.store.store import Store
from test_selection.op_map import OpMap, make_op_map

ADD, MUL, NORM = "aten::add.Tensor float32", "aten::mul.Tensor int8", "torch/functional.py:norm"
DAY = DAY_S


def traced(calls: dict[str, list[str]], *, pytorch: str = "2.13.0", device: str = "spyre") -> OpMap:
    return make_op_map(calls, pytorch=pytorch, device=device)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def keep(path: Path, op_map: OpMap, *, day: float) -> None:
    with closing(Store(path)) as store, store.transaction() as connection:
        keep_op_map(connection, op_map, at=day * DAY)


def test_each_test_has_its_last_trace_on_each_device_with_each_torch(path: Path) -> None:
    keep(path, traced({"a": [ADD], "b": [ADD]}, pytorch="2.12.1"), day=1)
    keep(path, traced({"a": [ADD, NORM], "b": [ADD]}), day=2)
    keep(path, traced({"a": [MUL], "c": [MUL]}), day=3)
    keep(path, traced({"a": [ADD]}, device="other"), day=4)
    history = History(path)

    # Functions of an earlier run stay: not every run notes them.
    assert export_op_map(history, device="spyre") == traced({"a": [MUL, NORM], "b": [ADD], "c": [MUL]})
    old = export_op_map(history, device="spyre", pytorch="2.12.1")
    assert old == traced({"a": [ADD], "b": [ADD]}, pytorch="2.12.1")


def test_traces_are_not_kept_for_ever(path: Path) -> None:
    keep(path, traced({"a": [ADD], "b": [ADD]}), day=1)
    keep(path, traced({"b": [MUL]}), day=92)

    assert export_op_map(History(path), device="spyre") == traced({"b": [MUL]})


def test_what_was_never_traced_is_refused(path: Path) -> None:
    keep(path, traced({"a": [ADD]}), day=1)

    with pytest.raises(MissingInputError, match="no run on other has traces"):
        export_op_map(History(path), device="other")
    with pytest.raises(MissingInputError, match="no run on spyre has traces"):
        export_op_map(History(path), device="spyre", pytorch="2.14.0")
