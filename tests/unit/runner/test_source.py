from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.runner import source
from ci.runner.source import fetch


def make_tree(root: Path, version: str = "2.6.0a0\n") -> Path:
    (root / "test").mkdir(parents=True)
    (root / "test" / "test_a.py").write_text("def test_a(): pass\n", encoding="utf-8")
    (root / "version.txt").write_text(version, encoding="utf-8")
    return root


def make_tar(path: Path, members: dict[str, bytes], *, link: str | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo("pytorch/test/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return path


def test_a_folder_is_used_where_it_is(tmp_path: Path) -> None:
    found = fetch(str(make_tree(tmp_path / "pt")), tmp_path / "cache")
    assert found.tests == tmp_path / "pt" / "test"
    assert found.version == "2.6.0a0"
    assert not (tmp_path / "cache").exists()


def test_a_tree_without_git_is_named_by_version_and_content(tmp_path: Path) -> None:
    one = fetch(str(make_tree(tmp_path / "one")), tmp_path)
    same = fetch(str(make_tree(tmp_path / "two")), tmp_path)
    assert one.sha == same.sha
    assert one.sha.startswith("2.6.0a0+sha256.")
    (tmp_path / "two" / "test" / "test_a.py").write_text("changed\n", encoding="utf-8")
    assert fetch(str(tmp_path / "two"), tmp_path).sha != one.sha


def test_a_tree_without_git_that_says_its_commit_is_named_by_it(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "one")
    mark = root / ".pytorch-commit"
    for text in ("main\n", "", "a" * 39):
        mark.write_text(text, encoding="utf-8")
        assert fetch(str(root), tmp_path).sha.startswith("2.6.0a0+sha256.")
    mark.write_bytes(b"\xff")
    assert fetch(str(root), tmp_path).sha.startswith("2.6.0a0+sha256.")
    mark.write_text("a" * 40 + "\n", encoding="utf-8")
    assert fetch(str(root), tmp_path).sha == "a" * 40


def test_names_that_are_no_utf_8_are_part_of_what_names_a_tree(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "one")
    seen = {fetch(str(root), tmp_path / "cache").sha}
    for name in (b"test_\xff.py", b"test_\xfe.py"):
        path = Path(os.fsdecode(os.fsencode(root / "test") + b"/" + name))
        path.touch()
        seen.add(fetch(str(root), tmp_path / "cache").sha)
        path.unlink()
    assert len(seen) == 3


def test_an_archive_whose_name_is_no_utf_8_is_unpacked(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / os.fsdecode(b"\xff.tar"), {"pt/test/test_a.py": b""})
    assert fetch(str(archive), tmp_path / "cache").tests.name == "test"


def test_a_broken_link_in_a_tree_is_a_state_of_its_own(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "pt")
    whole = fetch(str(root), tmp_path / "cache").sha
    (root / "test" / "test_gone.py").symlink_to(tmp_path / "nowhere.py")
    assert fetch(str(root), tmp_path / "cache").sha != whole


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_is_unpacked_once(tmp_path: Path, kind: str) -> None:
    members = {"pytorch/test/test_a.py": b"pass\n", "pytorch/version.txt": b"2.13.0\n"}
    archive = tmp_path / f"pt.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for name, data in members.items():
                packed.writestr(name, data)
    else:
        make_tar(archive, members, link="/etc/passwd")
    found = fetch(str(archive), tmp_path / "cache")
    assert (found.tests / "test_a.py").is_file()
    assert not (found.tests / "link").is_symlink()
    assert fetch(str(archive), tmp_path / "cache").tests == found.tests
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "pytorch/../../evil.py"])
def test_an_archive_that_reaches_outside_is_refused_whole(tmp_path: Path, name: str) -> None:
    archive = make_tar(tmp_path / "pt.tar.gz", {"pytorch/test/test_a.py": b"", name: b""})
    with pytest.raises(BadFileError, match="reaches outside"):
        fetch(str(archive), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_archive_of_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_FILES", 1)
    archive = make_tar(tmp_path / "pt.tar.gz", {"test/a.py": b"", "test/b.py": b""})
    with pytest.raises(BadFileError, match="holds 2 files"):
        fetch(str(archive), tmp_path / "cache")


def test_a_file_that_is_no_archive_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"nothing of the kind")
    with pytest.raises(BadFileError, match="cannot be unpacked"):
        fetch(str(tmp_path / "x.tar"), tmp_path / "cache")


def test_an_archive_that_was_damaged_on_the_way_says_so(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "pt.tar.gz", {"pytorch/test/test_a.py": bytes(range(256)) * 40})
    whole = tar_bytes(archive)
    for name, damaged in {
        "flipped.tar.xz": flip(lzma.compress(whole), -60),
        "flipped.tar.gz": flip(archive.read_bytes(), -8),  # of the checksum at the end
        "cut.tar.xz": lzma.compress(whole)[:-40],
    }.items():
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(BadFileError, match="cannot be unpacked"):
            fetch(str(tmp_path / name), tmp_path / "cache")


@pytest.mark.parametrize(("offset_in_entry", "value"), [(8, 1), (10, 99)], ids=["encrypted", "method"])
def test_a_zip_that_cannot_be_read_here_says_so(tmp_path: Path, offset_in_entry: int, value: int) -> None:
    path = tmp_path / "pt.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("pytorch/test/test_a.py", "")
    data = bytearray(path.read_bytes())
    data[data.find(b"PK\x01\x02") + offset_in_entry] = value
    path.write_bytes(data)
    with pytest.raises(BadFileError, match="cannot be unpacked"):
        fetch(str(path), tmp_path / "cache")


def tar_bytes(archive: Path) -> bytes:
    return gzip.decompress(archive.read_bytes())


def flip(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


def test_what_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="--pytorch-src") as caught:
        fetch(str(tmp_path / "nowhere"), tmp_path)
    assert caught.value.exit_code == 2
    with pytest.raises(MissingInputError, match="has no test/ folder"):
        fetch(str(tmp_path), tmp_path)


@pytest.mark.parametrize(
    "where", ["git+https://x/y", "git+https://x/y@", "git+https://x/y@-oops", "git+ext::sh@main", "git+@x"]
)
def test_a_git_address_is_url_and_ref(tmp_path: Path, where: str) -> None:
    with pytest.raises(UsageError):
        fetch(where, tmp_path)
