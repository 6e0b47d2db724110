"""What a folder in a bucket holds, checked before a byte of it is moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, NotWholeError
from ci.core.object_store import Held
from ci.jobs.transfer import amount
from ci.jobs.transfer_names import MANIFEST, Manifest, Sum, check_names, read_manifest, wanted

WHERE = "s3://bucket/model"
SUM = Sum(size=3, sha256="ab" * 32)


def held(name: str, size: int = 3) -> Held:
    return Held(name=name, size=size, etag="e")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../x", "leads out of the folder"),
        ("a/../../x", "leads out of the folder"),
        ("a/../x", "leads out of the folder"),
        ("/etc/passwd", "leads out of the folder"),
        ("C:/x", "leads out of the folder"),
        ("a//b", "has an empty part"),
        ("a/", "has an empty part"),
        ("", "has an empty part"),
        ("a/./b", "has an empty part"),
        ("a\nb", "has characters that are not printed"),
        ("a\0b", "has characters that are not printed"),
        ("a\x1b[2Jb", "has characters that are not printed"),
        ("\udcff", "has characters that are not printed"),
        ("é" * 128, "has a part of more than 255 bytes"),
        (".spyre-ci-fetch/state.json", "is one that transfers keep for themselves"),
        (MANIFEST, "is one that transfers keep for themselves"),
    ],
)
def test_a_name_that_leads_out_or_is_none_is_refused(name: str, why: str) -> None:
    with pytest.raises(BadFileError) as refused:
        check_names(["fine", name], WHERE)
    assert refused.value.what == f"the name {name!r} {why}"
    assert refused.value.where == WHERE
    assert refused.value.remedy == "rename or remove it there; nothing was moved"


def test_a_name_that_is_file_and_folder_is_refused() -> None:
    with pytest.raises(BadFileError, match="the name 'a/b' is both a file and a folder"):
        check_names(["a/b", "a/b/c/d", "e"], WHERE)


@given(st.sets(st.text(alphabet="ab./\\:é\n\0", max_size=8), max_size=4))
def test_names_that_are_taken_are_files_of_the_folder_side_by_side(names: set[str]) -> None:
    try:
        check_names(names, WHERE)
    except BadFileError:
        return
    folder = Path("/folder")
    paths = {folder / name for name in names}
    assert all(path.is_relative_to(folder) and ".." not in path.parts for path in paths)
    assert len(paths) == len(names)
    assert not any(set(path.parents) & paths for path in paths)


def test_all_is_wanted_where_nobody_left_a_manifest() -> None:
    files = wanted([held("b"), held("a/c"), held("a/", 0), held("", 0)], None, WHERE)
    assert [(file.name, file.size, file.sha256) for file in files] == [("a/c", 3, ""), ("b", 3, "")]


def test_only_what_the_manifest_tells_is_wanted() -> None:
    manifest = Manifest(whole=True, files={"a": SUM})
    files = wanted([held("a"), held("of-before"), held(MANIFEST, 99)], manifest, WHERE)
    assert [(file.name, file.sha256) for file in files] == [("a", SUM.sha256)]


def test_a_folder_that_is_being_put_is_not_taken() -> None:
    with pytest.raises(NotWholeError, match="a put to this folder is under way or broke off") as refused:
        wanted([held("a")], Manifest(whole=False, files={}), WHERE)
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("there", [[], [held("a", 2)]])
def test_a_folder_that_lacks_what_its_manifest_tells_is_not_taken(there: list[Held]) -> None:
    with pytest.raises(
        NotWholeError, match="1 of 2 files are not as the manifest tells, like 'a'"
    ) as refused:
        wanted([*there, held("b")], Manifest(whole=True, files={"a": SUM, "b": SUM}), WHERE)
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("there", [[], [held("sub/", 0)], [held("", 0)]])
def test_a_folder_of_nothing_is_an_error(there: list[Held]) -> None:
    with pytest.raises(BadFileError, match="holds no object"):
        wanted(there, None, WHERE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"schema":"spyre-ci/manifest/2","whole":true,"files":{}}',
        b'{"schema":"spyre-ci/manifest/1","whole":true,"files":{"a":{"size":-1,"sha256":"ab"}}}',
    ],
)
def test_a_manifest_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadFileError, match="is no manifest: "):
        read_manifest(data, WHERE)


def test_a_manifest_is_read_as_it_was_put() -> None:
    manifest = Manifest(whole=True, files={"a": SUM})
    assert read_manifest(manifest.as_bytes(), WHERE) == manifest
    assert b'"schema": "spyre-ci/manifest/1"' in manifest.as_bytes()


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (5e10, "50.0 GB")]
)
def test_bytes_are_told_as_people_read_them(size: int, said: str) -> None:
    assert amount(size) == said
