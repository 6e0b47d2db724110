"""A copy of a project's sources where no repository holds it; without Git."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ci.core.errors import BadFileError
from ci.package import export as exporting
from ci.package.export import copy_files, export
from ci.package.project import Project, ProjectTable, Pyproject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(exporting, "commit_copy", lambda *_: None)
    folder = tmp_path.resolve() / "demo"
    for name in ["pyproject.toml", "build/made", "dist/demo.whl", "demo/build/__init__.py", "demo/dist/a.py"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return Project(folder=folder, pyproject=Pyproject(project=ProjectTable(name="demo")))


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
    with pytest.raises(BadFileError, match="is a symbolic link to a place outside the project"):
        export(project, tmp_path / "tree")


@pytest.mark.parametrize("to", ["absolute", "../demo/conf.toml"])
def test_nor_may_a_link_lead_from_the_copy_into_the_checkout(
    project: Project, tmp_path: Path, to: str
) -> None:
    kept = project.folder / "conf.toml"
    kept.write_text("x")
    (project.folder / "pyproject.toml").unlink()
    (project.folder / "pyproject.toml").symlink_to(str(kept) if to == "absolute" else to)
    with pytest.raises(BadFileError, match="is a symbolic link to a place outside the project") as caught:
        export(project, tmp_path / "tree")
    assert "or by a relative link within the project" in str(caught.value)


def test_what_an_earlier_build_left_is_not_in_the_copy(project: Project, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "stale.py").write_text("x")
    assert "stale.py" not in files(export(project, tmp_path / "tree"))


def test_what_is_no_file_or_cannot_be_read_is_said(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = OSError(errno.EACCES, "Permission denied")

    def refuse(*_: object, **__: object) -> None:
        raise refused

    os.mkfifo(project.folder / "way")
    with pytest.raises(BadFileError, match=r"cannot be copied: .*named pipe"):
        copy_files(project.folder, ["way"], tmp_path / "tree")
    monkeypatch.setattr("ci.package.export.shutil.copy2", refuse)
    with pytest.raises(BadFileError, match=r"cannot be copied: .*Permission denied"):
        copy_files(project.folder, ["pyproject.toml"], tmp_path / "tree")
    refused = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"):  # which says nothing of the file
        copy_files(project.folder, ["pyproject.toml"], tmp_path / "tree")


def test_a_copy_has_the_rights_that_git_knows(project: Project, tmp_path: Path) -> None:
    (project.folder / "pyproject.toml").chmod(0o666)
    (project.folder / "demo/dist/a.py").chmod(0o770)
    tree = export(project, tmp_path / "tree")
    assert (tree / "pyproject.toml").stat().st_mode & 0o777 == 0o644
    assert (tree / "demo/dist/a.py").stat().st_mode & 0o777 == 0o755
