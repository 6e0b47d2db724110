"""Where a checkout stands, and what of it is packaged: real repositories, with what Git does not show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError
from ci.package.export import export
from ci.package.project import Project, Source, read_project, read_source
from tests.integration.package.conftest import Checkout
from tests.repositories import git


def files(tree: Path) -> set[str]:
    return {
        str(path.relative_to(tree))
        for path in tree.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(tree).parts
    }


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A repository that others have as a submodule."""
    folder = tmp_path / "library"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "lib.h").write_text("int one;\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "library")
    return folder


def with_submodule(checkout: Checkout, library: Path) -> None:
    checkout.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "third_party/lib"
    )
    checkout.commit()


def test_a_clean_checkout_is_clean(checkout: Checkout) -> None:
    source = read_source(checkout.folder)
    assert (source.commit, source.dirty, source.untracked) == (
        checkout.git("rev-parse", "HEAD").strip(),
        (),
        (),
    )


def test_a_file_called_as_git_calls_a_branch_without_a_commit_is_a_file(checkout: Checkout) -> None:
    named = checkout.folder / "# branch.oid (initial)"
    named.write_text("")
    checkout.commit()
    named.write_text("changed")
    source = read_source(checkout.folder)
    assert (source.commit, source.dirty) == (checkout.git("rev-parse", "HEAD").strip(), (named.name,))


@pytest.mark.parametrize("bit", ["--skip-worktree", "--assume-unchanged"])
def test_a_change_that_git_was_told_not_to_look_for_is_one(checkout: Checkout, bit: str) -> None:
    module = checkout.folder / "demo/__init__.py"
    checkout.git("update-index", bit, "demo/__init__.py", "README.md")
    assert read_source(checkout.folder).dirty == ()
    module.write_text(module.read_text() + "EVIL = 1\n")
    assert checkout.git("status", "--porcelain") == ""
    assert read_source(checkout.folder).dirty == ("demo/__init__.py",)
    module.unlink()
    assert read_source(checkout.folder).dirty == ("demo/__init__.py",)
    checkout.git("config", "core.fileMode", "false")
    (checkout.folder / "README.md").chmod(0o755)
    assert set(read_source(checkout.folder).dirty) == {"README.md", "demo/__init__.py"}


def test_a_changed_submodule_is_a_change_whatever_the_project_says(checkout: Checkout, library: Path) -> None:
    with_submodule(checkout, library)
    checkout.git("config", "-f", ".gitmodules", "submodule.third_party/lib.ignore", "all")
    checkout.commit()
    header = checkout.folder / "third_party/lib/lib.h"
    (header.parent / "new.o").write_text("")
    assert read_source(checkout.folder).dirty == ()
    assert read_source(checkout.folder).untracked == ("third_party/lib",)
    header.write_text("int evil;\n")
    assert read_source(checkout.folder).dirty == ("third_party/lib",)
    git(header.parent, "update-index", "--skip-worktree", "lib.h")
    assert read_source(checkout.folder).dirty == ("third_party/lib/lib.h",)


def test_a_submodule_is_packaged_and_one_that_was_not_fetched_is_refused(
    checkout: Checkout, library: Path, tmp_path: Path
) -> None:
    with_submodule(checkout, library)
    assert "third_party/lib/lib.h" in files(export(read_project(checkout.folder), tmp_path / "tree"))
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(checkout.folder), str(clone))
    with pytest.raises(MissingInputError, match="submodule 'third_party/lib' was not fetched") as caught:
        export(read_project(clone), tmp_path / "tree")
    assert "git submodule update --init" in str(caught.value)


def test_names_that_are_no_text_are_packaged_and_a_missing_file_is_a_change(
    checkout: Checkout, tmp_path: Path
) -> None:
    names = {os.fsdecode(b"demo/caf\xe9.txt"), "demo/a\rb.txt", "demo/a\nb.txt"}
    for name in names:
        (checkout.folder / name).write_text("x")
    checkout.commit()
    assert names <= files(export(read_project(checkout.folder), tmp_path / "tree"))
    for name in names:
        (checkout.folder / name).unlink()
    assert set(read_source(checkout.folder).dirty) == {"demo/caf\\xe9.txt", "demo/a\rb.txt", "demo/a\nb.txt"}


