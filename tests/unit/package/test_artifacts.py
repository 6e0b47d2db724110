"""Sdists and wheels, also damaged ones and those of somebody who wants something of who looks at them."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.core import archives
from ci.core.errors import BadFileError, MissingInputError
from ci.core.findings import Finding, VerificationError, refuse_failed
from ci.package.artifacts import artifact, artifacts_in, metadata_of
from ci.package.building import pack_again
from tests.packages import make_sdist, make_wheel

MODULE = {"demo/__init__.py": "x"}


def bytes_in(path: Path) -> dict[str, bytes]:
    """Every file of an sdist."""
    with tarfile.open(path) as packed:
        return {one.name: stream.read() for one in packed if (stream := packed.extractfile(one)) is not None}


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
    with pytest.raises(BadFileError, match=r"more than one release: demo 1\.0, demo 2\.0"):
        artifacts_in(tmp_path)


def without_metadata(folder: Path) -> Path:
    path = make_wheel(folder)
    path.write_bytes(path.read_bytes().replace(b"dist-info/METADATA", b"dist-info/METALATA"))
    return path


def broken_stream(folder: Path) -> Path:
    path = make_wheel(folder)
    with zipfile.ZipFile(path) as packed:
        start = next(one for one in packed.infolist() if one.filename.endswith("/METADATA")).header_offset
    data = bytearray(path.read_bytes())
    begin = data.index(b"/METADATA", start) + len("/METADATA")
    data[begin : begin + 20] = b"\xff" * 20
    path.write_bytes(data)
    return path


def cut_short(folder: Path) -> Path:
    path = make_sdist(folder)
    path.write_bytes(path.read_bytes()[:40])
    return path


def encrypted(folder: Path) -> Path:
    path = make_wheel(folder)
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(mark), bytes(data)):
            data[found.start() + offset] |= 1
    path.write_bytes(data)
    return path


def endless_header(folder: Path) -> Path:
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 20
    path = folder / "demo-1.0.tar.gz"
    with gzip.open(path, "wb") as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    return path


def bomb(folder: Path) -> Path:
    """An sdist in which much stands before the metadata."""
    path = folder / "demo-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name in ("demo-1.0/bomb", "demo-1.0/PKG-INFO"):
            member = tarfile.TarInfo(name)
            member.size = 1 << 21
            packed.addfile(member, io.BytesIO(bytes(1 << 21)))
    return path


def squeezed(how: int) -> Callable[[Path], Path]:
    """A wheel whose metadata is compressed in some way."""

    def make(folder: Path) -> Path:
        path = folder / "demo-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", how) as packed:
            packed.writestr("demo-1.0.dist-info/METADATA", "Name: demo")
        return path

    return make


# What is wrong, which bound is made small for it, and what is said.
HARM: list[tuple[Callable[[Path], Path], tuple[str, int] | None, str]] = [
    (without_metadata, None, "it has no metadata"),
    (broken_stream, None, "is damaged"),
    (cut_short, None, "is damaged"),
    (encrypted, None, r"is damaged: .*encrypted"),
    (squeezed(zipfile.ZIP_LZMA), None, "METADATA' is compressed in a way that installers need not know"),
    (squeezed(zipfile.ZIP_BZIP2), None, "METADATA' is compressed in a way that installers need not know"),
    (bomb, ("MOST_BYTES", 1 << 20), "unpacks to more than"),
    (lambda folder: make_wheel(folder, fields={"Description": "x" * 2000}), ("MOST_OF_A_TEXT", 1000),
     "METADATA' is too large"),
    (endless_header, ("MOST_OF_A_TEXT", 1 << 16), "a header says it has 1,048,576 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("harm", "bound", "said"), HARM)
def test_a_damaged_or_boundless_artifact_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Path], Path],
    bound: tuple[str, int] | None,
    said: str,
) -> None:
    if bound:
        monkeypatch.setattr(archives, *bound)
    path = harm(tmp_path)
    with pytest.raises(BadFileError, match=said):
        metadata_of(artifact(path))


@pytest.mark.parametrize("error", [RecursionError("too deep"), RuntimeError(), KeyError("x")])
def test_whatever_a_library_raises_of_an_archive_is_damage(error: Exception) -> None:
    with pytest.raises(BadFileError, match="is damaged"), archives.damage(Path("demo.whl")):
        raise error


def test_what_the_file_system_refuses_is_not() -> None:
    with pytest.raises(OSError, match="no space"), archives.damage(Path("demo.whl")):
        raise OSError(28, "no space")


def test_what_is_cut_short_is_not_packed_again(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="is damaged"):
        pack_again(cut_short(tmp_path), 0)


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
