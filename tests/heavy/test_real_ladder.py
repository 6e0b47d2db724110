"""The ladder of real tests: at 5 % everything there is room for is reached, and nobody moves for others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from test_selection.catalog import Catalog, CatalogTest, read_catalog, write_catalog
from test_selection.lock import read_lock
from test_selection.selection import Selection, read_selection

Call = Callable[..., tuple[int, str, str]]
FILES = (
    "test_view_ops.py,test_indexing.py,test_sort_and_select.py,test_type_promotion.py,test_shape_ops.py,"
    "test_scatter_gather_ops.py,test_reductions.py,test_unary_ufuncs.py,test_tensor_creation_ops.py"
)


@pytest.fixture
def collected(spyre_ci: Call, pytorch_tree: Path, tmp_path: Path) -> Catalog:
    """Nine real files, in the run folder `run`."""
    words = ("--pytorch-src", str(pytorch_tree), "--device", "cpu", "--run-dir", "run", "--files", FILES)
    code, _, err = spyre_ci("collect", *words)
    assert code == 0, err
    return read_catalog(tmp_path / "run" / "catalog.jsonl.gz")


def strangers(catalog: Catalog, share: float) -> list[CatalogTest]:
    """So many new tests that look like those there are."""
    rnd = random.Random(1)  # noqa: S311  # seeded on purpose
    old = rnd.sample(catalog.tests, round(share * len(catalog.tests)))
    return [
        replace(test, id=test.id.replace(f"::{test.template}", f"::{name}", 1), template=name)
        for test in old
        for name in [f"{test.template}_new"]
    ]


def test_five_per_cent_of_real_tests(spyre_ci: Call, collected: Catalog, tmp_path: Path) -> None:
    def select(*words: str) -> Selection:
        code, out, err = spyre_ci("select", "--run-dir", "run", "--percent", "5", *words)
        assert (code, err) == (0, "")
        print(out)  # noqa: T201  # the percentages at which each kind is complete are what one looks for
        return read_selection(tmp_path / "run" / "selection.json")

    before = select("--relock")
    assert before.ladder is not None
    assert len(before.ids) == math.ceil(before.in_scope / 20)
    assert before.ladder.remarks == ()
    for kind, (got, of) in before.ladder.reached.items():
        assert got == of or before.ladder.complete_at[kind] > 5, kind
    for kind in ("files", "ops", "dtypes"):
        assert before.ladder.reached[kind][0] == before.ladder.reached[kind][1] > 0
        assert before.ladder.complete_at[kind] <= 5

    rnd = random.Random(0)  # noqa: S311  # seeded on purpose
    rows = collected.tests + strangers(collected, 0.05)
    rnd.shuffle(rows)
    write_catalog(tmp_path / "run" / "catalog.jsonl.gz", replace(collected, tests=rows))
    after = select()
    assert set(before.ids) <= set(after.ids)
    assert len(after.ids) > len(before.ids)

    kept = rnd.sample(collected.tests, round(0.95 * len(collected.tests)))
    write_catalog(tmp_path / "run" / "catalog.jsonl.gz", replace(collected, tests=kept))
    assert set(select().ids) == set(before.ids) & {test.id for test in kept}
    assert len(read_lock(tmp_path / "selection.lock.gz").order.tests) == before.in_scope
