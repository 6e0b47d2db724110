"""A copy of a project's sources where no repository holds it; without Git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, CommandError
from ci.package import export as exporting
from ci.package.export import empty, export
from ci.package.project import Project, Source


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(exporting, "_commit", lambda *_: None)
    folder = tmp_path.resolve() / "demo"
    for name in ["pyproject.toml", "build/made", "dist/demo.whl", "demo/build/__init__.py", "demo/dist/a.py"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return Project(folder=folder, name="demo", pyproject={}, source=Source(commit=""))


def files(tree: Path) -> list[str]:
    return sorted(
        str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or path.is_file()
    )


def test_packages_called_build_or_dist_are_kept_and_the_folders_of_builds_are_not(
    project: Project, tmp_path: Path
) -> None:
    assert files(export(project, tmp_path / "tree")) == [
        "demo/build/__init__.py", "demo/dist/a.py", "pyproject.toml",
    ]  # fmt: skip


def test_a_link_to_a_folder_stays_one(project: Project, tmp_path: Path) -> None:
    (project.folder / "demo" / "also").symlink_to("build")
    tree = export(project, tmp_path / "tree")
    assert (tree / "demo" / "also").readlink() == Path("build")
    assert (tree / "demo" / "also" / "__init__.py").is_file()


def test_a_submodules_own_mark_is_left_out(project: Project, tmp_path: Path) -> None:
    (project.folder / ".git").write_text("gitdir: ../elsewhere")
    assert ".git" not in files(export(project, tmp_path / "tree"))


def test_a_link_out_of_the_project_is_refused(project: Project, tmp_path: Path) -> None:
    (project.folder / "demo" / "out").symlink_to("../..")
    with pytest.raises(BadFileError, match="is a link that leads out of the project"):
        export(project, tmp_path / "tree")


@pytest.mark.parametrize("to", ["absolute", "../demo/conf.toml"])
def test_nor_may_a_link_lead_from_the_copy_into_the_checkout(
    project: Project, tmp_path: Path, to: str
) -> None:
    kept = project.folder / "conf.toml"
    kept.write_text("x")
    (project.folder / "pyproject.toml").unlink()
    (project.folder / "pyproject.toml").symlink_to(str(kept) if to == "absolute" else to)
    with pytest.raises(BadFileError, match="is a link that leads out of the project") as caught:
        export(project, tmp_path / "tree")
    assert "make it a link that is relative and stays in the project" in str(caught.value)


def test_a_chain_of_links_may_not_either(project: Project, tmp_path: Path) -> None:
    (project.folder / "one").symlink_to("two")
    (project.folder / "two").symlink_to(str(project.folder / "demo"))
    with pytest.raises(BadFileError, match="is a link that leads out of the project"):
        export(project, tmp_path / "tree")


def test_a_pipe_in_a_files_place_is_said(project: Project, tmp_path: Path) -> None:
    os.mkfifo(project.folder / "demo" / "way")
    with pytest.raises(BadFileError, match="is no file any more but a pipe") as caught:
        export(project, tmp_path / "tree")
    assert "git checkout -- demo/way" in str(caught.value)


def test_a_file_that_cannot_be_read_is_said(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ci.package.export.shutil.copy2", refuse)
    with pytest.raises(BadFileError, match=r"cannot be copied: .*Permission denied"):
        export(project, tmp_path / "tree")


def test_what_an_earlier_build_left_is_not_in_the_copy(project: Project, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "stale.py").write_text("x")
    assert "stale.py" not in files(export(project, tmp_path / "tree"))


def test_what_cannot_be_removed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path / "a"))

    monkeypatch.setattr("ci.package.export.shutil.rmtree", refuse)
    with pytest.raises(
        CommandError, match=r"an earlier build left here cannot be removed: .*Permission denied"
    ):
        empty(tmp_path)
