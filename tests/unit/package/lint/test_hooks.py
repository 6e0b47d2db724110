"""Which hooks look, and under whose rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.core.errors import BadFileError
from ci.package.lint.hooks import CONFIG, MissingToolError, from_index, ours, own

KNOWN = yaml.safe_load((Path(ours.__code__.co_filename).parent / "known.yaml").read_text())
RUFF = {"repo": "https://github.com/astral-sh/ruff-pre-commit", "rev": "v0.12.7"}


def local(repo: dict[str, Any], text: str = "") -> tuple[list[dict[str, Any]], dict[str, str]]:
    not_looked: dict[str, str] = {}
    found = from_index({"repos": [repo]}, KNOWN, text, not_looked)
    return [hook for one in found for hook in one["hooks"]], not_looked


def test_a_hook_of_a_known_repository_is_the_pinned_package_with_the_projects_own_words() -> None:
    hooks, not_looked = local({**RUFF, "hooks": [{"id": "ruff", "args": ["--fix"], "exclude": "^third/"}]})
    assert not_looked == {}
    (hook,) = hooks
    assert hook["additional_dependencies"] == ["ruff==0.12.7"]
    assert (hook["language"], hook["entry"]) == ("python", "ruff check --force-exclude")
    assert (hook["args"], hook["exclude"]) == (["--fix"], "^third/")


@pytest.mark.parametrize(
    ("repo", "hooks", "not_looked"),
    [
        ({**RUFF, "hooks": [{"id": "other"}]}, [], {"other": "is of astral-sh/ruff-pre-commit"}),
        ({**RUFF, "rev": "main", "hooks": [{"id": "ruff"}]}, [], {"ruff": "is of astral-sh"}),
        ({"repo": "https://github.com/rhysd/actionlint", "rev": "v1.7.7", "hooks": [{"id": "actionlint"}]},
         [], {"actionlint": "is of rhysd/actionlint, which cannot be fetched"}),
        ({"repo": "local", "hooks": [{"id": "a", "language": "node"}, {"id": "b", "language": "system"}]},
         ["b"], {"a": "needs more than Python's index (node)"}),
        ({"repo": "https://github.com/pre-commit/mirrors-mypy", "rev": "v1.11.1",
          "hooks": [{"id": "mypy", "language": "system", "args": ["x"]}]}, ["mypy"], {}),
        ({"repo": "https://github.com/PyCQA/flake8", "rev": "7.1.0", "hooks": [{"id": "flake8"}]},
         ["flake8"], {}),
    ],
)  # fmt: skip
def test_what_cannot_be_had_from_the_index_is_named(
    repo: dict[str, Any], hooks: list[str], not_looked: dict[str, str]
) -> None:
    found, why = local(repo)
    assert [one["id"] for one in found] == hooks
    assert why.keys() == not_looked.keys()
    assert all(not_looked[name] in said for name, said in why.items())
    assert not any("additional_dependencies" in one for one in found if one["language"] == "system")


def test_a_revision_that_is_frozen_is_the_version_of_its_comment() -> None:
    hooks, _ = local(
        {**RUFF, "rev": "a" * 40, "hooks": [{"id": "ruff"}]}, f"rev: {'a' * 40}  # frozen: v0.9.1"
    )
    assert hooks[0]["additional_dependencies"] == ["ruff==0.9.1"]


def test_hooks_of_other_stages_do_not_look_and_a_configuration_that_can_be_fetched_is_the_projects(
    tmp_path: Path,
) -> None:
    tree, home = tmp_path / "tree", tmp_path / "home"
    for folder in (tree, home):
        folder.mkdir()
    one = {**RUFF, "hooks": [{"id": "ruff"}, {"id": "later", "stages": ["manual"]}]}
    (tree / CONFIG).write_text(yaml.safe_dump({"repos": [one]}))
    plan = own(tree, home, lambda _: True)
    assert plan.config == tree / CONFIG
    assert [(hook.id, hook.version) for hook in plan.hooks] == [("ruff", "v0.12.7")]
    plan = own(tree, home, lambda _: False)
    assert plan.config == home / CONFIG
    assert [(hook.id, hook.version) for hook in plan.hooks] == [("ruff", "0.12.7")]


@pytest.mark.parametrize("text", ["", "repos: 3\n", "repos: [{hooks: [{}]}]\n", "a: [\n"])
def test_a_configuration_that_is_none_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(BadFileError, match="is no configuration of pre-commit"):
        own(tmp_path, tmp_path, lambda _: True)


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


@pytest.mark.parametrize(
    ("files", "looks"),
    [
        ([".groovylintrc.json"], True),
        ([], False),
        # A program of the project's would be run by looking at it.
        ([".groovylintrc.json", ".groovylintrc.js"], False),
    ],
)
def test_groovy_is_looked_at_where_the_project_has_rules_that_are_no_program(
    tmp_path: Path, files: list[str], looks: bool
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in files:
        (tree / name).write_text("{}")
    assert ("npm-groovy-lint" in {one.id for one in ours(tree, tools(tmp_path / "bin")).hooks}) == looks


def test_a_linter_that_is_not_installed_names_the_session_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="not installed: zizmor") as caught:
        ours(tmp_path, tools(tmp_path / "bin", "zizmor"))
    assert "nox -s lint" in str(caught.value)
