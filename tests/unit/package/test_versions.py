"""Which version is built."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ci.core.errors import BadFileError, UsageError
from ci.package.project import Project, Source, read_pyproject
from ci.package.versions import put_version, version_to_build

SHA = "0123456789abcdef" * 2 + "01234567"
releases = st.lists(st.integers(0, 99), min_size=1, max_size=4).map(
    lambda numbers: ".".join(map(str, numbers))
)


def source(tag: str = "", distance: int = 0, **more: object) -> Source:
    return Source(**({"commit": SHA, "tag": tag, "distance": distance} | more))  # type: ignore[arg-type]  # of any field


def test_a_tagged_commit_has_its_tags_version() -> None:
    assert str(version_to_build("", source("v1.4.0"))) == "1.4.0"
    assert str(version_to_build("1.4", source("v1.4.0"))) == "1.4.0"
    assert str(version_to_build("", source("rel-2.0rc1"), prefix="rel-")) == "2.0rc1"


@pytest.mark.parametrize(
    ("declared", "tag", "distance", "version"),
    [
        ("", "v1.4.0", 3, "1.4.1.dev3+g012345678"),
        ("1.4.0", "v1.4.0", 3, "1.4.1.dev3+g012345678"),
        ("1.5.0", "v1.4.0", 3, "1.5.0.dev3+g012345678"),
        ("1.5.0.dev0", "v1.4.0", 3, "1.5.0.dev3+g012345678"),
        ("1.5.0.dev0", "v1.5.0rc1", 2, "1.5.0rc2.dev2+g012345678"),
        ("1.0.dev0", "v1.0rc1", 1, "1.0rc2.dev1+g012345678"),
        ("1.0rc3", "v1.0rc1", 1, "1.0rc3.dev1+g012345678"),
        ("1.1", "v1.0rc1", 1, "1.1.dev1+g012345678"),
        ("1.0.dev0", "v1.0.dev1", 1, "1.0.dev2+g012345678"),
        ("", "v1.0.dev1", 3, "1.0.dev4+g012345678"),
        ("1.0rc1", "v1.0.dev1", 3, "1.0rc1.dev3+g012345678"),
        ("1.1", "v1.0.dev1", 3, "1.1.dev3+g012345678"),
        ("", "v1!1.0rc1.dev2", 3, "1!1.0rc1.dev5+g012345678"),
        ("", "v1.0.post1.dev2", 3, "1.0.post1.dev5+g012345678"),
        ("", "v1.0.post1", 3, "1.1.dev3+g012345678"),
        ("", "v2.0rc1", 2, "2.0rc2.dev2+g012345678"),
        ("", "v1!3.1", 1, "1!3.2.dev1+g012345678"),
        ("0.1.0", "", 12, "0.1.0.dev12+g012345678"),
        ("", "", 12, "0.0.1.dev12+g012345678"),
    ],
)
def test_every_other_commit_comes_before_the_next_release(
    declared: str, tag: str, distance: int, version: str
) -> None:
    assert str(version_to_build(declared, source(tag, distance))) == version


def test_a_changed_checkout_of_a_tag_is_not_its_release() -> None:
    made = version_to_build("", source("v1.4.0", dirty=("a.py",)))
    assert str(made) == "1.4.1.dev0+g012345678.dirty"


def test_an_index_that_takes_no_local_versions_gets_none() -> None:
    assert str(version_to_build("", source("v1.4.0", 3), local=False)) == "1.4.1.dev3"


any_versions = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "1!"]),
    releases,
    st.sampled_from(["", "a0", "b2", "rc1"]),
    st.sampled_from(["", ".post0", ".post3"]),
    st.sampled_from(["", ".dev0", ".dev7"]),
)


@given(st.one_of(st.just(""), any_versions), any_versions, st.integers(1, 500), st.booleans())
def test_whatever_is_tagged_and_declared_every_later_commit_has_a_greater_version(
    declared: str, tagged: str, distance: int, local: bool
) -> None:
    at = version_to_build(declared, source(f"v{tagged}", distance), local=local)
    later = version_to_build(declared, source(f"v{tagged}", distance + 1), local=local)
    assert Version(tagged) < at < later
    assert at.is_devrelease


def test_a_changed_checkout_of_a_development_tag_is_not_what_it_names() -> None:
    made = version_to_build("", source("v1.0.dev1", dirty=("a.py",)))
    assert Version("1.0.dev1") < made
    assert str(made) == "1.0.dev2+g012345678.dirty"


@given(releases, releases, st.integers(1, 500))
def test_versions_grow_with_commits_and_stay_between_releases(
    declared: str, tagged: str, distance: int
) -> None:
    at = version_to_build(declared, source(f"v{tagged}", distance))
    later = version_to_build(declared, source(f"v{tagged}", distance + 1))
    assert Version(tagged) < at < later
    assert at.is_devrelease
    assert later < Version(later.base_version)


def test_a_tag_beside_another_declared_version_is_refused() -> None:
    with pytest.raises(
        BadFileError, match=r"tagged v1\.4\.0, but the project declares version 1\.3"
    ) as caught:
        version_to_build("1.3", source("v1.4.0"))
    assert "set the version to 1.4.0" in str(caught.value)


def test_a_shallow_clone_cannot_count() -> None:
    with pytest.raises(UsageError, match="shallow") as caught:
        version_to_build("1.0", source(distance=1, shallow=True))
    assert "fetch-depth: 0" in str(caught.value)
    assert str(version_to_build("", source("v1.0", 2, shallow=True))) == "1.1.dev2+g012345678"


def test_without_git_the_declared_version_holds() -> None:
    assert str(version_to_build("1.0", Source(commit=""))) == "1.0"
    with pytest.raises(UsageError, match="this is not a Git checkout"):
        version_to_build("", Source(commit=""))


def test_what_is_no_version_is_said() -> None:
    with pytest.raises(BadFileError, match="'one' is not a version"):
        version_to_build("one", source())


NEW = Version("2.0.dev3+gabc")
ATTR = '[tool.setuptools.dynamic]\nversion = {attr = "pkg.version.__version__"}\n'


def put(tree: Path, text: str, file: Path | None = None) -> object:
    (tree / "pyproject.toml").write_text(text, encoding="utf-8")
    one = Project(folder=tree, pyproject=read_pyproject(tree / "pyproject.toml"))
    return put_version(tree, one, NEW, file)


def test_a_declared_version_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    text = '[a]\nversion = "8"\n[project] # it\nname = "x"\nversion = "1.0" # now\n\n[x]\nversion = "9"\n'
    assert put(tmp_path, text) == {}
    assert (tmp_path / "pyproject.toml").read_text() == text.replace('"1.0"', f'"{NEW}"')


@pytest.mark.parametrize("place", ["pkg/version.py", "src/pkg/version.py", "pkg/version/__init__.py"])
def test_a_version_that_a_module_assigns_is_replaced_where_it_stands(tmp_path: Path, place: str) -> None:
    module = tmp_path / place
    module.parent.mkdir(parents=True)
    text = '"""1.0 é"""\nVERSION = "wire/3"\n__version__: str = \'1.0\'  # é\nother = "1.0"\n'
    module.write_text(text, "utf-8")
    assert put(tmp_path, f'[project]\nname = "x"\n{ATTR}') == {}
    assert module.read_text("utf-8") == text.replace("'1.0'", f"'{NEW}'")
    module.write_text(text, "utf-8")
    assert put(tmp_path, '[project]\nname = "x"\n', Path(place)) == {}
    assert module.read_text("utf-8") == text.replace("'1.0'", f"'{NEW}'")


@pytest.mark.parametrize("tool", ["[tool.setuptools_scm]", '[tool.hatch.version]\nsource = "vcs"'])
def test_a_back_end_that_asks_git_is_told_by_the_environment(tmp_path: Path, tool: str) -> None:
    told = put(tmp_path, f'[project]\nname = "x"\n{tool}\n')
    assert told == {"SETUPTOOLS_SCM_PRETEND_VERSION": str(NEW)}


@pytest.mark.parametrize("file", [None, Path("gone.py"), Path("../outside.py")])
def test_a_version_nobody_finds_is_asked_for(tmp_path: Path, file: Path | None) -> None:
    inner = tmp_path / "project"
    inner.mkdir()
    (tmp_path / "outside.py").write_text("__version__ = '1'\n")
    with pytest.raises(UsageError, match="not known where the project keeps its version") as caught:
        put(inner, '[project]\nname = "x"\n', file)
    assert "setuptools-scm" in str(caught.value)
    (inner / "v.py").write_text("__version__ = made()\n")
    with pytest.raises(UsageError, match="not known where the project keeps its version"):
        put(inner, '[project]\nname = "x"\n', Path("v.py"))
