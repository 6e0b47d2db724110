"""Which hooks look, and under whose rules."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ci.core.errors import CommandError
from ci.package.lint.linting import CONFIG, Hook, ours, own


def test_hooks_of_other_stages_do_not_look(tmp_path: Path) -> None:
    hooks = [{"id": "ruff"}, {"id": "later", "stages": ["manual"]}]
    (tmp_path / CONFIG).write_text(yaml.safe_dump({"repos": [{"repo": "x", "rev": "v1", "hooks": hooks}]}))
    assert own(tmp_path).hooks == [Hook(id="ruff", version="v1")]
    (tmp_path / CONFIG).write_text(
        yaml.safe_dump({"default_stages": ["pre-push"], "repos": [{"repo": "local", "hooks": hooks}]})
    )
    assert own(tmp_path).hooks == []


def tools(folder: Path, *without: str) -> str:
    folder.mkdir()
    for name in {"ruff", "codespell", "clang-format", "check-jsonschema", "zizmor", "shellcheck",
                 "hadolint", "npm-groovy-lint"} - set(without):  # fmt: skip
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("README", "", {"ruff.toml", ".codespellrc"}),
        ("ruff.toml", "line-length = 79\n", {".codespellrc"}),
        ("pyproject.toml", "[tool.ruff.lint]\nselect = ['F']\n[tool.codespell]\nskip = 'x'\n", set()),
        ("setup.cfg", "[codespell]\nskip = x\n", {"ruff.toml"}),
    ],
)
def test_our_rules_are_for_what_a_project_says_nothing_of(
    tmp_path: Path, name: str, text: str, written: set[str]
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / name).write_text(text)
    plan = ours(tree, tools(tmp_path / "bin"))
    assert {path.name for path in tree.iterdir()} - {name} == written
    assert (tree / name).read_text() == text
    assert plan.not_looked == {"actionlint": "is not installed"}
    assert [one.id for one in plan.hooks if one.fixes] == ["ruff-fix", "codespell-fix"]


@pytest.mark.parametrize("looks", [True, False])
def test_groovy_is_looked_at_where_the_project_has_rules(tmp_path: Path, looks: bool) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    if looks:
        (tree / ".groovylintrc.json").write_text("{}")
    assert ("npm-groovy-lint" in {one.id for one in ours(tree, tools(tmp_path / "bin")).hooks}) == looks


def test_a_linter_that_is_not_installed_names_the_session_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not installed: zizmor") as caught:
        ours(tmp_path, tools(tmp_path / "bin", "zizmor"))
    assert "nox -s lint" in str(caught.value)
