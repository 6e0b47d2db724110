"""Claims in a folder: first come, whole lines, and folders that go or hold strange things."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ci.runner.claims.folder import FolderStore
from ci.runner.claims.store import StoreLostError


def joined(path: Path, me: str) -> FolderStore:
    made = FolderStore(path, me)
    assert made.begin("terms") == "terms"
    return made


def test_the_first_claim_stands_and_names_its_host(tmp_path: Path) -> None:
    a, b = joined(tmp_path / "run", "a"), joined(tmp_path / "run", "b")
    assert (a.put("3/17.1", "a"), b.put("3/17.1", "b"), a.put("3/17.1", "a")) == ("a", "a", "a")
    assert b.put("3/17.2", "b") == "b"


def test_the_terms_of_the_first_host_stand(tmp_path: Path) -> None:
    joined(tmp_path / "run", "a")
    assert FolderStore(tmp_path / "run", "b").begin("others") == "terms"


def test_every_line_of_others_is_heard_once_and_in_order(tmp_path: Path) -> None:
    a, b = joined(tmp_path, "a"), joined(tmp_path, "b")
    a.say("1")
    b.say("mine")
    assert b.hear() == [("a", "1")]
    a.say("2")
    a.say("3")
    assert b.hear() == [("a", "2"), ("a", "3")]
    assert b.hear() == []
    assert joined(tmp_path, "c").hear() == [("a", "1"), ("a", "2"), ("a", "3"), ("b", "mine")]


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    a, b = joined(tmp_path, "a"), joined(tmp_path, "b")
    a.say("1")
    (log,) = tmp_path.glob("*/hosts/a.jsonl")
    with log.open("a") as stream:
        stream.write("hal")
    assert b.hear() == [("a", "1")]
    with log.open("a") as stream:
        stream.write("f\n")
    assert b.hear() == [("a", "half")]


@pytest.mark.parametrize("kind", ["empty file", "folder"])
def test_what_is_no_link_is_a_claim_of_nobody(tmp_path: Path, kind: str) -> None:
    store = joined(tmp_path, "a")
    store.put("0/1.1", "a")
    (claims,) = tmp_path.glob("*/claims/0")
    strange = claims / "2.1"
    strange.touch() if kind == "empty file" else strange.mkdir()
    assert store.put("0/2.1", "a") == ""


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_was_removed_is_lost_also_where_another_run_began_there(
    tmp_path: Path, again: bool
) -> None:
    store = joined(tmp_path / "run", "a")
    shutil.rmtree(tmp_path / "run")
    if again:
        joined(tmp_path / "run", "b")
    for act in (lambda: store.put("0/1.1", "a"), lambda: store.say("x")):
        with pytest.raises(StoreLostError, match="No such file"):
            act()


def test_strange_files_among_the_hosts_are_nobodys_words(tmp_path: Path) -> None:
    store = joined(tmp_path, "a")
    (hosts,) = tmp_path.glob("*/hosts")
    (hosts / "README").write_text("hello\n")
    (hosts / "b.jsonl").write_bytes(b"\xff\xfe\n")
    assert store.hear() == [("b", "\ufffd\ufffd")]


def test_what_was_written_in_part_does_not_spoil_the_next_line(tmp_path: Path) -> None:
    a, b = joined(tmp_path, "a"), joined(tmp_path, "b")
    a._torn = True
    a.say("whole")
    assert [line for _, line in b.hear() if line] == ["whole"]


def test_what_was_heard_before_a_file_could_not_be_read_is_not_lost(tmp_path: Path) -> None:
    a, b = joined(tmp_path, "a"), joined(tmp_path, "b")
    a.say("1")
    (hosts,) = tmp_path.glob("*/hosts")
    (hosts / "z.jsonl").mkdir()
    with pytest.raises(StoreLostError, match="Is a directory"):
        b.hear()
    (hosts / "z.jsonl").rmdir()
    assert b.hear() == [("a", "1")]


def test_a_pipe_and_a_name_that_is_no_text_are_nobody(tmp_path: Path) -> None:
    a, b = joined(tmp_path, "a"), joined(tmp_path, "b")
    (hosts,) = tmp_path.glob("*/hosts")
    os.mkfifo(hosts / "pipe.jsonl")
    Path(os.fsdecode(os.fsencode(hosts) + b"/\xff.jsonl")).write_text("hello\n")
    a.say("1")
    assert b.hear() == [("a", "1")]


def test_a_claim_by_a_name_that_is_no_text_can_be_told_of(tmp_path: Path) -> None:
    store = joined(tmp_path, "a")
    store.put("0/1.1", "a")
    (claims,) = tmp_path.glob("*/claims/0")
    (claims / "2.1").symlink_to(os.fsdecode(b"\xff"))
    assert store.put("0/2.1", "a") == "\ufffd"
