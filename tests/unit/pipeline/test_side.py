from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError
from ci.pipeline.side import read_known, side_of, with_catalog
from ci.pipeline.told import RanWith, Row, Told, Uncollected, Who
from ci.record.verdict import Verdict
from tests.unit.report.compare.making import add_catalog

WHO = Who(device="spyre", pytorch_version="2.13.0", pytorch_sha="a" * 40, percent=5, stage=1)


def told(**content: Any) -> Told:
    return Told(run="r", rows=[], who=content.pop("who", WHO), exit_code=0, **content)


def test_another_version_of_the_back_end_is_what_is_under_test_and_no_other_back_end() -> None:
    ran = [RanWith(back_end="torch_spyre 1.2.dev3 at 0123456789ab", torch="2.13.0")]
    side = side_of(told(ran_in=ran))
    assert side.facts["back end"] == "torch_spyre"
    assert side.facts["torch in the tests"] == "2.13.0"
    assert side.under_test == "torch_spyre 1.2.dev3 at 0123456789ab"
    who = Who(
        device="spyre", pytorch_version="2", pytorch_sha="", percent=5, back_end="the emulated device",
        commit="f" * 40, started_at="2026-02-02T00:00:00Z",
    )  # fmt: skip
    side = side_of(told(who=who))
    assert side.facts["back end"] == "the emulated device"
    assert side.under_test == "the emulated device, checkout ffffffffffff"
    assert side.started_at == 1_769_990_400.0


def test_what_has_no_outcome_is_counted() -> None:
    rows = [Row(id=one.value, verdict=one) for one in Verdict]
    error = Uncollected(file="a.py", error="x")
    side = side_of(Told(run="r", rows=rows, who=WHO, exit_code=3, collect_errors=[error]))
    assert side.lacking == "3 tests without an outcome, 1 file not collected"
    assert side_of(told()).lacking == ""
    assert side_of(told()).started_at is None


def test_a_catalog_says_which_tests_there_are_and_which_files_it_could_not_collect(tmp_path: Path) -> None:
    add_catalog(tmp_path, ["a%3Ab.py::t", "c.py::t"], {"x:y.py": "ImportError"})
    known = with_catalog(told(), tmp_path).known
    assert known is not None
    assert known.ids == {"a%3Ab.py::t", "c.py::t"}
    assert known.files == {"a%3Ab.py", "c.py", "x%3Ay.py"}
    assert known.broken == {"x%3Ay.py": "ImportError"}
    assert not known.partial
    who = Who(device="spyre", pytorch_version="2", pytorch_sha="", percent=5, restricted="files a.py")
    assert with_catalog(told(who=who), tmp_path).known == read_known(
        tmp_path / "catalog.jsonl.gz", partial=True
    )
    assert with_catalog(told(), tmp_path / "nowhere").known is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "is not what it has to be"),
        ([{"schema": "spyre-ci/plan/1", "files": {}}], "schema is 'spyre-ci/plan/1'"),
        ([{"schema": "spyre-ci/catalog/1", "files": []}], "is not what it has to be"),
        ([{"schema": "spyre-ci/catalog/1", "files": {}}, {"id": 3}], "is not what it has to be"),
        ([{"schema": "spyre-ci/catalog/1", "files": {}}, []], "is not what it has to be"),
    ],
)
def test_what_is_no_catalog_is_refused(lines: list[Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "catalog.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode()))
    with pytest.raises(BadFileError, match=said):
        read_known(path, partial=False)


def test_a_catalog_of_more_tests_than_agreed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.pipeline.side.MAX_TESTS", 2)
    add_catalog(tmp_path, [f"a.py::t{number}" for number in range(3)])
    with pytest.raises(BadFileError, match="has more than 2 tests"):
        with_catalog(told(), tmp_path)
