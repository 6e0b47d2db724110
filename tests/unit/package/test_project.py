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
        ("project = 1", r"Expected `object`, got `int` - at `\$\.project` \(seen: 1\)"),
        ("", "missing required field `project`"),
        ("[project]", r"missing required field `name` - at `\$\.project`"),
        ("[project]\nname = '-x'", r"regex .* at `\$\.project\.name`"),
        (f"build-system = []\n{NAMED}", r"`\$\.build-system`"),
        (f"{NAMED}version = 1.0", r"got `float` - at `\$\.project\.version` \(seen: 1\.0\)"),
        (f"{NAMED}requires-python = '3 and up'", r"requires-python: .*3 and up"),
        (f"{NAMED}dependencies = [1]", r"`\$\.project\.dependencies\[0\]`"),
        ("[project", "is not TOML"),
    ],
)
def test_a_key_of_a_wrong_kind_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    with pytest.raises(BadFileError, match=said) as caught:
        read_pyproject(path)
    assert str(path) in str(caught.value)


def test_a_usual_one_is_read_as_far_as_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"{NAMED}requires-python = '>=3.11'\ndependencies = ['a']\nurls = {{a = 'b'}}\n")
    found = read_pyproject(path).project
    assert (found.name, found.requires_python, found.dependencies) == ("x", ">=3.11", ["a"])
