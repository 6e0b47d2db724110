"""What to run and how it is split: catalog, scope, stages on the ladder, plans with set-up costs, CI jobs."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.conftest import Desk, make_desk
from tests.oracle.run_files import (
    Json,
    fingerprint,
    lower_bound,
    planned,
    row,
    write_catalog,
    write_durations,
    write_selection,
)

RULES = """\
rules:
  - {code: elsewhere, text: not ours, verdict: out, file: "far/**", issue: https://example.org/7}
  - {code: grad, text: training, verdict: out, file: "*.py", template: /grad/}
  - {code: in-scope, text: the rest, verdict: in}
must_run:
  - {serves: "language models", template: test_matmul}
"""
MATMUL, GRAD, FAR = (
    "test_a.py::TestA::test_matmul",
    "test_a.py::TestA::test_grad",
    "far/test_far.py::TestFar::test_x",
)
STAGES = {1: 5, 2: 25, 3: 50, 4: 80}


def typed(first: int, last: int, file: str = "test_a.py") -> list[Json]:
    """Tests of 20 templates and three dtypes, by number."""
    return [
        row(
            f"{file}::TestA::test_{number % 20}[dtype=float{number % 3},k={number}]",
            dtype=f"float{number % 3}",
        )
        for number in range(first, last)
    ]


@pytest.fixture
def scoped(tmp_path: Path) -> Desk:
    """A desk with a scope, and a run folder `r` with 401 tests in it, two out of it and a broken file."""
    return scoped_desk(tmp_path)


def scoped_desk(base: Path, *, seed: int = 0) -> Desk:
    desk = make_desk(base, "pytorch: {rules: rules.yaml}\n")
    desk.write("rules.yaml", RULES)
    rows = [*typed(0, 400), row(MATMUL), row(GRAD), row(FAR)]
    seeded(seed).shuffle(rows)
    write_catalog(desk, "r/catalog.jsonl.gz", rows, errors={"test_broken.py": "ImportError: x"})
    return desk


def seeded(seed: int | str) -> random.Random:
    """Numbers that are the same each time."""
    return random.Random(seed)  # noqa: S311  # no secrets


def select(desk: Desk, *words: str) -> set[str]:
    """Select in run folder `r`; the ids, none of which stands there twice."""
    desk.call("select", "--run-dir", "r", *words)
    ids = desk.read("r/selection.json")["ids"]
    assert len(ids) == len(set(ids))
    return set(ids)


@pytest.mark.gate
def test_stages_hold_their_share_nest_and_are_the_same_on_two_machines(scoped: Desk, tmp_path: Path) -> None:
    """Law 2, with the lock and without one, whatever the order of collection."""
    everything = select(scoped, "--percent", "100", "--relock")
    assert everything == {one["id"] for one in typed(0, 400)} | {MATMUL}
    stages = {number: select(scoped, "--stage", str(number)) for number in STAGES}
    for number, percent in STAGES.items():
        assert len(stages[number]) == math.ceil(401 * percent / 100)
    assert stages[1] < stages[2] < stages[3] < stages[4] < everything
    # The cover comes first: 5 % of the tests reach every template and dtype.
    for pattern, count in ((r"::(test_\w+)", 21), (r"dtype=(\w+)", 3)):
        assert len({found[1] for one in stages[1] if (found := re.search(pattern, one))}) == count
    assert scoped.read("r/selection.json")["collect_errors"] == {"test_broken.py": "ImportError: x"}
    other = scoped_desk(tmp_path / "other", seed=1)
    assert select(other, "--stage", "2") == stages[2]
    assert not (other.folder / "selection.lock.gz").exists()
    assert "made for this run" in other.read("r/selection.json")["ladder"]["source"]


@pytest.mark.gate
def test_who_comes_or_goes_moves_nobody_until_it_is_relocked(scoped: Desk) -> None:
    before = select(scoped, "--stage", "2", "--relock")
    lock = scoped.folder / "selection.lock.gz"
    kept = lock.read_bytes()
    rows = [*typed(40, 600), row(MATMUL)]
    seeded(2).shuffle(rows)
    write_catalog(scoped, "r/catalog.jsonl.gz", rows)
    there = {one["id"] for one in rows}
    after = select(scoped, "--stage", "2")
    old = {one["id"] for one in typed(0, 400)} | {MATMUL}
    assert after & old == before & there
    # New tests get hashed places: about a quarter of 200 of them is in.
    assert 25 <= len(after - old) <= 80
    assert lock.read_bytes() == kept
    said = scoped.call("select", "--run-dir", "r", "--stage", "2", "--relock").out
    relocked = set(scoped.read("r/selection.json")["ids"])
    assert "200 added" in said
    assert "40 removed" in said
    line = next(one for one in said.splitlines() if one.startswith("stage 2 "))
    # Moves are counted over the tests that both locks, or this catalog, know as in scope.
    assert len(relocked) == math.ceil(561 * 25 / 100)
    assert " move in " in line or " move out " in line
    again = scoped.call("select", "--run-dir", "r", "--stage", "2", "--relock").out
    assert again.count("no test moves") == 5
    assert set(scoped.read("r/selection.json")["ids"]) == relocked


@pytest.mark.gate
def test_restricting_comes_before_the_share_and_must_run_comes_first(scoped: Desk) -> None:
    rows = [*typed(0, 400), *typed(0, 200, "test_b.py"), row(MATMUL)]
    write_catalog(scoped, "r/catalog.jsonl.gz", rows)
    assert MATMUL in select(scoped, "--percent", "0.2", "--relock")
    of_b = select(scoped, "--percent", "5", "--files", "test_b.py")
    assert len(of_b) == 10
    assert {one.partition("::")[0] for one in of_b} == {"test_b.py"}
    by_name = select(scoped, "--percent", "50", "-k", "test_7")
    assert len(by_name) == 15
    assert all("::test_7[" in one for one in by_name)
    assert select(scoped, "--id", typed(3, 4)[0]["id"]) == {typed(3, 4)[0]["id"]}
    scoped.call("select", "--run-dir", "r", "--relock", "-k", "test_7", code=2)
    scoped.call("select", "--run-dir", "r", "--percent", "5", "-k", "nothing_like_it", code=3)
    assert scoped.read("r/selection.json")["ids"] == []
    scoped.call("plan", "--run-dir", "r", "--shards", "2", code=3)


def test_scope_says_in_or_out_with_the_reason(scoped: Desk) -> None:
    said = scoped.call("scope", "--run-dir", "r", "--json").json
    reasons = {one["code"]: one for one in said["reasons"]}
    assert {code: (one["in_scope"], one["tests"]) for code, one in reasons.items()} == {
        "elsewhere": (False, 1), "grad": (False, 1), "in-scope": (True, 401),
    }  # fmt: skip
    assert reasons["elsewhere"]["issue"] == "https://example.org/7"
    assert said["must_run"] == 1
    for name, code, inside in ((GRAD, "grad", False), (FAR, "elsewhere", False), (MATMUL, "in-scope", True)):
        told = scoped.call("scope", "explain", name, "--run-dir", "r", "--json").json
        assert (told["id"], told["code"], told["in_scope"]) == (name, code, inside)
    assert told["must_run"]


Shape = dict[str, tuple[float, list[float]]]


def heavy_tails(draw: random.Random) -> Shape:
    return {
        f"test_{file}.py": (
            draw.uniform(2, 9),
            [min(60.0, draw.paretovariate(1.3) * 0.2) for _ in range(draw.randint(5, 80))],
        )
        for file in range(30)
    }


def one_giant(draw: random.Random) -> Shape:
    small = {f"test_{file}.py": (3.0, [draw.uniform(0.1, 0.5) for _ in range(6)]) for file in range(8)}
    return {"test_giant.py": (8.0, [draw.uniform(0.5, 2) for _ in range(1200)]), **small}


def many_of_one_test(draw: random.Random) -> Shape:
    return {f"test_{file}.py": (draw.uniform(1, 4), [draw.uniform(0.2, 3)]) for file in range(150)}


def dear_set_ups(draw: random.Random) -> Shape:
    return {
        f"test_{file}.py": (draw.uniform(40, 60), [draw.uniform(0.01, 0.2) for _ in range(25)])
        for file in range(20)
    }


def nothing_but_zeros(_: random.Random) -> Shape:
    return {f"test_{file}.py": (0.0, [0.0] * 10) for file in range(4)}


def some_zeros(_: random.Random) -> Shape:
    return {f"test_{file}.py": (5.0 * (file % 2), [0.0, 0.0, 1.0] * 10) for file in range(10)}


def one_long_test(_: random.Random) -> Shape:
    return {"test_long.py": (5.0, [600.0, 1.0, 1.0]), "test_short.py": (5.0, [1.0] * 40)}


# By shards, how many times the bound of the design the longest shard may take. Twenty set-ups that nobody
# can cut go on sixteen shards twice somewhere, which that bound does not know.
SHAPES: tuple[tuple[Callable[[random.Random], Shape], dict[int, float]], ...] = (
    (heavy_tails, {1: 1.0, 3: 1.03, 24: 1.03}),
    (one_giant, {3: 1.03, 64: 1.03}),
    (many_of_one_test, {3: 1.03, 16: 1.03}),
    (dear_set_ups, {3: 1.03, 16: 1.48, 64: 1.03}),
    (nothing_but_zeros, {3: 1.0}),
    (some_zeros, {3: 1.03, 16: 1.03}),
    (one_long_test, {3: 1.0, 16: 1.0}),
)


@pytest.mark.gate
@pytest.mark.parametrize(("shape", "ratios"), SHAPES, ids=[shape.__name__ for shape, _ in SHAPES])
def test_a_plan_holds_every_test_once_near_the_bound_of_the_design(
    desk: Desk, shape: Callable[[random.Random], Shape], ratios: Mapping[int, float]
) -> None:
    content = shape(seeded(shape.__name__))
    tests = {
        f"{file}::TestA::test_{number}": seconds
        for file, (_, all_seconds) in content.items()
        for number, seconds in enumerate(all_seconds)
    }
    files = {file: setup for file, (setup, _) in content.items()}
    put_down(desk, tests, files)
    for shards, ratio in ratios.items():
        plan = plan_of(desk, shards)
        check_plan(plan, tests, files, shards)
        bound = lower_bound(tests, files, shards)
        assert plan["makespan_s"] <= bound * ratio + 0.002


def put_down(desk: Desk, tests: Mapping[str, float], files: Mapping[str, float], *, seed: int = 0) -> None:
    """Write what `plan` takes on single files."""
    names = sorted(tests)
    seeded(seed).shuffle(names)
    write_catalog(desk, "catalog.jsonl.gz", [row(name) for name in names])
    write_selection(desk, "selection.json", tests)
    write_durations(desk, "durations.json", tests, files)


def plan_of(desk: Desk, shards: int, *more: str) -> Json:
    words = (
        "--catalog",
        "catalog.jsonl.gz",
        "--selection",
        "selection.json",
        "--durations",
        "durations.json",
    )
    desk.call("plan", *words, "--shards", str(shards), "--out", "plan.json", *more)
    plan: Json = desk.read("plan.json")
    return plan


def check_plan(plan: Json, tests: Mapping[str, float], files: Mapping[str, float], shards: int) -> None:
    """Law 3, and all the rest that anybody may compute from a plan."""
    assert plan["schema"] == "spyre-ci/plan/1"
    assert sorted(planned(plan)) == sorted(tests)
    assert [one["index"] for one in plan["shards"]] == list(range(shards))
    for shard in plan["shards"]:
        cost = sum(files[one["file"]] + sum(tests[name] for name in one["ids"]) for one in shard["groups"])
        assert shard["expected_s"] == pytest.approx(cost, abs=0.002)
        assert all(name.startswith(f"{one['file']}::") for one in shard["groups"] for name in one["ids"])
    assert plan["makespan_s"] == max(one["expected_s"] for one in plan["shards"])
    # A sharper bound may be told, none beyond what was reached.
    assert lower_bound(tests, files, shards) - 0.002 <= plan["bound_s"] <= plan["makespan_s"]
    assert plan["fingerprint"] == fingerprint(plan["shards"])


def test_the_same_work_is_the_same_plan_whatever_the_order(desk: Desk) -> None:
    tests = {f"test_{file}.py::TestA::test_{n}": 0.1 * (n % 7) for file in range(6) for n in range(20)}
    files = {f"test_{file}.py": 2.0 for file in range(6)}
    put_down(desk, tests, files)
    first = plan_of(desk, 4, "--seed", "7")
    put_down(desk, tests, files, seed=1)
    assert plan_of(desk, 4, "--seed", "7") == first
    assert first["seed"] == 7
    put_down(desk, {name: 2 * seconds for name, seconds in tests.items()}, files)
    assert plan_of(desk, 5)["fingerprint"] != first["fingerprint"]


@pytest.mark.parametrize(
    ("tests", "files", "shards", "binds"),
    [
        ({"test_a.py::T::test_a": 9.0, "test_a.py::T::test_b": 1.0}, {"test_a.py": 5.0}, 2, "longest test"),
        ({f"test_a.py::T::test_{n}": 1.0 for n in range(40)}, {"test_a.py": 1.0}, 2, "balance"),
        ({f"t{n}.py::T::test": 0.1 for n in range(40)}, {f"t{n}.py": 5.0 for n in range(40)}, 3, "set-up"),
    ],
)  # fmt: skip
def test_a_plan_says_what_binds_it(
    desk: Desk, tests: dict[str, float], files: dict[str, float], shards: int, binds: str
) -> None:
    put_down(desk, tests, files)
    assert plan_of(desk, shards)["binds"] == binds


def test_what_no_plan_can_be_made_of_is_refused(desk: Desk) -> None:
    put_down(desk, {"test_a.py::T::test_a": 1.0}, {"test_a.py": 1.0})
    words = ("plan", "--catalog", "catalog.jsonl.gz", "--selection", "selection.json", "--shards", "2")
    for ids, code in ((["test_a.py::T::test_a", "gone.py::T::test_b"], 2), ([], 3)):
        write_selection(desk, "selection.json", ids)
        desk.call(*words, "--out", "plan.json", code=code)
    assert not (desk.folder / "plan.json").exists()


def shards_of(text: str) -> list[int]:
    """Of `0-2,5`: 0, 1, 2 and 5."""
    ends = [[int(one) for one in part.split("-")] for part in text.split(",")]
    return [number for pair in ends for number in range(pair[0], pair[-1] + 1)]


def github(content: Any) -> list[tuple[str, int]]:
    return [(one["shards"], one["cards"]) for one in content["include"]]


def jenkins(content: Any) -> list[tuple[str, int]]:
    assert list(content) == sorted(content)
    return [(one["shards"], one["cards"]) for one in content.values()]


def indexed_job(content: Any) -> list[tuple[str, int]]:
    assert content["completions"] == content["parallelism"] == len(content["shards"])
    return [(one, content["cards_per_pod"]) for one in content["shards"]]


@pytest.mark.gate
def test_jobs_of_a_ci_hold_every_shard_once(desk: Desk) -> None:
    tests = {f"test_{file}.py::TestA::test_{n}": 1.0 + n % 5 for file in range(9) for n in range(40)}
    put_down(desk, tests, {f"test_{file}.py": 2.0 for file in range(9)})
    plan = plan_of(desk, 22)
    wanted = [one["index"] for one in plan["shards"] if one["groups"]]
    legs_of = {"github": github, "jenkins": jenkins, "indexed-job": indexed_job}
    for words, count, cards in (
        (("--cards-per-job", "4"), 6, 4),
        (("--cards-per-job", "2", "--jobs", "5"), 5, 2),
    ):
        for what, read in legs_of.items():
            said = desk.call("matrix", "plan.json", "--for", what, *words)
            legs = read(said.json)
            assert sorted(one for text, _ in legs for one in shards_of(text)) == wanted, what
            assert (len(legs), {one for _, one in legs}) == (count, {cards}), what
            assert "\n" not in said.out.strip()


@pytest.mark.gate
def test_seconds_come_from_the_history_and_from_what_was_exported_of_it(desk: Desk) -> None:
    tests = {f"test_{file}.py::TestA::test_{n}": 1.0 + n for file in range(3) for n in range(5)}
    files = {f"test_{file}.py": 4.0 for file in range(3)}
    put_down(desk, tests, files)
    desk.call("history", "import", "durations.json", "--device", "spyre")
    words = ("plan", "--catalog", "catalog.jsonl.gz", "--selection", "selection.json", "--shards", "2")
    desk.call(*words, "--out", "by-history.json", SPYRE_CI__DEVICE__NAME="spyre")
    desk.call("history", "export", "--device", "spyre", "--out", "exported.json.gz")
    exported = desk.read("exported.json.gz")
    assert (exported["tests"], exported["files"]) == (tests, files)
    desk.call(*words, "--durations", "exported.json.gz", "--out", "by-export.json")
    for name in ("by-history.json", "by-export.json"):
        check_plan(desk.read(name), tests, files, 2)
    # Of another device nothing is known.
    desk.call("history", "export", "--device", "cpu", "--out", "none.json")
    assert desk.read("none.json")["tests"] == {}
    desk.call(*words, "--out", "guessed.json", SPYRE_CI__STORE__PATH="nowhere.sqlite")
    assert desk.read("guessed.json")["makespan_s"] != desk.read("by-export.json")["makespan_s"]


@pytest.mark.gate
def test_a_tree_is_collected_into_a_catalog_with_its_files_and_errors(quick_desk: Desk, tree: Path) -> None:
    words = ("collect", "--run-dir", "r", "--pytorch-src", tree, "--files", "test_o*,test_import_e*,sub/*")
    said = quick_desk.call(*words, "--json").json
    head, *rows = quick_desk.read("r/catalog.jsonl.gz")
    assert (head["schema"], head["device"]) == ("spyre-ci/catalog/1", "cpu")
    errors = {file: one["error"] for file, one in head["files"].items()}
    assert {file for file, error in errors.items() if error} == {"test_import_error.py"}
    assert "ImportError" in errors["test_import_error.py"]
    assert all(one["collect_s"] >= 0 for one in head["files"].values())
    assert set(rows[0]) >= {"id", "node", "file", "class", "template", "op", "dtype"}
    found = {one["id"]: one for one in rows}
    assert len(found) == len(rows) == said["tests"]
    function = found["test_outcomes.py::test_function[left=1,right=2]"]
    assert (function["template"], function["op"], function["dtype"]) == ("test_function", None, None)
    assert "test_function[1-2]" in function["node"]
    # A second time from the cache, and the same.
    quick_desk.call(*words)
    assert [one["id"] for one in quick_desk.read("r/catalog.jsonl.gz")[1:]] == list(found)
