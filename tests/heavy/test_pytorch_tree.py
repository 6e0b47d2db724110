"""The main job on a real PyTorch tree, older than the torch it runs on: what cannot be imported must show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from test_selection.catalog import read_catalog

Call = Callable[..., tuple[int, str, str]]
FILES = "test_view_ops.py,test_indexing.py,test_unary_ufuncs.py,test_torch.py"


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.soak), "spyre"])
def test_five_per_cent_of_what_collects_runs_and_the_rest_is_told(
    spyre_ci: Call, pytorch_tree: Path, tmp_path: Path, device: str
) -> None:
    words = (
        "pytorch", "--pytorch-src", str(pytorch_tree), "--stage", "1", "--cards", "2",
        "--device", device, "--files", FILES,
    )  # fmt: skip
    code, out, err = spyre_ci(*words)
    assert (code, err) == (3, "")
    table = out[out.index("1 file could not be collected") :].splitlines()
    assert table[1].strip().startswith("test_torch.py: ImportError: cannot import name")
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert sum(summary["verdicts"].values()) == summary["planned"] > 1000
    assert 0.04 < summary["planned"] / summary["in_scope"] < 0.06
    assert summary["verdicts"]["passed"] > 0.9 * summary["planned"]
    verdicts = summary["verdicts"]
    assert verdicts["hardware"] == verdicts["infrastructure"] == verdicts["not_run"] == 0
    code, _, _ = spyre_ci("report", str(run), "--allow-collect-errors")
    assert code == (1 if summary["verdicts"]["failed"] else 0)


@pytest.mark.soak
def test_the_whole_tree_is_collected_and_every_file_is_in_the_catalog(
    spyre_ci: Call, pytorch_tree: Path, tmp_path: Path
) -> None:
    code, out, err = spyre_ci(
        "collect", "--pytorch-src", str(pytorch_tree), "--device", "cpu", "--run-dir", "run"
    )
    assert code == 0, err
    catalog = read_catalog(tmp_path / "run" / "catalog.jsonl.gz")
    files = {
        path.relative_to(pytorch_tree / "test").as_posix() for path in pytorch_tree.glob("test/**/test_*.py")
    }
    assert set(catalog.files) == files
    assert len(catalog.tests) > 90_000
    assert f"collected {len(catalog.tests):,} tests of {len(files)} files" in out
