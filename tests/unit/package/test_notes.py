"""What a project's configuration of towncrier may name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError
from ci.package.notes import refuse_outside


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"filename": "../NEWS.md"}, "filename leads out of the project: ../NEWS.md"),
        ({"filename": "/etc/motd"}, "filename leads out of the project: /etc/motd"),
        ({"filename": "{name!s}.md", "name": "../x", "single_file": False}, "out of the project: ../x.md"),
        ({"directory": "../changes"}, "directory leads out of the project: ../changes"),
        ({"package_dir": ".."}, "package_dir leads out of the project: .."),
        ({"directory": "a", "section": [{"path": "../../b"}]}, "section leads out of the project: a/../../b"),
    ],
)
def test_a_changelog_is_in_the_project_with_its_fragments(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadFileError) as caught:
        refuse_outside(tmp_path, config, "1.0", tmp_path / "pyproject.toml")
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_changelog_that_a_link_puts_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "NEWS.md").symlink_to(tmp_path / "theirs.md")
    with pytest.raises(BadFileError, match=r"filename leads out of the project: NEWS\.md"):
        refuse_outside(tmp_path / "p", {"filename": "NEWS.md"}, "1.0", tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"filename": "docs/{version}.md", "directory": "docs/new", "single_file": False},
        {"filename": "{odd}.md", "single_file": False},
        {"section": "x"},
    ],
)
def test_what_is_in_the_project_is_not_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    refuse_outside(tmp_path, config, "1.0", tmp_path)
