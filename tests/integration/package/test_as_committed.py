"""What is packaged as a commit is what it holds, however the checkout changes and whatever Git converts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.config import load_settings
from ci.core.errors import BadFileError
from ci.package import making
from ci.package.bed import lay
from ci.package.export import export
from ci.package.project import read_project, read_source
from ci.package.source import MovedError, with_settings
from ci.package.wiring import Bench
from tests.integration.package.conftest import Checkout
from tests.repositories import git

MODULE = "demo/__init__.py"


def bench_of(checkout: Checkout) -> Bench:
    folder = checkout.folder
    settings = load_settings(path=None, environ={}, flags={"state": str(folder.parent / "state")}, cwd=folder)
    records = folder / ".spyre-ci" / "records"
    return Bench(project=read_project(folder), settings=settings, dist=folder / "dist", records=records)


def test_a_file_that_changes_while_a_build_starts_is_not_built_as_the_commit(checkout: Checkout) -> None:
    (checkout.folder / "new.py").write_text("x = 1\n")
    bench = bench_of(checkout)

    def change(line: str) -> None:
        if line.startswith("left out"):
            (checkout.folder / MODULE).write_text("EVIL = 1\n")

    with pytest.raises(MovedError, match=rf"changed while it was copied: {MODULE} is not as ") as caught:
        making.make(bench, index=None, keep=False, twice=False, say=change)
    assert caught.value.exit_code == 3
    assert "begin again" in str(caught.value)
    checkout.git("checkout", "--", ".")
    assert not (bench.records / "build.json").exists()
    assert not bench.dist.exists()


def test_nor_is_it_tested_as_the_commit(checkout: Checkout, tmp_path: Path) -> None:
    project = read_project(checkout.folder)
    (checkout.folder / "demo" / "more.py").write_text("x = 1\n")
    checkout.git("add", "demo/more.py")
    with pytest.raises(MovedError, match=r"demo/more\.py is not as"):
        lay(project, tmp_path / "work", os.environ, requirements=(), constraints=())


def test_a_commit_that_was_made_meanwhile_is_said(checkout: Checkout, tmp_path: Path) -> None:
    project = read_project(checkout.folder)
    now = checkout.commit({MODULE: "x = 2\n"})
    with pytest.raises(MovedError, match=f"went from {project.source.commit[:12]} to {now[:12]}"):
        export(project, tmp_path / "tree")


def test_a_pyproject_that_was_another_when_it_was_read_is_said(checkout: Checkout, tmp_path: Path) -> None:
    told = checkout.folder / "pyproject.toml"
    before = told.read_text()
    told.write_text(before.replace("0.3.0", "9.9"))
    read = read_project(checkout.folder)
    told.write_text(before)
    seen = type(read)(
        folder=read.folder, name="demo", pyproject=read.pyproject, source=read_source(checkout.folder)
    )
    with pytest.raises(MovedError, match="changed after it was read"):
        export(seen, tmp_path / "tree")


def test_a_changed_checkout_is_copied_as_it_is(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.folder / MODULE).write_text("x = 2\n")
    tree = export(read_project(checkout.folder), tmp_path / "tree")
    assert (tree / MODULE).read_text() == "x = 2\n"


@pytest.mark.parametrize(
    ("config", "attributes", "why"),
    [
        ("core.autocrlf=true", "", r"by core\.autocrlf, or attributes outside the commit"),
        ("core.eol=crlf", "* text\n", r"by text=set"),
        ("x.y=1", "README.md ident\n", r"README\.md \(by ident=set\)"),
        ("filter.up.smudge=tr a-z A-Z", "README.md filter=up\n", r"README\.md \(by filter=up\)"),
    ],
)
def test_bytes_that_git_made_on_their_way_out_are_not_the_commits(
    checkout: Checkout, tmp_path: Path, config: str, attributes: str, why: str
) -> None:
    # A filter that gives back what was committed, so that Git calls the file clean.
    back = ["-c", "filter.up.clean=git cat-file blob HEAD:README.md"]
    checkout.commit({"README.md": "# demo $Id$\n", ".gitattributes": attributes})
    clone = tmp_path / "clone"
    key, _, value = config.partition("=")
    git(tmp_path, "clone", "--quiet", "-c", config, *back, str(checkout.folder), str(clone))
    assert git(clone, "config", "--get", key).strip() == value
    assert read_source(clone).dirty == ()
    with pytest.raises(BadFileError, match=why) as caught:
        export(read_project(clone), tmp_path / "tree")
    assert "Git checks out other bytes than the commit holds" in str(caught.value)
    assert "core.autocrlf=false" in str(caught.value)


def test_ends_of_lines_that_the_commit_itself_asks_for_are_its_own(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit({"run.bat": "echo\n", ".gitattributes": "*.bat text eol=crlf\n"})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(checkout.folder), str(clone))
    assert (clone / "run.bat").read_bytes() == b"echo\r\n"
    assert (export(read_project(clone), tmp_path / "tree") / "run.bat").is_file()
    (clone / ".git/info/attributes").write_text("*.bat eol=crlf\n")
    with pytest.raises(BadFileError, match=r"run\.bat \(by text=set, eol=crlf\)"):
        export(read_project(clone), tmp_path / "tree")


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
    with pytest.raises(MovedError, match=r"lib/lib\.h is not as"):
        export(project, tmp_path / "tree")


def dirty(folder: Path, path: Path | None) -> tuple[str, ...]:
    return with_settings(folder, read_source(folder), path).dirty


def test_a_settings_file_that_git_does_not_know_is_a_change(checkout: Checkout, tmp_path: Path) -> None:
    path = checkout.folder / "spyre-ci.yaml"
    path.write_text("package: {lint: {skip: [ruff]}}\n")
    assert dirty(checkout.folder, path) == ("spyre-ci.yaml",)
    (checkout.folder / ".git/info/exclude").write_text("spyre-ci.yaml\n")
    assert read_source(checkout.folder).untracked == ()
    assert dirty(checkout.folder, path) == ("spyre-ci.yaml",)
    (tmp_path / "way").symlink_to(path)
    assert dirty(checkout.folder, tmp_path / "way") == ("spyre-ci.yaml",)
    (checkout.folder / ".git/info/exclude").write_text("")
    checkout.commit()
    assert dirty(checkout.folder, path) == dirty(checkout.folder, tmp_path / "way") == ()


def test_so_is_one_of_the_repository_around_the_project_and_a_link_out_of_it(
    checkout: Checkout, tmp_path: Path
) -> None:
    inner = checkout.folder / "inner"
    checkout.commit({"inner/pyproject.toml": '[project]\nname = "inner"\n', "all.yaml": "{}\n"})
    assert dirty(inner, checkout.folder / "all.yaml") == ()
    (checkout.folder / "all.yaml").write_text("package: {}\n")
    assert dirty(inner, checkout.folder / "all.yaml") == ("../all.yaml",)
    (tmp_path / "ours.yaml").write_text("{}\n")
    (checkout.folder / "link.yaml").symlink_to(tmp_path / "ours.yaml")
    checkout.commit()
    assert dirty(inner, checkout.folder / "link.yaml") == ("../link.yaml",)
    assert dirty(inner, tmp_path / "ours.yaml") == dirty(inner, None) == ()


def test_lint_by_settings_that_git_does_not_know_opens_no_gate(checkout: Checkout) -> None:
    (checkout.folder / "spyre-ci.yaml").write_text("package: {lint: {skip: [ruff, ruff-format]}}\n")
    checkout.package("lint")
    record = (checkout.folder / ".spyre-ci/records/lint.json").read_text()
    assert '"spyre-ci.yaml"' in record.partition('"dirty"')[2].partition("]")[0]
