"""The catalog comes back as it was written, and a broken one is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.catalog import Catalog, CatalogTest, FileRecord, read_catalog, write_catalog
from test_selection.errors import BadFileError, MissingInputError

HEADER = {
    "schema": "spyre-ci/catalog/1",
    "pytorch": "p",
    "device": "d",
    "files": {"a.py": {"collect_s": 1, "error": None}},
}
ROW = {"id": "i", "node": "n", "file": "a.py", "class": "C", "template": "t", "op": None, "dtype": None}

maybe = st.none() | st.text(min_size=1)
catalog_tests = st.builds(
    CatalogTest,
    id=st.text(),
    node=st.text(),
    file=st.text(),
    cls=st.text(),
    template=st.text(),
    op=maybe,
    dtype=maybe,
    markers=st.lists(st.text(), max_size=2).map(tuple),
)
catalogs = st.builds(
    Catalog,
    pytorch=st.text(),
    device=st.text(),
    files=st.dictionaries(
        st.text(), st.builds(FileRecord, collect_s=st.integers(0, 10**6).map(lambda n: n / 1000), error=maybe)
    ),
    tests=st.lists(catalog_tests, unique_by=lambda test: test.id, max_size=5),
)


def write(path: Path, *rows: Any) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(catalogs)
def test_a_catalog_comes_back(tmp_path: Path, catalog: Catalog) -> None:
    write_catalog(tmp_path / "c.jsonl.gz", catalog)
    assert read_catalog(tmp_path / "c.jsonl.gz") == catalog


def test_markers_are_written_only_where_there_are_any(tmp_path: Path) -> None:
    tests = [
        CatalogTest(id="a", node="a", file="a.py", markers=("serial",)),
        CatalogTest(id="b", node="b", file="a.py"),
    ]
    write_catalog(tmp_path / "c.jsonl.gz", Catalog(pytorch="p", device="d", tests=tests))
    _, *rows = gzip.decompress((tmp_path / "c.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(row).get("markers") for row in rows] == [["serial"], None]


@pytest.mark.parametrize("markers", ["serial", [3], {"serial": 1}, None])
def test_markers_that_are_no_list_of_text_are_refused(tmp_path: Path, markers: Any) -> None:
    path = write(tmp_path / "c.jsonl.gz", HEADER, {**ROW, "markers": markers})
    with pytest.raises(BadFileError, match="not a list of text"):
        read_catalog(path)


def test_files_that_failed_are_its_collect_errors() -> None:
    files = {"a.py": FileRecord(collect_s=1.0), "b.py": FileRecord(error="ImportError: x")}
    assert Catalog(pytorch="p", device="d", files=files).collect_errors == {"b.py": "ImportError: x"}


def test_seconds_are_kept_to_the_millisecond(tmp_path: Path) -> None:
    catalog = Catalog(pytorch="p", device="d", files={"a.py": FileRecord(collect_s=1.23456)})
    write_catalog(tmp_path / "c.gz", catalog)
    assert read_catalog(tmp_path / "c.gz").files["a.py"].collect_s == 1.235


def test_repeated_names_are_one_string_in_memory(tmp_path: Path) -> None:
    first, second = read_catalog(
        write(tmp_path / "c.gz", HEADER, {**ROW, "op": "add_x"}, {**ROW, "id": "j", "op": "add_x"})
    ).tests
    assert first.file is second.file
    assert first.op is second.op


@pytest.mark.parametrize("key", ["id", "node", "file", "class", "template", "op", "dtype"])
def test_a_test_without_a_key_is_refused_by_line(tmp_path: Path, key: str) -> None:
    row = {name: value for name, value in ROW.items() if name != key}
    path = write(tmp_path / "c.gz", HEADER, ROW, row)
    with pytest.raises(
        BadFileError, match=rf"c\.gz:3: a key is missing or of the wrong kind: '{key}'"
    ) as caught:
        read_catalog(path)
    assert "collect again" in str(caught.value)


@pytest.mark.parametrize("key", ["pytorch", "device", "files"])
def test_a_header_without_a_key_is_refused(tmp_path: Path, key: str) -> None:
    header = {name: value for name, value in HEADER.items() if name != key}
    with pytest.raises(BadFileError, match=f"a key is missing or of the wrong kind: '{key}'"):
        read_catalog(write(tmp_path / "c.gz", header, ROW))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ({**HEADER, "files": {"a.py": {"collect_s": "x"}}}, ROW),
        ({**HEADER, "files": []}, ROW),
        ({**HEADER, "files": {"a.py": {"collect_s": -1}}}, ROW),
        ({**HEADER, "files": {"a.py": {"collect_s": float("nan")}}}, ROW),
        (HEADER, {**ROW, "file": 3}),
        (HEADER, {**ROW, "id": 3}),
        (HEADER, []),
        (HEADER, 3),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, header: Any, row: Any) -> None:
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        read_catalog(write(tmp_path / "c.gz", header, row))


def test_an_id_that_stands_twice_is_refused_by_line(tmp_path: Path) -> None:
    path = write(tmp_path / "c.gz", HEADER, ROW, {**ROW, "id": "j"}, ROW)
    with pytest.raises(BadFileError, match=r"c\.gz:4: the id 'i' is there twice"):
        read_catalog(path)


def test_a_catalog_cut_short_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.gz", HEADER, *({**ROW, "id": str(number)} for number in range(5000)))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(BadFileError, match="truncated"):
        read_catalog(path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="schema is 'spyre-ci/catalog/2', not 'spyre-ci/catalog/1'"):
        read_catalog(write(tmp_path / "c.gz", {**HEADER, "schema": "spyre-ci/catalog/2"}))


def test_a_missing_catalog_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no catalog file"):
        read_catalog(tmp_path / "none.gz")
