from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.op_map import make_op_map, write_op_map
from test_selection.recall import Recall, write_recall
from tests.repositories import TWO_KERNELS as KERNELS
from tests.repositories import commit

TRACES = {
    "test_a.py::T::adds": ["aten::add.Tensor float32"],
    "test_a.py::T::both": ["aten::add.Tensor float32", "aten::mul.Tensor float32"],
    "test_a.py::T::multiplies": ["aten::mul.Tensor float32"],
    "test_b.py::T::untraced": [],
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A back end of two kernels, a run whose tests were collected, and what they call."""
    commit(
        tmp_path,
        {
            ".gitignore": "/run/\n/.spyre-ci/\n",
            "spyre-ci.yaml": "device: {name: spyre}\n",
            "spyre/kernels.py": KERNELS,
            "README.md": "words\n",
            "csrc/a.cpp": "int x;\n",
        },
    )
    tests = [
        CatalogTest(id=name, node=name, file=name.split("::")[0], cls="T", template=name.split("::")[2])
        for name in TRACES
    ]
    files = {test.file: FileRecord() for test in tests}
    write_catalog(
        tmp_path / "run/catalog.jsonl.gz",
        Catalog(pytorch="2.13.0+cpu", device="spyre", files=files, tests=tests),
    )
    traced = {name: calls for name, calls in TRACES.items() if calls}
    write_op_map(tmp_path / "opmap.json.gz", make_op_map(traced, pytorch="2.13.0", device="spyre"))
    commit(tmp_path, {"spyre/kernels.py": KERNELS.replace("a + b", "a - b")}, "break add")
    return tmp_path


def select(called: Any, checkout: Path, *words: str, **environ: str) -> tuple[int, str, Mapping[str, Any]]:
    options = ("select", "--run-dir", "run", "--percent", "100", *words)
    code, out, err = called(checkout, {"PATH": "/usr/bin:/bin", "HOME": str(checkout), **environ}, *options)
    written = checkout / "run/selection.json"
    return code, out + err, json.loads(written.read_text()) if written.is_file() else {}


def test_a_change_orders_and_leaves_nothing_out(called: Any, checkout: Path) -> None:
    code, said, selection = select(called, checkout, "--changed", "HEAD~1..HEAD", "--explain")

    assert code == 0, said
    assert sorted(selection["ids"]) == sorted(TRACES)
    change = selection["change"]
    assert list(change["named"]) == ["test_a.py::T::adds", "test_a.py::T::both", "test_b.py::T::untraced"]
    assert (change["left_out"], change["everything"], change["always"], change["untraced"]) == (0, [], 1, 1)
    table = said.partition("  place")[2].splitlines()[1:4]
    assert [(line.split()[0], line.split()[-1]) for line in table] == [
        (str(place), name) for place, name in enumerate(change["named"], 1)
    ]
    assert "add of spyre/kernels.py serves add" in table[0]


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (["--budget", "evidence"], ["adds", "both", "untraced"]),
        (["--budget", "25%"], ["adds", "untraced"]),
        (["--seconds", "0"], ["untraced"]),
    ],
)
def test_a_budget_keeps_what_can_break(
    called: Any, checkout: Path, budget: list[str], kept: list[str]
) -> None:
    recall = {budget[1]: Recall(faults=200, caught=199, median_share=0.1, mean_share=0.2)}
    write_recall(checkout / "recall.json", recall, pytorch="2.13.0", device="spyre")
    code, said, selection = select(called, checkout, "--changed", "HEAD~1..HEAD", *budget)

    assert code == 0, said
    assert [name.split("::")[2] for name in selection["ids"]] == kept
    assert selection["stage"] is None
    assert selection["change"]["left_out"] == len(TRACES) - len(kept)
    if budget[0] == "--budget":
        assert "expected recall: 99.5 % (97.2 to 99.9 %, of 200 measured faults)" in said
    else:
        assert "expected recall: unknown" in said


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ({"csrc/a.cpp": "int y;\n"}, "csrc/a.cpp is no Python source"),
        ({"opmap.json.gz": None}, "there is no op map"),
        ({"spyre/kernels.py": "def (:\n"}, "spyre/kernels.py does not parse"),
    ],
)
def test_what_cannot_be_told_keeps_everything(
    called: Any, checkout: Path, edit: Mapping[str, str | None], reason: str
) -> None:
    commit(checkout, edit)
    code, said, selection = select(called, checkout, "--changed", "HEAD~2..HEAD", "--budget", "evidence")

    assert code == 0, said
    assert sorted(selection["ids"]) == sorted(TRACES)
    assert reason in " ".join(selection["change"]["everything"])
    assert "any test may break" in said


def test_an_op_map_of_another_torch_is_not_believed(called: Any, checkout: Path) -> None:
    write_op_map(checkout / "opmap.json.gz", make_op_map(TRACES, pytorch="2.12.1", device="spyre"))
    code, said, selection = select(called, checkout, "--changed", "HEAD~1", "--budget", "5%")

    assert code == 0, said
    assert "the op map is of torch 2.12.1 on spyre, the tests are of 2.13.0+cpu on spyre" in said
    assert selection["change"]["everything"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--budget", "5%"], 2, "a budget is given without a change"),
        (["--changed", "HEAD", "--diff", "x.diff"], 2, "both --changed and --diff are given"),
        (
            ["--changed", "HEAD", "--budget", "5%", "--seconds", "3"],
            2,
            "both --budget and --seconds are given",
        ),
        (["--changed", "HEAD", "--budget", "most"], 2, "--budget is 'most'"),
        (["--changed", "HEAD", "--budget", "0%"], 2, "--budget is '0%'"),
        (["--changed", "HEAD", "--budget", "101"], 2, "--budget is '101'"),
        (["--changed", "v9..HEAD"], 2, "'v9' is no commit of this repository"),
    ],
)
def test_what_contradicts_itself_is_refused(
    called: Any, checkout: Path, words: list[str], code: int, said: str
) -> None:
    found, text, _ = select(called, checkout, *words)

    assert found == code
    assert said in text
    assert "remedy:" in text


def test_a_change_of_documents_alone_has_nothing_to_run_within_a_budget(called: Any, checkout: Path) -> None:
    write_op_map(checkout / "opmap.json.gz", make_op_map(TRACES, pytorch="2.13.0", device="spyre"))
    commit(checkout, {"README.md": "other words\n"})
    code, said, _ = select(called, checkout, "--changed", "HEAD~1..HEAD", "--budget", "evidence")

    assert code == 3
    assert "none of 4 tests can break by what changed" in said
    assert select(called, checkout, "--changed", "HEAD~1..HEAD")[0] == 0
