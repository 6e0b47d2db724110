from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from ci.changes.measure import recall_of, run_faults, sample_faults, weigh
from ci.changes.mutants import mutants
from test_selection.change import RankedTests
from test_selection.errors import BadFileError
from test_selection.recall import read_recall, write_recall

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
    found = list(mutants(SOURCE))

    assert Counter(one.kind for one in found) == {
        "arithmetic": 3,
        "comparison": 2,
        "condition": 2,
        "negation": 2,
        "arguments": 1,
        "constant": 2,
        "return": 3,
    }
    texts = [one.put_into(SOURCE) for one in found]
    assert len(set(texts)) == len(texts)
    for text in texts:
        ast.parse(text)
        assert '"""Ä module."""\nLIMIT = 3\n' in text
        assert len(text.splitlines()) == len(SOURCE.splitlines())


def test_a_sample_is_the_same_for_a_seed_and_longer_ones_go_on_with_it() -> None:
    sources = {"b.py": SOURCE, "a.py": SOURCE}

    few, many = (sample_faults(sources, number=number, seed=3) for number in (5, 12))
    assert many[:5] == few
    assert sample_faults(sources, number=5, seed=4) != few
    assert len({fault.name for fault in sample_faults(sources, number=99, seed=3)}) == 30


def test_a_measurement_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    faults, log, said = sample_faults({"a.py": SOURCE}, number=4, seed=1), tmp_path / "log.jsonl", list[str]()
    asked = []

    def run(fault: object) -> list[str]:
        asked.append(fault)
        return ["t1"] if len(asked) % 2 else []

    first = run_faults(faults[:2], run, log, say=said.append)
    with log.open("a") as stream:
        stream.write('{"fault": "cut o')
    second = run_faults(faults, run, log, say=said.append, workers=2)

    assert first == second[:2] == [{"t1"}, set()]
    assert len(asked) == 4
    assert said[-1].startswith("4 of 4: a.py:")


RANKED = RankedTests(ids=list("abcdefgh"), reasons=dict.fromkeys("abc", ""), always=frozenset("h"))


def test_what_is_kept_is_compared_with_what_fails(tmp_path: Path) -> None:
    one = weigh(RANKED, {"c", "g"}, ["add"])
    other = weigh(RANKED, {"g"}, ["add"])

    assert one.caught == {"evidence": 1, "2%": 0, "5%": 0, "25%": 0}
    assert one.shares == {"evidence": 3 / 8, "2%": 1 / 8, "5%": 1 / 8, "25%": 2 / 8}
    assert (one.failed, one.first, one.always, other.first) == (2, 3, 1 / 8, 7)
    recall = recall_of([one, other, weigh(RANKED, set(), [])])
    assert (recall["evidence"].faults, recall["evidence"].caught) == (2, 1)
    write_recall(tmp_path / "recall.json", recall, pytorch="2.13.0", device="spyre")
    assert read_recall(tmp_path / "recall.json") == recall
    assert recall["evidence"].words == "expected recall: 50.0 % (9.5 to 90.5 %, of 2 measured faults)"


def test_a_recall_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema": "spyre-ci/recall/1", "budgets": {"5%": {"faults": "many"}}}')

    with pytest.raises(BadFileError, match="spyre-ci changes measure"):
        read_recall(tmp_path / "r.json")
