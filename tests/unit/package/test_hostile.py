"""Artifacts that are damaged, or made by somebody who wants something of who looks at them."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from ci.core import archives
from ci.core.archives import Member
from ci.core.errors import BadFileError
from ci.core.findings import Finding, VerificationError, refuse_failed
from ci.core.text import escaped
from ci.package.artifacts import artifact, contents_of, digests_of, read_member
from ci.package.building import pack_again
from ci.package.verify.checking import ignored
from ci.package.verify.contents import check_contents, installed_at_top
from ci.package.verify.metadata import check_metadata
from tests.packages import make_sdist, make_wheel

MODULE = {"demo/__init__.py": "x"}


def failed(path: Path) -> dict[str, str]:
    one = artifact(path)
    found = check_contents(one, contents_of(one), toplevel=("demo",), forbidden=())
    return {check.check: check.seen for check in found if not check.passed}


def added(path: Path, name: str, data: bytes = b"other", how: int = zipfile.ZIP_DEFLATED) -> Path:
    """A wheel with one more member."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as packed:
        warnings.simplefilter("ignore")
        packed.writestr(zipfile.ZipInfo(name), data, compress_type=how)
    return path


def test_a_file_that_is_there_twice_is_said(tmp_path: Path) -> None:
    wheel = added(make_wheel(tmp_path), "demo/__init__.py")
    assert failed(wheel)["wheel paths"] == "demo/__init__.py is there twice"
    twice = tarfile.TarInfo("demo-1.0/LICENSE")
    assert (
        failed(make_sdist(tmp_path, files={"x": twice}))["sdist paths"] == "demo-1.0/LICENSE is there twice"
    )


@pytest.mark.parametrize("scheme", ["purelib", "platlib", "data/lib/python3.11/site-packages"])
def test_what_the_data_folder_installs_counts_where_it_is_put(tmp_path: Path, scheme: str) -> None:
    wheel = make_wheel(tmp_path, files={**MODULE, f"demo-1.0.data/{scheme}/evil/__init__.py": ""})
    assert failed(wheel) == {"wheel top level": "also installs evil"}
    (tmp_path / "own").mkdir()
    own = make_wheel(tmp_path / "own", files={f"demo-1.0.data/{scheme}/demo/__init__.py": ""})
    assert failed(own) == {}
    assert installed_at_top(contents_of(artifact(own)).members) == {"demo"}


@pytest.mark.parametrize("name", ["evil.pth", "evil-1.0.data/x.py", "evil-1.0.dist-info/entry_points.txt"])
def test_what_only_looks_like_metadata_is_installed(tmp_path: Path, name: str) -> None:
    wheel = make_wheel(tmp_path, files={**MODULE, name: ""})
    assert failed(wheel) == {"wheel top level": f"also installs {name.partition('/')[0]}"}
    assert installed_at_top(contents_of(artifact(wheel)).members) == {"demo"}


def test_only_what_can_be_imported_is() -> None:
    names = ["a/b.txt", "c.py", "_d.cpython-311-x86_64-linux-gnu.so", "README", "py.typed", "e-f/g.py"]
    members = [Member(name=name, size=0, mode=0) for name in names]
    assert installed_at_top(members) == {"a", "c", "_d"}


def test_libraries_that_auditwheel_brings_belong_to_the_wheel(tmp_path: Path) -> None:
    files = {**MODULE, "demo.libs/libflux-1a2b3c.so.1.2": "x", "demo.libs/libz.so": "x"}
    wheel = make_wheel(tmp_path, files=files)
    assert failed(wheel) == {}
    assert installed_at_top(contents_of(artifact(wheel)).members) == {"demo"}


def test_no_tool_is_asked_whether_those_are_modules(tmp_path: Path) -> None:
    assert ignored(artifact(make_wheel(tmp_path))) == "W009"
    assert ignored(artifact(make_wheel(tmp_path, files={**MODULE, "demo.libs/libz.so": "x"}))) == "W004,W009"


@pytest.mark.parametrize("name", ["demo.libs/evil.py", "demo.libs/x/libz.so", "other.libs/libz.so"])
def test_other_folders_of_libraries_do_not(tmp_path: Path, name: str) -> None:
    wheel = make_wheel(tmp_path, files={**MODULE, "demo.libs/libz.so": "x", name: "x"})
    assert failed(wheel)["wheel top level"].startswith("also installs ")


