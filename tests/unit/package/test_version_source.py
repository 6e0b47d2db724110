"""Where a project keeps its version."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from ci.core.errors import BadFileError, UsageError
from ci.package.project import Project, Source
from ci.package.version_source import put_version, read_version

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


@pytest.mark.parametrize(
    ("attr", "others"),
    [
        ("__version__", 'VERSION = "protocol-7"\nversion = "wire/3"\n'),
        ("release", '__version__ = "3.1"\nVERSION = "protocol-7"\n'),
    ],
)
def test_other_constants_beside_the_named_attribute_stay(tmp_path: Path, attr: str, others: str) -> None:
    (tmp_path / "pkg").mkdir()
    module = tmp_path / "pkg" / "__init__.py"
    module.write_text(f'{others}{attr} = "1.0"\n')
    text = f'[project]\nname = "x"\n[tool.setuptools.dynamic]\nversion = {{attr = "pkg.{attr}"}}\n'
    assert read_version(tmp_path, project(tmp_path, text)) == "1.0"
    put_version(tmp_path, project(tmp_path, text), NEW)
    assert module.read_text() == f"{others}{attr} = '{NEW}'\n"


def test_where_no_name_is_said_only_the_best_is_the_version(tmp_path: Path) -> None:
    module = tmp_path / "v.py"
    module.write_text('version = "wire/3"\nVERSION = "1.0"\n')
    put_version(tmp_path, project(tmp_path, '[project]\nname = "x"\n'), NEW, Path("v.py"))
    assert module.read_text() == f"version = \"wire/3\"\nVERSION = '{NEW}'\n"


def test_an_attribute_that_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "pkg.py").write_text('VERSION = "protocol-7"\n__version__ = made()\n')
    text = '[project]\nname = "x"\n[tool.setuptools.dynamic]\nversion = {attr = "pkg.__version__"}\n'
    with pytest.raises(BadFileError, match=r"no version is assigned here, such as __version__ = '1\.2\.3'"):
        put_version(tmp_path, project(tmp_path, text), NEW)


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


SKBUILD = """[project]
name = "x"
[tool.scikit-build.metadata.version]
provider = "scikit_build_core.metadata.regex"
"""
HEADER = "input = \"v.h\"\nregex = '''#define X_VERSION \"(?P<value>[^\"]+)\"'''\n"
CMAKE = "input = \"CMakeLists.txt\"\nregex = '''VERSION\\s+(?P<value>[0-9.]+)'''\n"
PARTS = (
    "input = \"v.h\"\nregex = '''(?s)MAJOR (?P<major>[0-9]+).*MINOR (?P<minor>[0-9]+)'''\n"
    'result = "{major}.{minor}"\n'
)


def test_a_version_in_a_header_is_read_and_replaced_where_the_project_says(tmp_path: Path) -> None:
    (tmp_path / "v.h").write_bytes(b'// 1.0\r\n#define X_VERSION "1.0"\r\n')
    one = project(tmp_path, SKBUILD + HEADER)
    assert read_version(tmp_path, one) == "1.0"
    put_version(tmp_path, one, NEW)
    assert (tmp_path / "v.h").read_bytes() == b'// 1.0\r\n#define X_VERSION "2.0.dev3+gabc"\r\n'


def test_a_version_in_another_file_than_python_is_found_as_the_back_end_does(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text('VERSION = "v1.0"\n')
    one = project(tmp_path, SKBUILD + 'input = "v.txt"\n')
    assert read_version(tmp_path, one) == "1.0"
    put_version(tmp_path, one, NEW)
    assert read_version(tmp_path, one) == str(NEW)


def test_hatchlings_pattern_holds(tmp_path: Path) -> None:
    (tmp_path / "v.h").write_text("X_VERSION 1.0;\n")
    tool = '[tool.hatch.version]\npath = "v.h"\npattern = "X_VERSION (?P<version>[^;]+)"\n'
    text = f'[project]\nname = "x"\n{tool}'
    put_version(tmp_path, project(tmp_path, text), NEW)
    assert (tmp_path / "v.h").read_text() == "X_VERSION 2.0.dev3+gabc;\n"


def test_cmake_is_given_numbers_alone(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("project(x VERSION 1.0)\n")
    one = project(tmp_path, SKBUILD + CMAKE)
    assert read_version(tmp_path, one) == "1.0"
    with pytest.raises(UsageError, match="CMake takes numbers alone") as caught:
        put_version(tmp_path, one, NEW)
    assert "package.version: declared" in str(caught.value)
    put_version(tmp_path, one, Version("2.1"))
    assert (tmp_path / "CMakeLists.txt").read_text() == "project(x VERSION 2.1)\n"


def test_a_version_of_several_parts_is_read_and_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "v.h").write_text("#define MAJOR 1\n#define MINOR 5\n")
    one = project(tmp_path, SKBUILD + PARTS)
    assert read_version(tmp_path, one) == "1.5"
    with pytest.raises(UsageError, match="is made of several parts"):
        put_version(tmp_path, one, NEW)
    bad = project(tmp_path, SKBUILD + PARTS.replace("{minor}", "{patch}"))
    with pytest.raises(BadFileError, match="cannot be made as result"):
        read_version(tmp_path, bad)


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ('input = "gone.h"\n', "cannot be read"),
        ('input = "v.h"\n', "no version is here that"),
        ('input = "v.h"\nregex = "("\n', r"regex '\(' is none"),
    ],
)
def test_a_version_that_is_not_where_the_project_says_is_asked_for(
    tmp_path: Path, tool: str, said: str
) -> None:
    (tmp_path / "v.h").write_text("nothing\n")
    for act in (lambda one: read_version(tmp_path, one), lambda one: put_version(tmp_path, one, NEW)):
        with pytest.raises(BadFileError, match=said):
            act(project(tmp_path, SKBUILD + tool))


@pytest.mark.parametrize(
    "dynamic", ['{attr = "torch_spyre.version.__version__"}', '{file = ["VERSION"]}', '{file = "VERSION"}']
)
def test_a_version_that_is_made_when_it_is_built_is_read_where_it_is_kept(
    tmp_path: Path, dynamic: str
) -> None:
    (tmp_path / "VERSION").write_text("1.2.3\n")
    (tmp_path / "torch_spyre").mkdir()
    (tmp_path / "torch_spyre" / "version.py").write_text('__version__ = "1.2.3"\n')
    text = f'[project]\nname = "x"\ndynamic = ["version"]\n[tool.setuptools.dynamic]\nversion = {dynamic}\n'
    assert read_version(tmp_path, project(tmp_path, text)) == "1.2.3"


def test_a_file_that_is_the_version_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("1.2.3\n")
    one = project(tmp_path, '[project]\nname = "x"\n')
    assert read_version(tmp_path, one, Path("VERSION")) == "1.2.3"
    put_version(tmp_path, one, NEW, Path("VERSION"))
    assert (tmp_path / "VERSION").read_text() == f"{NEW}\n"


def test_a_declared_version_nobody_finds_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="in no file that is known of") as caught:
        read_version(tmp_path, project(tmp_path, '[project]\nname = "x"\n[tool.setuptools_scm]\n'))
    assert "package.version: git" in str(caught.value)
    text = '[project]\nname = "x"\n[tool.setuptools.dynamic]\nversion = {file = "GONE"}\n'
    with pytest.raises(BadFileError, match="cannot be read"):
        read_version(tmp_path, project(tmp_path, text))
