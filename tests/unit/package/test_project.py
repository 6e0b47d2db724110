"""What a pyproject.toml says; a key of a wrong kind is named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ci.core.errors import BadFileError
from ci.package.project import check_kinds, project_name

PATH = Path("/p/pyproject.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("project = 1", r"project is not a table \(seen: 1\)"),
        ("[[project]]", "project is not a table"),
        ("build-system = []", "build-system is not a table"),
        ("tool = 'x'", "tool is not a table"),
        ("[project]\nversion = 1.0", "project.version is not text"),
        ("[project]\nrequires-python = 3", "project.requires-python is not text"),
        (
            "[project]\nrequires-python = '3 and up'",
            "project.requires-python is not a specifier such as >=3.11 .*3 and up",
        ),
        ("[project]\ndependencies = 'torch'", "project.dependencies is not a list of texts"),
        ("[project]\ndependencies = [1]", "project.dependencies is not a list of texts"),
        ("[project]\ndynamic = 'version'", "project.dynamic is not a list of texts"),
        ("[build-system]\nrequires = 'setuptools'", "build-system.requires is not a list of texts"),
        ("[build-system]\nrequires = [{}]", "build-system.requires is not a list of texts"),
    ],
)
def test_a_key_of_a_wrong_kind_is_named_with_its_file(text: str, said: str) -> None:
    with pytest.raises(BadFileError, match=said) as caught:
        check_kinds(tomllib.loads(text), PATH)
    assert str(PATH) in str(caught.value)


def test_a_usual_one_passes() -> None:
    check_kinds(
        tomllib.loads("[project]\nname = 'x'\nrequires-python = '>=3.11'\ndependencies = ['a']"), PATH
    )
    check_kinds({}, PATH)


def test_a_project_that_is_no_table_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("project = []")
    with pytest.raises(BadFileError, match="project is not a table"):
        project_name(tmp_path / "pyproject.toml")
