"""What is packaged as a commit is what it holds, however the checkout changes and whatever Git converts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.config import load_settings
from ci.package import building
from ci.package.context import Context
from ci.package.export import export
from ci.package.project import MovedError, read_project, read_source
from ci.package.unit import install
from tests.integration.package.conftest import Checkout
from tests.repositories import git

MODULE = "demo/__init__.py"


def context_of(checkout: Checkout) -> Context:
    folder = checkout.folder
    settings = load_settings(path=None, environ={}, flags={"state": str(folder.parent / "state")}, cwd=folder)
    records = folder / ".spyre-ci" / "records"
    return Context(project=read_project(folder), settings=settings, dist=folder / "dist", records=records)


def test_a_file_that_changes_while_a_build_starts_is_not_built_as_the_commit(checkout: Checkout) -> None:
    (checkout.folder / "new.py").write_text("x = 1\n")
    context = context_of(checkout)

    def change(line: str) -> None:
        if line.startswith("left out"):
            (checkout.folder / MODULE).write_text("EVIL = 1\n")

    with pytest.raises(MovedError, match=rf"changed meanwhile: {MODULE}") as caught:
        building.make(context, building.How(), change)
    assert caught.value.exit_code == 3
    assert "start again" in str(caught.value)
    checkout.git("checkout", "--", ".")
    assert not (context.records / "build.json").exists()
    assert not context.dist.exists()


def test_nor_is_it_tested_as_the_commit(checkout: Checkout, tmp_path: Path) -> None:
    context = context_of(checkout)
    (checkout.folder / "demo" / "more.py").write_text("x = 1\n")
    checkout.git("add", "demo/more.py")
    with pytest.raises(MovedError, match=r"changed meanwhile: demo/more\.py"):
        install(context, tmp_path / "work", os.environ)


def test_a_commit_that_was_made_meanwhile_is_said(checkout: Checkout, tmp_path: Path) -> None:
    project = read_project(checkout.folder)
    checkout.commit({MODULE: "x = 2\n"})
    with pytest.raises(MovedError, match="changed meanwhile: HEAD"):
        export(project, tmp_path / "tree")


def test_a_changed_checkout_is_copied_as_it_is(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.folder / MODULE).write_text("x = 2\n")
    tree = export(read_project(checkout.folder), tmp_path / "tree")
    assert (tree / MODULE).read_text() == "x = 2\n"


def test_another_commit_that_stands_in_for_the_one_checked_out_is_a_change(checkout: Checkout) -> None:
    commit = checkout.git("rev-parse", "HEAD").strip()
    (checkout.folder / MODULE).write_text("EVIL = 1\n")
    checkout.git("add", MODULE)
    made = checkout.git("commit-tree", "-m", "other", checkout.git("write-tree").strip()).strip()
    checkout.git("replace", commit, made)
    assert checkout.git("status", "--porcelain") == ""
    source = read_source(checkout.folder)
    assert (source.commit, source.dirty) == (commit, (MODULE,))


def test_a_submodules_files_are_those_its_commit_holds(checkout: Checkout, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "--quiet")
    (library / "lib.h").write_text("int one;\n")
    git(library, "add", ".")
    git(library, "commit", "--quiet", "-m", "library")
    checkout.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    checkout.commit()
    project = read_project(checkout.folder)
    export(project, tmp_path / "tree")
    (checkout.folder / "lib/lib.h").write_text("int evil;\n")
    with pytest.raises(MovedError, match=r"changed meanwhile: lib"):
        export(project, tmp_path / "tree")


def test_a_settings_file_that_git_does_not_know_is_a_change(checkout: Checkout, tmp_path: Path) -> None:
    def dirty(folder: Path, path: Path | None) -> tuple[str, ...]:
        return read_source(folder, settings=path).dirty

    path, exclude = checkout.folder / "spyre-ci.yaml", checkout.folder / ".git/info/exclude"
    path.write_text("package: {lint: {skip: [ruff]}}\n")
    assert dirty(checkout.folder, path) == ("spyre-ci.yaml",)
    exclude.write_text("spyre-ci.yaml\n")
    assert read_source(checkout.folder).untracked == ()
    (tmp_path / "way").symlink_to(path)
    assert dirty(checkout.folder, path) == dirty(checkout.folder, tmp_path / "way") == ("spyre-ci.yaml",)
    exclude.write_text("")
    inner = checkout.folder / "inner"
    checkout.commit({"inner/pyproject.toml": '[project]\nname = "inner"\n'})
    assert dirty(checkout.folder, path) == dirty(inner, path) == ()
    path.write_text("package: {}\n")
    assert dirty(inner, path) == ("../spyre-ci.yaml",), "of the repository around the project"
    (tmp_path / "ours.yaml").write_text("{}\n")
    assert dirty(inner, tmp_path / "ours.yaml") == dirty(inner, None) == ()


def test_lint_by_settings_that_git_does_not_know_opens_no_gate(checkout: Checkout) -> None:
    (checkout.folder / "spyre-ci.yaml").write_text("package: {lint: {skip: [ruff, ruff-format]}}\n")
    checkout.package("lint")
    record = (checkout.folder / ".spyre-ci/records/lint.json").read_text()
    assert '"spyre-ci.yaml"' in record.partition('"dirty"')[2].partition("]")[0]