def test_a_project_without_git_can_be_copied(checkout: Checkout, tmp_path: Path) -> None:
    project = read_project(checkout.folder)
    alone = Project(folder=project.folder, pyproject=project.pyproject)
    tree = export(alone, tmp_path / "tree")
    assert git(tree, "log", "--format=%at %ct").strip() == "0 0"


def test_of_the_tags_the_highest_version_counts(checkout: Checkout) -> None:
    checkout.git("tag", "-a", "-m", "x", "v1.0rc1")
    checkout.git("tag", "v1.0")
    checkout.git("tag", "-a", "-m", "x", "v0.9")
    assert (read_source(checkout.folder).tag, read_source(checkout.folder).distance) == ("v1.0", 0)
    for tag in ("v2-branch-point", "v3x"):
        checkout.commit()
        checkout.git("tag", tag)
    checkout.git("tag", "-a", "-m", "x", "v9-is-none")
    assert (read_source(checkout.folder).tag, read_source(checkout.folder).distance) == ("v1.0", 2)
    checkout.git("switch", "--quiet", "-c", "release")
    checkout.commit()
    checkout.git("tag", "v1.1")
    checkout.git("switch", "--quiet", "main")
    assert read_source(checkout.folder).tag == "v1.0"
    checkout.git("merge", "--quiet", "--no-ff", "-m", "back", "release")
    assert (read_source(checkout.folder).tag, read_source(checkout.folder).distance) == ("v1.1", 1)
    assert read_source(checkout.folder, "other-").tag == ""


def test_a_folder_that_the_repository_around_it_does_not_hold_has_no_commit(
    checkout: Checkout, tmp_path: Path
) -> None:
    for ignored in ("", "inner/\n"):
        inner = checkout.folder / "inner"
        inner.mkdir(exist_ok=True)
        (inner / "pyproject.toml").write_text('[project]\nname = "inner"\nversion = "1"\n')
        (checkout.folder / ".gitignore").write_text(f"dist/\n.spyre-ci/\n{ignored}")
        assert read_source(inner) == Source(commit="")
        assert files(export(read_project(inner), tmp_path / "tree")) == {"pyproject.toml"}


def test_before_the_first_commit_a_checkout_is_a_folder_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "pyproject.toml").write_text('[project]\nname = "new"\nversion = "1"\n')
    for _ in range(2):
        project = read_project(folder)
        assert project.source == Source(commit="")
        assert files(export(project, tmp_path / "tree")) == {"pyproject.toml"}
        git(folder, "add", ".")


def test_a_project_in_a_folder_of_a_repository_names_its_files_from_there(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit({"packages/ü x/pyproject.toml": '[project]\nname = "inner"\nversion = "1"\n'})
    inner = checkout.folder / "packages" / "ü x"
    (checkout.folder / "README.md").write_text("changed elsewhere")
    (inner / "pyproject.toml").write_text('[project]\nname = "inner"\nversion = "2"\n')
    (inner / "new.py").write_text("")
    source = read_source(inner)
    assert (source.dirty, source.untracked) == (("pyproject.toml",), ("new.py",))
    assert files(export(read_project(inner), tmp_path / "tree")) == {"pyproject.toml"}


def test_a_hooks_variables_do_not_change_which_repository_is_asked(
    checkout: Checkout, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = checkout.git("rev-parse", "HEAD").strip()
    monkeypatch.setenv("GIT_DIR", str(library / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(library))
    monkeypatch.setenv("GIT_INDEX_FILE", str(library / ".git/index"))
    assert (read_source(checkout.folder).commit, read_source(checkout.folder).dirty) == (commit, ())
    assert "demo/__init__.py" in files(export(read_project(checkout.folder), tmp_path / "tree"))
