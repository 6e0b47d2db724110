"""Files are written whole or not at all, and read only when they are what their name promises."""

from __future__ import annotations

import errno
import gc
import gzip
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from test_selection import files
from test_selection.errors import BadFileError, MissingInputError, UsageError
from test_selection.files import (
    atomic_writer,
    collector_paused,
    document_text,
    json_text,
    read_json,
    read_lines,
    schema_name,
    write_json,
    write_lines,
    write_text,
)


def test_a_schema_names_kind_and_version() -> None:
    assert schema_name("plan") == "spyre-ci/plan/1"
    assert schema_name("plan", 2) == "spyre-ci/plan/2"


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with atomic_writer(path) as stream:
        stream.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_writer(path) as stream:
        stream.writelines([b"half", "text"])  # type: ignore[list-item]  # fails half way
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folders_are_made_and_the_mode_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "token"
    write_text(path, "secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_text(path, "open")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_text_with_lone_surrogates_is_written_readably(tmp_path: Path) -> None:
    write_text(tmp_path / "x", "a\udcffb")
    assert (tmp_path / "x").read_bytes() == b"a\\udcffb"


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_a_document_comes_back(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / name, "plan", {"a": [1, "é\ud800"]})
    assert read_json(tmp_path / name, "plan") == {"schema": "spyre-ci/plan/1", "a": [1, "é\ud800"]}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_json(tmp_path / name, "plan", {"a": 1})
        write_lines(tmp_path / f"lines-{name}", "catalog", {}, [{"b": 2}])
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert (tmp_path / "lines-a.json.gz").read_bytes() == (tmp_path / "lines-b.json.gz").read_bytes()


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097])
def test_lines_come_back_header_first(tmp_path: Path, count: int) -> None:
    rows = [{"n": number} for number in range(count)]
    write_lines(tmp_path / "x.gz", "catalog", {"device": "spyre"}, iter(rows))
    header, *read = read_lines(tmp_path / "x.gz", "catalog")
    assert header == {"schema": "spyre-ci/catalog/1", "device": "spyre"}
    assert read == rows


def test_plain_lines_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"schema": "spyre-ci/catalog/1"}\n{"n": 1}\n')
    assert [row.get("n") for row in read_lines(tmp_path / "x.jsonl", "catalog")] == [None, 1]


@pytest.mark.parametrize("name", ["none.json", "folder", "file/x.json"])
def test_a_missing_file_is_named_with_its_kind(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingInputError, match="there is no plan file") as caught:
        read_json(tmp_path / name, "plan")
    assert "run the step before it first" in str(caught.value)
    with pytest.raises(MissingInputError, match="there is no catalog file"):
        list(read_lines(tmp_path / name, "catalog"))


@pytest.mark.parametrize(
    "content", ['{"schema": "spyre-ci/plan/2"}', '{"schema": "spyre-ci/catalog/1"}', "{}", "[]", "3"]
)
def test_another_schema_is_refused(tmp_path: Path, content: str) -> None:
    seen = content.rpartition(" ")[2].strip('"}') if "schema" in content else None
    (tmp_path / "x.json").write_text(content)
    readers: list[Callable[[], object]] = [
        lambda: read_json(tmp_path / "x.json", "plan"),
        lambda: list(read_lines(tmp_path / "x.json", "plan")),
    ]
    for read in readers:
        with pytest.raises(BadFileError) as caught:
            read()
        assert f"schema is {seen!r}, not 'spyre-ci/plan/1'" in str(caught.value)
        assert "name a plan file" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.json", b'{"schema": '),
        ("x.json", b""),
        ("x.json", b"[" * 100_000),
        ("x.json", b"\xff\xfe"),
        ("x.json.gz", b"not gzip at all"),
        ("x.json.gz", gzip.compress(b'{"schema": "spyre-ci/plan/1"}', mtime=0)[:-9]),
        ("x.json.gz", b""),
    ],
)
def test_what_is_not_json_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadFileError, match="cannot be read as JSON") as caught:
        read_json(tmp_path / name, "plan")
    assert "write the plan file again" in str(caught.value)


def test_a_document_with_a_broken_byte_inside_the_compression_is_refused(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(json.dumps({"schema": "spyre-ci/plan/1", "a": list(range(999))}).encode()))
    data[20:40] = b"\xff" * 20
    (tmp_path / "x.gz").write_bytes(data)
    with pytest.raises(BadFileError, match="cannot be read as JSON"):
        read_json(tmp_path / "x.gz", "plan")
    with pytest.raises(BadFileError, match="cannot be read"):
        list(read_lines(tmp_path / "x.gz", "plan"))


def test_lines_that_were_cut_short_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    write_lines(path, "catalog", {}, ({"n": number} for number in range(20_000)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadFileError, match="cannot be read: ") as caught:
        list(read_lines(path, "catalog"))
    assert "truncated or is not a catalog" in str(caught.value)


def test_a_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"schema": "spyre-ci/catalog/1"}\n{}\n{"n": \n')
    with pytest.raises(BadFileError, match=r"x\.jsonl:3: cannot be read"):
        list(read_lines(tmp_path / "x.jsonl", "catalog"))


def test_a_file_without_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("")
    with pytest.raises(BadFileError, match="is empty"):
        list(read_lines(tmp_path / "x.jsonl", "catalog"))


def test_only_a_file_is_ever_replaced(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("pipe", "fifo"):
        with pytest.raises(UsageError, match=f"{name}: exists and is not a file"):
            write_text(tmp_path / name, "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "pipe"]


def test_a_disk_that_fills_is_told_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"x\.json") as caught, atomic_writer(tmp_path / "x.json"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_be_read_is_not_called_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(files, "open_regular", refuse)
    with pytest.raises(PermissionError):
        read_json(tmp_path / "x.json", "plan")
    with pytest.raises(PermissionError):
        next(read_lines(tmp_path / "x.jsonl", "catalog"))


@pytest.mark.parametrize("on_one_line", [True, False])
def test_what_a_verb_prints_is_no_command_of_a_runner_of_ci(*, on_one_line: bool) -> None:
    told = {"message": "##[error]not mine", "path": Path("a")}
    text = document_text("x", told, on_one_line=on_one_line)
    assert "##[" not in text
    assert json.loads(text) == {"schema": "spyre-ci/x/1", "message": told["message"], "path": "a"}
    assert json_text(json.loads(text), on_one_line=on_one_line) == text
    assert (len(text.splitlines()) == 1) is on_one_line


def test_the_collector_rests_and_runs_again_after_an_error() -> None:
    assert gc.isenabled()
    seen = []

    def fail() -> None:
        with collector_paused():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
