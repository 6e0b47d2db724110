"""A plan says where its seconds come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.steps import plan as plan_module
from ci.steps.context import Context
from ci.steps.plan import likeliest, plan_step
from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.durations import Durations
from test_selection.limits import Limits
from test_selection.pack import make_plan
from test_selection.plan import Plan
from test_selection.selection import ChangeNote, Selection


def context(folder: Path, **flags: object) -> Context:
    return Context(
        settings=load_settings(path=None, environ={}, flags=flags, cwd=folder), environ={},
        clock=lambda: 0.0, monotonic=lambda: 0.0, console=Console(quiet=True), cores=1,
    )  # fmt: skip


def test_a_plan_says_where_its_seconds_come_from(tmp_path: Path) -> None:
    names = [f"a.py::T::t[dtype={dtype}]" for dtype in ("int8", "int16", "int32")] + [
        "b.py::U::t",
        "b.py::U::u",
    ]
    tests = [CatalogTest(id=name, node="", file=name[:4]) for name in names]
    catalog = Catalog(
        pytorch="p", device="d", files={"a.py": FileRecord(), "b.py": FileRecord()}, tests=tests
    )
    known = Durations(tests={names[0]: 1.0}, classes={"b.py::U": 8.0})
    said: list[str] = []
    plan = plan_step(
        context(tmp_path),
        catalog,
        # The class's other test is not planned, and half of its seconds are not either.
        Selection(stage=None, percent=50, ids=names[:-1]),
        known,
        shards=1,
        plan_file=tmp_path / "plan.json",
        say=said.append,
    )
    assert said == [
        "durations: 1 measured, 2 from the same test with another dtype, 1 from imported class times"
    ]
    assert plan.makespan_s == 7.0


def test_time_outs_from_history_are_handed_to_the_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[Limits] = []

    def noting(tests: list[CatalogTest], *, limits: Limits, **rest: Any) -> Plan:
        handed.append(limits)
        return make_plan(tests, limits=limits, **rest)

    monkeypatch.setattr(plan_module, "make_plan", noting)
    names = ["a.py::T::t", "a.py::T::u", "b.py::t"]
    tests = [CatalogTest(id=name, node="", file=name[:4]) for name in names]
    catalog = Catalog(
        pytorch="p", device="d", files={"a.py": FileRecord(), "b.py": FileRecord()}, tests=tests
    )
    run = {"run.timeout_factor": 4, "run.timeout_floor_s": 10, "run.test_timeout_s": 50}
    plan_step(
        context(tmp_path, **run, **{"plan.max_files": 2, "plan.speeds": [0.5]}),
        catalog,
        Selection(stage=None, percent=100, ids=names),
        Durations(tests={names[0]: 1.0, names[1]: 3.0}, spread={names[1]: 6.0}),
        shards=1,
        plan_file=tmp_path / "plan.json",
    )
    (limits,) = handed
    assert (limits.timeouts, limits.max_files, limits.speeds) == ({"a.py": 24}, 2, (0.5,))


@pytest.mark.parametrize(("shards", "widths"), [(1, [1]), (2, [2])])
def test_a_test_that_needs_more_cards_than_there_are_is_planned_on_one_and_said(
    tmp_path: Path, shards: int, widths: list[int]
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "rules:\n  - {code: all, text: everything, verdict: in}\n"
        "tiers:\n  - {code: w, text: two at once, template: wide, needs: {cards: 2}}\n",
        encoding="utf-8",
    )
    test = CatalogTest(id="a.py::T::wide", node="", file="a.py", cls="T", template="wide")
    said: list[str] = []
    plan = plan_step(
        context(tmp_path, **{"pytorch.rules": str(path)}),
        Catalog(pytorch="p", device="d", files={"a.py": FileRecord()}, tests=[test]),
        Selection(stage=None, percent=100, ids=[test.id]),
        Durations(),
        shards=shards,
        plan_file=tmp_path / "plan.json",
        say=said.append,
    )
    assert [shard.cards for shard in plan.shards if shard.groups] == widths
    told = ["1 test needs up to 2 cards, and 1 card is here: planned on one card"]
    assert said[:-1] == (told if shards == 1 else [])


@pytest.mark.parametrize(("named", "first"), [(0, 0), (3, 3), (500, plan_module.MOST_FIRST)])
def test_what_a_change_breaks_the_likeliest_runs_first(named: int, first: int) -> None:
    note = ChangeNote(
        compared="", files=1, budget="", named={f"t{number}": "kernel" for number in range(named)}
    )
    selection = Selection(stage=1, percent=5, ids=[], change=note)

    assert likeliest(selection) == {f"t{number}" for number in range(first)}
    assert likeliest(Selection(stage=1, percent=5, ids=[])) == likeliest(None) == frozenset()
