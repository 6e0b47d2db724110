"""What of a folder is built, and the name its files have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import CommandError, MissingInputError
from ci.image.checkout import put_checkout, put_folder, tree_of

NAMES = st.text("abc", min_size=1, max_size=3)


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_dockerignore_names_stays_out(tmp_path: Path) -> None:
    text = "# caches\n\n*.pyc\nbuild\n!build/keep.txt\n**/secret\n"
    files = {
        ".dockerignore": text,
        "a.py": "",
        "a.pyc": "",
        "build/x": "",
        "build/keep.txt": "",
        "d/e/secret": "",
    }
    put_checkout(fill(tmp_path / "from", files), tmp_path / "to", environ={})
    assert names_in(tmp_path / "to") == [".dockerignore", "a.py", "build/keep.txt"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such folder"):
        put_checkout(tmp_path / "nothing", tmp_path / "to", environ={})


@pytest.mark.parametrize("leads", ["/etc/passwd", "../outside", "a/../../outside"])
def test_a_link_that_leads_out_is_refused_unless_it_is_ignored(tmp_path: Path, leads: str) -> None:
    folder = fill(tmp_path / "from", {"a/b": ""})
    (folder / "link").symlink_to(leads)
    (folder / "inside").symlink_to("a/b")
    with pytest.raises(CommandError, match=r"a link leads out of the folder: link to") as caught:
        put_checkout(folder, tmp_path / "to", environ={})
    assert caught.value.where == str(folder)
    fill(folder, {".dockerignore": "link"})
    put_checkout(folder, tmp_path / "again", environ={})
    assert (tmp_path / "again" / "inside").is_symlink()
    assert not (tmp_path / "again" / "link").is_symlink()


@given(
    st.dictionaries(NAMES, st.text(max_size=3), max_size=4),
    st.dictionaries(NAMES, st.text(max_size=3), max_size=4),
)
def test_two_folders_have_one_name_where_their_files_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, str], second: dict[str, str]
) -> None:
    one, other = (fill(tmp_path_factory.mktemp("tree"), files) for files in (first, second))
    assert (tree_of(one) == tree_of(other)) == (first == second)


def test_times_are_no_part_of_the_name_and_the_right_to_run_is(tmp_path: Path) -> None:
    folder = fill(tmp_path / "tree", {"a": "x"})
    before = tree_of(folder)
    os.utime(folder / "a", (1, 1))
    assert tree_of(folder) == before
    (folder / "a").chmod(0o755)
    assert tree_of(folder) != before


def test_a_folder_is_taken_as_a_builder_takes_it_with_its_containerfile(tmp_path: Path) -> None:
    folder = fill(
        tmp_path / "app",
        {".dockerignore": "docker\n*.log\n", "docker/Containerfile": "FROM x", "a.log": "x", "a.txt": "x"},
    )
    (folder / "empty").mkdir()
    name = put_folder(folder, tmp_path / "copy", containerfile="docker/Containerfile")
    assert names_in(tmp_path / "copy") == [".dockerignore", "a.txt", "docker/Containerfile"]
    assert (tmp_path / "copy" / "empty").is_dir()
    (folder / "a.log").write_text("changed")
    assert put_folder(folder, tmp_path / "again", containerfile="docker/Containerfile") == name
    (folder / "out").symlink_to("..")
    with pytest.raises(CommandError, match="a link leads out of the folder: out"):
        put_folder(folder, tmp_path / "refused", containerfile="docker/Containerfile")
