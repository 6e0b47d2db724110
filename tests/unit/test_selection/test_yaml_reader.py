"""YAML read as data, with the line of every key."""

from __future__ import annotations

from pathlib import Path

import pytest

from test_selection.errors import MissingInputError, SettingsError
from test_selection.yaml_reader import Document, load_document


def load(tmp_path: Path, text: str) -> Document:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return load_document(path)


def test_content_comes_with_the_line_of_each_key_and_item(tmp_path: Path) -> None:
    document = load(tmp_path, "a:\n  b: 1\n  c:\n    - x\n    - d: 2\n")
    assert document.content == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert document.line(("a", "b")) == 2
    assert document.line(("a", "c", 1, "d")) == 5
    assert document.place(("a", "c", 0)) == f"{tmp_path / 'x.yaml'}:4"


def test_a_key_that_is_not_there_has_the_line_above_it_or_none(tmp_path: Path) -> None:
    document = load(tmp_path, "a:\n  b: 1\n")
    assert document.line(("a", "zzz")) == 1
    assert document.line(("zzz",)) is None
    assert document.place(("zzz",)) == str(tmp_path / "x.yaml")


def test_an_empty_file_is_an_empty_document(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing\n").content == {}


def test_an_anchor_used_twice_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, "a: &x {k: 1}\nb: *x\n").content == {"a": {"k": 1}, "b": {"k": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", r"x\.yaml:2: is not YAML: "),
        ("a: 1\nb: 2\na: 3\n", r"x\.yaml:3: key 'a' is there twice, first on line 1"),
        ("a:\n  b: 1\n  b: 2\n", r"x\.yaml:3: key 'a\.b' is there twice, first on line 2"),
        ("- 1\n", r"x\.yaml:1: holds a list, not a table of keys"),
        ("just text\n", r"x\.yaml:1: holds a str, not a table of keys"),
        ("a: !!python/name:os.system x\n", r"x\.yaml:1: is not YAML: could not determine a constructor"),
        ("a: " + "[" * 3000 + "]" * 3000, r"x\.yaml.*: is not YAML: "),
    ],
)
def test_what_cannot_be_taken_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load(tmp_path, text)
    assert "remedy: " in str(caught.value)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load_document(tmp_path / "x.yaml")


@pytest.mark.parametrize("name", ["none.yaml", "folder"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(MissingInputError, match="there is no such file"):
        load_document(tmp_path / name)
