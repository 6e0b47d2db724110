"""Sdists and wheels, also damaged ones and those of somebody who wants something of who looks at them."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest

from ci.core import archives
from ci.core.archives import walk
from ci.core.errors import BadFileError, MissingInputError
from ci.core.findings import Finding, VerificationError, refuse_failed
from ci.package.artifacts import artifact, artifacts_in, metadata_of
from ci.package.building import pack_again
from tests.packages import make_sdist, make_wheel

MODULE = {"demo/__init__.py": "x"}


def bytes_in(path: Path) -> dict[str, bytes]:
    """Every file of an artifact, as it is walked."""
    entries = walk(path, artifact(path).kind)
    return {one.member.name: b"".join(one.chunks()) for one in entries if not one.member.link}


def added(path: Path, name: str, data: bytes = b"other", how: int = zipfile.ZIP_DEFLATED) -> Path:
    """A wheel with one more member."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as packed:
        warnings.simplefilter("ignore")
        packed.writestr(zipfile.ZipInfo(name), data, compress_type=how)
    return path


def test_an_artifact_says_what_it_is_and_what_is_in_it(tmp_path: Path) -> None:
    make_wheel(tmp_path, files={**MODULE, "demo/_vendor/other-1.0.dist-info/METADATA": "x"})
    make_sdist(tmp_path)
    sdist, wheel = artifacts_in(tmp_path)
    assert [(one.kind, one.name, str(one.version), one.platforms) for one in (sdist, wheel)] == [
        ("sdist", "demo", "1.0", set()), ("wheel", "demo", "1.0", {"any"}),
    ]  # fmt: skip
    for one in (sdist, wheel):
        assert b"Name: demo\n" in metadata_of(one)
        assert one.sha256 == hashlib.sha256(one.path.read_bytes()).hexdigest()
    assert bytes_in(wheel.path)["demo/__init__.py"] == b"x"


@pytest.mark.parametrize("name", ["demo.whl", "demo-1.0.whl", "demo.tar.gz"])
def test_a_name_that_is_none_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadFileError, match="its name is not that of a wheel or an sdist"):
        artifact(tmp_path / name)


def test_files_of_two_releases_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="neither an sdist nor a wheel"):
        artifacts_in(tmp_path)
    make_wheel(tmp_path)
    make_sdist(tmp_path, version="2.0")
    with pytest.raises(BadFileError, match=r"more than one release are here: demo 1\.0, demo 2\.0"):
        artifacts_in(tmp_path)


def test_a_wheel_without_metadata_is_damaged(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"dist-info/METADATA", b"dist-info/METALATA"))
    with pytest.raises(BadFileError, match="it has no metadata"):
        metadata_of(artifact(path))


def test_a_stream_that_breaks_is_damage(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path) as packed:
        start = next(one for one in packed.infolist() if one.filename.endswith("/METADATA")).header_offset
    data = bytearray(path.read_bytes())
    begin = data.index(b"/METADATA", start) + len("/METADATA")
    data[begin : begin + 20] = b"\xff" * 20
    path.write_bytes(data)
    with pytest.raises(BadFileError, match="is damaged"):
        metadata_of(artifact(path))
    with pytest.raises(BadFileError, match="is damaged"):
        bytes_in(path)


def test_an_sdist_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    path = make_sdist(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadFileError, match="is damaged"):
        bytes_in(path)
    with pytest.raises(BadFileError, match="is damaged"):
        pack_again(path, 0)


def test_an_encrypted_wheel_is_damage(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(mark), bytes(data)):
            data[found.start() + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(BadFileError, match=r"is damaged: .*encrypted"):
        metadata_of(artifact(path))


@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_wheel_compressed_otherwise_is_refused(tmp_path: Path, how: int) -> None:
    path = added(make_wheel(tmp_path), "demo/data", how=how)
    with pytest.raises(
        BadFileError, match="'demo/data' is compressed in a way that installers need not know"
    ):
        bytes_in(path)


@pytest.mark.parametrize("error", [RecursionError("too deep"), RuntimeError(), KeyError("x")])
def test_whatever_a_library_raises_of_an_archive_is_damage(error: Exception) -> None:
    with pytest.raises(BadFileError, match="is damaged"), archives.damage(Path("demo.whl")):
        raise error


def test_what_the_file_system_refuses_is_not() -> None:
    with pytest.raises(OSError, match="no space"), archives.damage(Path("demo.whl")):
        raise OSError(28, "no space")


def test_what_unpacks_to_more_than_anything_published_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 20)
    for path in (
        make_wheel(tmp_path, files={**MODULE, "demo/bomb": bytes(1 << 21)}),
        make_sdist(tmp_path, files={"demo-1.0/bomb": bytes(1 << 21)}),
    ):
        with pytest.raises(BadFileError, match="unpacks to more than") as caught:
            bytes_in(path)
        assert "look at what made it" in str(caught.value)


def test_so_are_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 3)
    for path in (make_wheel(tmp_path), make_sdist(tmp_path)):
        with pytest.raises(BadFileError, match="has more than 3 files"):
            bytes_in(path)


def test_metadata_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_OF_A_TEXT", 1000)
    wheel = make_wheel(tmp_path, fields={"Description": "x" * 2000})
    with pytest.raises(BadFileError, match=r"METADATA' is too large for what it is to be"):
        metadata_of(artifact(wheel))


def test_a_header_of_a_tar_file_without_end_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_OF_A_TEXT", 1 << 16)
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 20
    path = tmp_path / "demo-1.0.tar.gz"
    with gzip.open(path, "wb") as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    with pytest.raises(BadFileError, match="a header says it has 1,048,576 bytes"):
        metadata_of(artifact(path))


def test_packing_again_keeps_every_byte(tmp_path: Path) -> None:
    path = make_sdist(tmp_path, files={"demo-1.0/z": "z", "demo-1.0/a": "a"})
    before = bytes_in(path)
    pack_again(path, 0)
    once = path.read_bytes()
    assert bytes_in(path) == before
    pack_again(path, 0)
    assert path.read_bytes() == once
    with tarfile.open(fileobj=io.BytesIO(once)) as packed:
        assert packed.getnames() == sorted(before)


def test_a_finding_commands_neither_a_ci_nor_a_terminal() -> None:
    bad = Finding(check="::error::x", seen="a\n::stop-commands::y\x1b[2J##[group]", remedy="r\r::warning::")
    assert bad.line == r"FAIL ::error::x: a\n::stop-commands::y\x1b[2J# #[group]"
    with pytest.raises(VerificationError) as caught:
        refuse_failed("subject", [bad])
    lines = str(caught.value).splitlines()
    assert r"  | ::error::x: a\n::stop-commands::y\x1b[2J# #[group]" in lines
    assert r"    remedy: r\r::warning::" in lines
    assert not [line for line in lines if re.match(r"\s*::", line)]
