from __future__ import annotations

import gzip
import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from ci.core import archives as module
from ci.core.archives import Wanted, bounded_lines, unpack
from ci.core.errors import BadFileError

WANTED = (
    Wanted(pattern=r"summary\.json", most_bytes=100),
    Wanted(pattern=r"journal/[0-9]+\.jsonl", most_bytes=50),
)


def archive(tmp_path: Path, *made: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in made:
            file.writestr(name, data)
    return path


def taken(path: Path, tmp_path: Path) -> dict[str, bytes]:
    into = tmp_path / "into"
    found = unpack(path, into, WANTED, beside="summary.json")
    assert sorted(found) == sorted(one for one in into.rglob("*") if one.is_file())
    return {one.relative_to(into).as_posix(): one.read_bytes() for one in found}


def test_only_what_is_known_is_taken(tmp_path: Path) -> None:
    path = archive(
        tmp_path,
        ("summary.json", b"{}"),
        ("journal/0.jsonl", b"x"),
        ("journal/evil.jsonl", b"x"),
        ("journal/0.jsonl.sh", b"x"),
        (".git/config", b"x"),
        ("journal/", b""),
    )
    assert taken(path, tmp_path) == {"summary.json": b"{}", "journal/0.jsonl": b"x"}


def test_a_folder_within_is_found_by_its_summary_and_the_top_wins(tmp_path: Path) -> None:
    path = archive(
        tmp_path, ("runs/x/summary.json", b"1"), ("runs/x/journal/3.jsonl", b"3"), ("other/1", b"")
    )
    assert taken(path, tmp_path) == {"summary.json": b"1", "journal/3.jsonl": b"3"}
    path = archive(tmp_path, ("deep/summary.json", b"1"), ("summary.json", b"2"))
    assert unpack(path, tmp_path / "b", WANTED, beside="summary.json") == [tmp_path / "b" / "summary.json"]
    assert (tmp_path / "b" / "summary.json").read_bytes() == b"2"


LINK = zipfile.ZipInfo("summary.json")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16
SUMMARY = ("summary.json", b"x" * 20)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        *(
            ([SUMMARY, (name, b"x")], "leads outside")
            for name in ("../x", "a/../../x", "/etc/x", "a\\..\\x", "C:x", "summary.json/..")
        ),
        ([(LINK, b"/etc/passwd")], "contains a link"),
        ([SUMMARY, SUMMARY], "twice"),
        ([SUMMARY, ("journal/0.jsonl", b"x" * 45)], "more than 60 bytes in all"),
        ([SUMMARY, *((name, b"") for name in "abc")], "holds 4 files, more than 3"),
        ([("readme", b"")], r"contains no summary\.json"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_no_artifact_of_ours_holds_costs_the_whole_archive(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: list[tuple[str | zipfile.ZipInfo, bytes]],
    said: str,
) -> None:
    monkeypatch.setattr(module, "MAX_ALL", 60)
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    with pytest.raises(BadFileError, match=said):
        taken(archive(tmp_path, *made), tmp_path)


def test_more_bytes_than_agreed_are_counted_while_they_come(tmp_path: Path) -> None:
    path = archive(tmp_path, ("summary.json", b"\0" * 1_000_000))
    with pytest.raises(BadFileError, match=r"summary\.json has more than 100 bytes"):
        taken(path, tmp_path)
    assert not (tmp_path / "into" / "summary.json").exists()


def test_a_size_that_is_told_and_wrong_is_believed_by_nobody(tmp_path: Path) -> None:
    path = archive(tmp_path, ("summary.json", b"\0" * 1_000_000))
    data = path.read_bytes()
    # The size before packing, as the directory at the archive's end and the entry itself tell it.
    path.write_bytes(data.replace(struct.pack("<I", 1_000_000), struct.pack("<I", 10)))
    with pytest.raises(BadFileError):
        taken(path, tmp_path)


@pytest.mark.parametrize("cut", [0, 10, 40, -5])
def test_what_is_no_archive_or_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    path = archive(tmp_path, ("summary.json", b"{}" * 20))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BadFileError, match="no archive that can be read"):
        taken(path, tmp_path)


def test_a_damaged_or_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, ("summary.json", bytes(range(90))))
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(BadFileError):
        taken(path, tmp_path)
    path = archive(tmp_path, ("summary.json", b"{}"))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(BadFileError, match="encrypted"):
        taken(path, tmp_path)


def packed(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(data))
    return path


def test_lines_come_as_they_were_written(tmp_path: Path) -> None:
    assert list(bounded_lines(packed(tmp_path, b"a\nb\n\nc"), most_bytes=100)) == [b"a", b"b", b"", b"c"]
    assert list(bounded_lines(packed(tmp_path, b""), most_bytes=100)) == []
    many = b"".join(b"%d\n" % number for number in range(300_000))
    assert list(bounded_lines(packed(tmp_path, many), most_bytes=1 << 30)) == many.split(b"\n")[:-1]


def test_a_little_file_that_unpacks_to_much_is_refused_early(tmp_path: Path) -> None:
    path = packed(tmp_path, b"x\n" * 5_000_000)
    lines = bounded_lines(path, most_bytes=1_000_000)
    with pytest.raises(BadFileError, match="more than 1,000,000 bytes"):
        list(lines)
    with pytest.raises(BadFileError, match="bytes in a line"):
        list(bounded_lines(packed(tmp_path, b"x" * 5_000_000), most_bytes=1 << 30))


@pytest.mark.parametrize(
    "data",
    [b"", b"no gzip", gzip.compress(b"x\n" * 1000)[:-10]],
    # The bytes hold the second they were made in: two workers would have collected different tests.
    ids=["empty", "none", "cut short"],
)
def test_what_is_no_whole_gzip_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(data)
    with pytest.raises(BadFileError):
        list(bounded_lines(path, most_bytes=100_000))


def test_a_gzip_file_may_have_several_members(tmp_path: Path) -> None:
    stream = io.BytesIO()
    for text in (b"a\n", b"b\n"):
        stream.write(gzip.compress(text))
    path = tmp_path / "x.gz"
    path.write_bytes(stream.getvalue())
    # Ours have one; of what a stranger adds behind it nothing is read.
    assert list(bounded_lines(path, most_bytes=100)) == [b"a"]
