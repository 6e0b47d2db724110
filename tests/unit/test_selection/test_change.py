from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.catalog import CatalogTest
from test_selection.change import Evidence, RankedTests, keep_seconds, keep_share, rank_tests
from test_selection.errors import BadFileError
from test_selection.op_map import family, make_op_map, read_op_map, write_op_map


def make(name: str, op: str | None = None, file: str = "t.py") -> CatalogTest:
    return CatalogTest(id=name, node=name, file=file, cls="T", template=name.partition("[")[0], op=op)


TESTS = [
    make("wide", "cat"),
    make("narrow", "cat"),
    make("own[1]", "add"),
    make("own[2]", "add"),
    make("own[3]", "add"),
    make("other"),
    make("edited", file="edited.py"),
    make("importing", file="importing.py"),
    make("python"),
    make("untraced"),
]
TRACES = {
    "wide": ["aten::add_.Tensor float32", "aten::mul.Tensor float32", "aten::sum float32", "aten::neg int8"],
    "narrow": ["aten::add.Tensor int8"],
    "own[1]": ["aten::add.Tensor float32"],
    "own[2]": ["aten::add.Tensor float32"],
    "own[3]": ["aten::add.Tensor float64"],
    "other": ["aten::mul.Tensor float32"],
    "edited": ["aten::mul.Tensor float32"],
    "importing": ["aten::mul.Tensor float32"],
    "python": ["torch/functional.py:norm", "torch/functional.py:other"],
}
OP_MAP = make_op_map(
    {name: [*calls, "torch/testing/run.py:run"] for name, calls in TRACES.items()},
    pytorch="2.13.0",
    device="spyre",
)
EVIDENCE = Evidence(
    files={"edited.py": "changed"},
    helpers={"importing.py": "imports"},
    ops={"add": "kernel"},
    functions={"torch/functional.py:norm": "changed"},
)
ORDER = ["edited", "importing", "own[1]", "own[3]", "narrow", "wide", "own[2]", "python", "untraced", "other"]


def test_the_likeliest_come_first() -> None:
    ranked = rank_tests(TESTS, EVIDENCE, OP_MAP)

    assert ranked.ids == ORDER
    assert ranked.named == ORDER[:-1]
    assert ranked.always == {"edited", "untraced"}
    assert ranked.reasons["wide"] == "kernel"


def test_what_failed_comes_first_and_what_is_in_quarantine_last() -> None:
    ranked = rank_tests(TESTS, EVIDENCE, OP_MAP, failed=["wide", "other"], quarantined=["edited"])

    assert ranked.ids[0] == "wide"
    assert ranked.ids.index("edited") == len(ranked.reasons) - 1
    assert "other" not in ranked.named  # a failure names nothing that the change does not


def test_a_whole_file_of_torch_names_every_test_that_calls_into_it() -> None:
    ranked = rank_tests(TESTS, Evidence(functions={"torch/functional.py:*": "constant"}), OP_MAP)

    assert ranked.named == ["python", "untraced"]


def test_a_test_whose_functions_were_not_noted_is_always_in_where_these_changed() -> None:
    op_map = make_op_map(TRACES, pytorch="2.13.0", device="spyre")
    ranked = rank_tests(TESTS, Evidence(functions={"torch/functional.py:norm": "changed"}), op_map)

    assert ranked.named[0] == "python"
    assert sorted(ranked.named) == sorted(test.id for test in TESTS)
    assert rank_tests(TESTS, Evidence(ops={"neg": "kernel"}), op_map).named == ["wide", "untraced"]


def test_where_anything_may_break_all_are_named_in_order() -> None:
    ranked = rank_tests(TESTS, Evidence(everything=["C++"], ops={"add": "kernel"}), OP_MAP)

    assert ranked.named == ranked.ids
    assert sorted(ranked.ids) == sorted(test.id for test in TESTS)
    assert ranked.ids[:2] == ["own[1]", "own[3]"]


@pytest.mark.parametrize(
    ("op", "family"),
    [
        ("nn.functional.relu", "relu"),
        ("linalg.det", "_linalg_det"),
        ("masked.logsumexp", "logsumexp"),
        ("div.floor_rounding", "div"),
        ("__rmul__", "rmul"),
    ],
)
def test_a_test_about_an_op_is_named_though_its_trace_lacks_it(op: str, family: str) -> None:
    evidence = Evidence(ops={family: "kernel"})
    op_map = make_op_map({"a": [], "b": []}, pytorch="2.13.0", device="spyre")

    assert rank_tests([make("a", "cat"), make("b", op)], evidence, op_map).named == ["b"]


@pytest.mark.parametrize("percent", [1, 25])
def test_where_anything_may_break_no_budget_leaves_a_test_out(percent: float) -> None:
    ranked = rank_tests(TESTS, Evidence(everything=["C++"]), OP_MAP)

    assert keep_share(ranked, percent) == keep_seconds(ranked, 0, {}, unknown_s=1) == ranked.ids


RANKED = RankedTests(ids=list("abcdefgh"), reasons=dict.fromkeys("abcd", ""), always=frozenset("dg"))


@pytest.mark.parametrize(("percent", "kept"), [(1, "adg"), (12.5, "adg"), (25, "abdg"), (100, "abcdg")])
def test_a_share_cuts_the_ranked_tests_and_keeps_what_is_always_in(percent: float, kept: str) -> None:
    assert keep_share(RANKED, percent) == list(kept)


@pytest.mark.parametrize(("budget", "kept"), [(0, "dg"), (4, "adg"), (5.5, "abdg"), (100, "abcdg")])
def test_seconds_cut_the_ranked_tests_and_count_what_is_always_in(budget: float, kept: str) -> None:
    assert keep_seconds(RANKED, budget, {"d": 1, "g": 1, "a": 2}, unknown_s=1) == list(kept)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("aten::add.Tensor float32", "add"),
        ("aten::add_.Scalar int8", "add"),
        ("aten::__and__.Tensor bool", "__and__"),
        ("aten::_softmax", "_softmax"),
        ("quantized::add int8", "quantized::add"),
        ("add.Tensor", "add"),
    ],
)
def test_the_family_of_an_op(call: str, name: str) -> None:
    assert family(call) == name


def test_an_op_map_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_op_map(tmp_path / "m.json.gz", OP_MAP)

    assert read_op_map(tmp_path / "m.json.gz") == OP_MAP
    assert OP_MAP.of["own[1]"] == OP_MAP.of["own[2]"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"ops": ["a"], "sets": [[1]], "of": {}', "sets names place 1, and there are 1"),
        ('"ops": ["a"], "sets": [[0]], "of": {"t": 4}', "of names place 4, and there are 1"),
        ('"ops": ["a"], "sets": [[-1]], "of": {}', "`$.sets[0][0]`"),
        ('"ops": ["a"], "sets": 3, "of": {}', "`$.sets`"),
    ],
)
def test_an_op_map_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "m.json"
    head = '"schema": "spyre-ci/opmap/1", "pytorch": "2", "device": "spyre"'
    path.write_text(f"{{{head}, {text}}}")

    with pytest.raises(BadFileError) as caught:
        read_op_map(path)
    assert said in str(caught.value)
    assert "spyre-ci history export --op-map" in str(caught.value)
