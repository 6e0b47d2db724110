from __future__ import annotations

import ast
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ci.changes.measure import read_log, recall_of, run_faults, sample_faults, weigh
from ci.changes.mutants import faults_of
from ci.core.errors import BadFileError
from test_selection.change import RankedTests
from test_selection.recall import read_recall, write_recall
from tests.benchmarks.fault_table import lines, row

SOURCE = '''
"""Ä module."""
LIMIT = 3
def kernel(a, b, *, keep=True):
    """Dö it."""
    if a < b and not keep:
        return max(-a, b)
    return a + b * 2 if a is b else (a, "x")
class Layer:
    def run(self):
        return self.size // 2
'''


def test_each_operator_makes_its_faults() -> None:
    found = list(faults_of("a.py", SOURCE.encode()))

    assert Counter(one.kind for one in found) == {
        "arithmetic": 3,
        "comparison": 2,
        "condition": 2,
        "negation": 2,
        "arguments": 1,
        "constant": 2,
        "return": 3,
    }
    texts = [one.text for one in found]
    assert len(set(texts)) == len(texts)
    for text in texts:
        ast.parse(text)
        assert '"""Ä module."""\nLIMIT = 3\n' in text
        assert len(text.splitlines()) == len(SOURCE.splitlines())


@pytest.mark.parametrize(
    "content",
    [
        b"# one\x0c\n\x0cdef f(a, b):\n    return a + b\n",
        "# one\u2028two\x1c\ndef f(a, b):\n    return a + b\n".encode(),
        b"# one\r\ndef f(a, b):\r\n    return a + b\r\n",
        b"# one\rdef f(a, b):\r    return a + b\r",
    ],
)
def test_lines_end_where_python_ends_them(content: bytes) -> None:
    texts = [one.text for one in faults_of("a.py", content) if one.kind == "arithmetic"]

    assert len(texts) == 1
    assert ast.unparse(ast.parse(texts[0])) == "def f(a, b):\n    return a - b"


@pytest.mark.parametrize("content", [b"def f(:\n", b"# caf\xe9\n", b"a = '\0'\n"])
def test_what_is_no_python_is_refused_with_its_file(content: bytes) -> None:
    with pytest.raises(BadFileError, match=r"spyre/a\.py: is no Python"):
        sample_faults({"spyre/a.py": content}, number=1, seed=0)


def test_a_sample_is_the_same_for_a_seed_and_longer_ones_go_on_with_it() -> None:
    sources = {"b.py": SOURCE.encode(), "a.py": SOURCE.encode()}

    few, many = (sample_faults(sources, number=number, seed=3) for number in (5, 12))
    assert many[:5] == few
    assert sample_faults(sources, number=5, seed=4) != few
    assert len({fault.name for fault in sample_faults(sources, number=99, seed=3)}) == 30
    # Logs of earlier measurements are found again by these.
    assert [fault.name for fault in few[:2]] == NAMES


NAMES = ["b.py:8 constant ba1853d3", "b.py:8 return d3045a34"]


def test_a_measurement_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    faults, said = sample_faults({"a.py": SOURCE.encode()}, number=4, seed=1), list[str]()
    asked, log = [], tmp_path / "log.jsonl"

    def run(fault: object) -> list[str]:
        asked.append(fault)
        return ["t1"] if len(asked) % 2 else []

    first = run_faults(faults[:2], run, log, say=said.append)
    with log.open("a") as stream:
        stream.write('{"fault": "cut o')
    second = run_faults(faults[:3], run, log, say=said.append)
    third = run_faults(faults, run, log, say=said.append)

    assert first == second[:2] == [{"t1"}, set()]
    assert third[:3] == second
    assert asked == faults
    assert said[-1].startswith("4 of 4: a.py:")
    assert json.loads(log.read_text().splitlines()[0]) == {"fault": faults[0].name, "failed": ["t1"]}


@pytest.mark.parametrize(
    "line",
    [b'{"fault": "cut o', b"[]", b"7", b'{"fault": "b"}', b'{"failed": []}', b'{"fault": "b", "failed": 3}',
     b'{"fault": [], "failed": []}', b'{"fault": "b", "failed": [{}]}', b'{"fault": "\xff", "failed": []}'],
)  # fmt: skip
def test_a_line_of_the_log_that_is_none_counts_as_not_run(tmp_path: Path, line: bytes) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(line + b'\n{"fault": "a", "failed": ["t1"]}\n' + line)

    assert read_log(log) == {"a": {"t1"}}


RANKED = RankedTests(ids=list("abcdefgh"), reasons=dict.fromkeys("abc", ""), always=frozenset("h"))
ANY = replace(RANKED, everything=("setup.py changed",))


def test_what_is_kept_is_compared_with_what_fails(tmp_path: Path) -> None:
    one, other = weigh(RANKED, {"c", "g"}), weigh(RANKED, {"g"})

    assert (one.failed, one.everything) == (2, False)
    assert one.caught == {"evidence": 1, "2%": 0, "5%": 0, "25%": 0}
    assert one.shares == {"evidence": 3 / 8, "2%": 1 / 8, "5%": 1 / 8, "25%": 2 / 8}
    # What survives says nothing, nor does a change that any test may be broken by.
    recall = recall_of([one, other, weigh(RANKED, set()), weigh(ANY, {"c"})])
    assert (recall["evidence"].faults, recall["evidence"].caught) == (2, 1)
    write_recall(tmp_path / "recall.json", recall, pytorch="2.13.0", device="spyre")
    assert read_recall(tmp_path / "recall.json") == recall
    assert recall["evidence"].words == "expected recall: 50.0 % (9.5 to 90.5 %, of 2 measured faults)"


@pytest.mark.parametrize("ranked", [[], [ANY]])
def test_no_recall_is_stated_of_no_fault_that_counts(ranked: list[RankedTests]) -> None:
    assert recall_of([weigh(one, {"a"}) for one in ranked]) == {}


def test_a_table_has_faults_of_any_test_apart() -> None:
    faults = sample_faults({"a.py": SOURCE.encode()}, number=4, seed=1)
    orders = [(RANKED, {"c"}), (RANKED, {"g"}), (ANY, {"g"}), (RANKED, set[str]())]
    said = lines([row(ranked, failed, ["add"]) for ranked, failed in orders], faults, 8)

    assert said[:2] == ["4 faults, 3 found by a full run of 8 tests", "resolved to any test: 1"]
    assert said[2].startswith(" evidence: 1/2 changes (50.00 %")
    assert said[3].startswith(" evidence, with those of any test: 2/3 changes (66.67 %")
    assert "first failing test: median 7, 90th percentile 7 (87.50 % of 8)" in said
    assert f"missed: {faults[1].name}: 0 of 1 failing tests" in said


def test_a_recall_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema": "spyre-ci/recall/1", "budgets": {"5%": {"faults": "many"}}}')

    with pytest.raises(BadFileError, match="spyre-ci changes measure"):
        read_recall(tmp_path / "r.json")