@pytest.mark.parametrize("end", ["\n::error::x", "\x1b[2J", "\u202egnp"])
def test_a_name_that_would_steer_a_terminal_or_a_ci_is_refused_and_shown_escaped(
    tmp_path: Path, end: str
) -> None:
    wheel = make_wheel(tmp_path, files=MODULE)
    for path in (
        added(wheel, f"demo/a{end}"),
        make_sdist(tmp_path, files={"x": tarfile.TarInfo(f"demo-1.0/a{end}")}),
    ):
        seen = failed(path)[f"{'wheel' if path == wheel else 'sdist'} paths"]
        assert seen.endswith("is no name for a file")
        assert end not in seen
        assert escaped(end) in seen


def raw(path: Path, change: bytes, to: bytes) -> Path:
    """A wheel with some bytes of it changed everywhere."""
    data = path.read_bytes()
    assert change in data
    path.write_bytes(data.replace(change, to))
    return path


def test_a_wheel_without_its_wheel_file_is_damaged(tmp_path: Path) -> None:
    path = raw(make_wheel(tmp_path), b"dist-info/WHEEL", b"dist-info/WHALE")
    with pytest.raises(BadFileError, match=r"is damaged: has no WHEEL in demo-1\.0\.dist-info"):
        contents_of(artifact(path))


def test_a_package_may_bring_anothers_metadata_below_its_own_folder(tmp_path: Path) -> None:
    inner = "demo/_vendor/other-1.0.dist-info"
    files = {**MODULE, f"{inner}/METADATA": "x", f"{inner}/WHEEL": "x", f"{inner}/RECORD": "x"}
    assert failed(make_wheel(tmp_path, files=files)) == {}


def test_a_stream_that_breaks_is_damage(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path) as packed:
        start = next(one for one in packed.infolist() if one.filename.endswith("/METADATA")).header_offset
    data = bytearray(path.read_bytes())
    begin = data.index(b"/METADATA", start) + len("/METADATA")
    data[begin : begin + 20] = b"\xff" * 20
    path.write_bytes(data)
    with pytest.raises(BadFileError, match="is damaged"):
        contents_of(artifact(path))
    with pytest.raises(BadFileError, match="is damaged"):
        digests_of(artifact(path))


def test_an_sdist_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    path = make_sdist(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    for look in (contents_of, digests_of):
        with pytest.raises(BadFileError, match="is damaged"):
            look(artifact(path))
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
        contents_of(artifact(path))


@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_wheel_compressed_otherwise_is_refused(tmp_path: Path, how: int) -> None:
    path = added(make_wheel(tmp_path), "demo/data", how=how)
    with pytest.raises(
        BadFileError, match="'demo/data' is compressed in a way that installers need not know"
    ):
        contents_of(artifact(path))


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
            contents_of(artifact(path))
        assert "look at what made it" in str(caught.value)


def test_so_are_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 3)
    for path in (make_wheel(tmp_path), make_sdist(tmp_path)):
        with pytest.raises(BadFileError, match="has more than 3 files"):
            contents_of(artifact(path))


def test_metadata_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_OF_A_TEXT", 1000)
    wheel = make_wheel(tmp_path, fields={"Description": "x" * 2000})
    with pytest.raises(BadFileError, match=r"METADATA' is too large for what it is to be"):
        contents_of(artifact(wheel))


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
        contents_of(artifact(path))


def test_large_members_are_hashed_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, files={**MODULE, "demo/large": bytes(3 << 20)})
    asked: list[int] = []
    real = zipfile.ZipExtFile.read

    def read(self: zipfile.ZipExtFile, n: int = -1) -> bytes:
        asked.append(n)
        return real(self, n)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", read)
    assert failed(wheel) == {}
    assert max(asked) == 1 << 20
    assert min(asked) > 0


@pytest.mark.parametrize("field", ["Classifier", "Requires-Dist", "License-File", "Name"])
def test_metadata_of_letters_that_no_header_has_is_judged(tmp_path: Path, field: str) -> None:
    one = artifact(make_wheel(tmp_path, fields={"License-Expression": None, field: "Ünicode ="}))
    found = check_metadata(one, contents_of(one), project="demo", version=Version("1.0"))
    assert not all(check.passed for check in found)


def test_a_text_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="has no x"):
        read_member(artifact(make_wheel(tmp_path)), "x")


def test_a_record_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    files = {**MODULE, "demo-1.0.dist-info/RECORD": "x" * 200_000}
    assert "field larger than" in failed(make_wheel(tmp_path, files=files, record=False))["wheel RECORD"]


def test_packing_again_keeps_every_byte(tmp_path: Path) -> None:
    path = make_sdist(tmp_path, files={"demo-1.0/z": "z", "demo-1.0/a": "a"})
    before = digests_of(artifact(path))
    pack_again(path, 0)
    once = path.read_bytes()
    assert digests_of(artifact(path)) == before
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
