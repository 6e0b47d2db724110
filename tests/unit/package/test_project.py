"""What a pyproject.toml says; a key of a wrong kind is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import BadFileError
from ci.package.project import read_pyproject

NAMED = "[project]\nname = 'x'\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("project = 1", r"project: .* \(seen: 1\)"),
        ("", "project: Field required"),
        ("[project]", r"project\.name: Field required"),
        ("[project]\nname = '-x'", r"project\.name: .*'-x'"),
        (f"build-system = []\n{NAMED}", "build-system: "),
        (f"tool = 'x'\n{NAMED}", "tool: "),
        (f"{NAMED}version = 1.0", r"project\.version: .*string"),
        (f"{NAMED}requires-python = '3 and up'", r"project\.requires-python: .*3 and up"),
        (f"{NAMED}dependencies = [1]", r"project\.dependencies\.0: .*string"),
        (f"{NAMED}dynamic = 'version'", r"project\.dynamic: .*list"),
        (f"{NAMED}[build-system]\nrequires = [{{}}]", r"build-system\.requires\.0: "),
        ("[project", "is not TOML"),
    ],
)
def test_a_key_of_a_wrong_kind_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    with pytest.raises(BadFileError, match=said) as caught:
        read_pyproject(path)
    assert str(path) in str(caught.value)


def test_a_usual_one_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"{NAMED}requires-python = '>=3.11'\ndependencies = ['a']\nurls = {{a = 'b'}}\n")
    assert read_pyproject(path)["project"]["urls"] == {"a": "b"}
