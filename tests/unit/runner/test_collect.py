from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ci.runner.collect import CollectCache, collection_key


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "pt"
    (root / "test").mkdir(parents=True)
    (root / "test" / "test_a.py").write_text("import helper\n", encoding="utf-8")
    (root / "test" / "helper.py").write_text("x = 1\n", encoding="utf-8")
    return root


def cache(tree: Path, key: str = "k") -> CollectCache:
    return CollectCache(folder=tree.parent / "cache", root=tree, tests=tree / "test", key=key)


RECORD: dict[str, Any] = {"file": "test_a.py", "modules": ["test/test_a.py", "test/helper.py"], "tests": []}


def test_what_was_put_is_got_while_nothing_changes(tree: Path) -> None:
    assert cache(tree).get("test_a.py") is None
    cache(tree).put("test_a.py", RECORD)
    found = cache(tree).get("test_a.py")
    assert found is not None
    assert found["modules"] == RECORD["modules"]


def test_a_file_whose_name_is_no_utf_8_is_kept_by_itself(tree: Path) -> None:
    first, second = (os.fsdecode(name) for name in (b"test_\xff.py", b"test_\xfe.py"))
    for name in (first, second):
        (tree / "test" / name).touch()
    cache(tree).put(first, {**RECORD, "file": first})
    found = cache(tree).get(first)
    assert found is not None
    assert found["file"] == first
    assert cache(tree).get(second) is None


@pytest.mark.parametrize("changed", ["test_a.py", "helper.py"])
def test_a_change_of_the_file_or_of_a_helper_it_imports_is_a_miss(tree: Path, changed: str) -> None:
    cache(tree).put("test_a.py", RECORD)
    (tree / "test" / changed).write_text("y = 2\n", encoding="utf-8")
    assert cache(tree).get("test_a.py") is None


def test_another_key_is_a_miss(tree: Path) -> None:
    cache(tree).put("test_a.py", RECORD)
    assert cache(tree, "other").get("test_a.py") is None


def test_a_broken_record_is_a_miss_and_is_written_anew(tree: Path) -> None:
    cache(tree).put("test_a.py", RECORD)
    (record,) = (tree.parent / "cache").rglob("*.json.gz")
    record.write_bytes(b"cut")
    assert cache(tree).get("test_a.py") is None
    cache(tree).put("test_a.py", RECORD)
    assert cache(tree).get("test_a.py") is not None


def test_the_key_follows_device_files_and_the_variables_test_code_reads(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text("a", encoding="utf-8")

    def key(environ: dict[str, str], device: str = "spyre") -> str:
        return collection_key(environ, device=device, extra=[file])

    base = key({})
    assert key({"HOME": "x", "LANG": "C"}) == base
    assert key({"PYTORCH_TEST_WITH_SLOW": "1"}) != base
    assert key({"CI": "1"}) != base
    assert key({}, device="cpu") != base
    file.write_text("b", encoding="utf-8")
    assert key({}) != base
