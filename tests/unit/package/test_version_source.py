"""Where a project keeps its version."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from ci.errors import BadFileError, UsageError
from ci.package.project import Project, Source
from ci.package.version_source import put_version

NEW = Version("2.0.dev3+gabc")


def project(folder: Path, text: str) -> Project:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    content = tomllib.loads(text)
    return Project(folder=folder, name="my-back.end", pyproject=content, source=Source(commit=""))


def test_a_declared_version_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    text = '[project]\nname = "x"  # ours\nversion = "1.0" # now\n\n[tool.x]\nversion = "9"\n'
    assert put_version(tmp_path, project(tmp_path, text), NEW) == {}
    assert (tmp_path / "pyproject.toml").read_text() == text.replace('"1.0"', '"2.0.dev3+gabc"')


@pytest.mark.parametrize(
    "tool",
    [
        '[tool.setuptools.dynamic]\nversion = {attr = "pkg.version.__version__"}',
        (
            '[tool.setuptools]\npackage-dir = {"" = "src"}\n'
            '[tool.setuptools.dynamic]\nversion = {attr = "pkg.version.__version__"}'
        ),
        '[tool.hatch.version]\npath = "pkg/version.py"',
        (
            '[tool.scikit-build.metadata.version]\nprovider = "scikit_build_core.metadata.regex"\n'
            'input = "pkg/version.py"'
        ),
    ],
)
def test_an_assigned_version_is_replaced_where_it_stands(tmp_path: Path, tool: str) -> None:
    folder = tmp_path / ("src/pkg" if "src" in tool else "pkg")
    folder.mkdir(parents=True)
    module = folder / "version.py"
    module.write_text(
        '"""1.0 é"""\n__all__ = ["__version__"]\n__version__: str = "1.0"  # é\nother = "1.0"\n', "utf-8"
    )
    put_version(tmp_path, project(tmp_path, f'[project]\nname = "x"\n{tool}\n'), NEW)
    expected = (
        '"""1.0 é"""\n__all__ = ["__version__"]\n__version__: str = \'2.0.dev3+gabc\'  # é\nother = "1.0"\n'
    )
    assert module.read_text("utf-8") == expected


def test_a_version_over_several_lines_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "v.py").write_text('__version__ = (\n    "1"\n    ".0"\n)\nx = 1\n')
    put_version(tmp_path, project(tmp_path, '[project]\nname = "x"\n'), NEW, Path("v.py"))
    namespace: dict[str, object] = {}
    exec((tmp_path / "v.py").read_text(), namespace)  # noqa: S102  # of this test
    assert namespace["__version__"] == str(NEW)
    assert namespace["x"] == 1


def test_a_file_that_is_the_version_is_written(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n[tool.setuptools.dynamic]\nversion = {file = ["VERSION"]}\n'
    put_version(tmp_path, project(tmp_path, text), NEW)
    assert (tmp_path / "VERSION").read_text() == "2.0.dev3+gabc\n"


@pytest.mark.parametrize(
    "tool",
    [
        "[tool.setuptools_scm]",
        '[tool.hatch.version]\nsource = "vcs"',
        '[tool.scikit-build.metadata.version]\nprovider = "scikit_build_core.metadata.setuptools_scm"',
    ],
)
def test_back_ends_that_ask_the_repository_are_told_by_the_environment(tmp_path: Path, tool: str) -> None:
    given = put_version(tmp_path, project(tmp_path, f'[project]\nname = "x"\n{tool}\n'), NEW)
    assert given == {
        "SETUPTOOLS_SCM_PRETEND_VERSION": str(NEW),
        "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_BACK_END": str(NEW),
    }


def test_a_version_nobody_finds_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not known where the project keeps its version") as caught:
        put_version(tmp_path, project(tmp_path, '[project]\nname = "x"\n'), NEW)
    assert "package.version_file" in str(caught.value)


@pytest.mark.parametrize("text", ["x = 1\n", "__version__ = version()\n", "def f(:\n"])
def test_a_file_without_a_version_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "v.py").write_text(text)
    with pytest.raises(BadFileError, match=r"v\.py: (no version is assigned|cannot be read)"):
        put_version(tmp_path, project(tmp_path, '[project]\nname = "x"\n'), NEW, Path("v.py"))


def test_a_module_that_is_not_there_is_said(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n[tool.setuptools.dynamic]\nversion = {attr = "gone.__version__"}\n'
    with pytest.raises(BadFileError, match="attribute of module 'gone'"):
        put_version(tmp_path, project(tmp_path, text), NEW)


def test_a_version_file_outside_the_project_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "project"
    inner.mkdir()
    (tmp_path / "v.py").write_text('__version__ = "1"\n')
    with pytest.raises(BadFileError, match="outside the project"):
        put_version(inner, project(inner, '[project]\nname = "x"\n'), NEW, Path("../v.py"))
    assert (tmp_path / "v.py").read_text() == '__version__ = "1"\n'
