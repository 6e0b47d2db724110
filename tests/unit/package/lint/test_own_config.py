"""A project's own configuration wins; ours is for what it says nothing of."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci.core.errors import SettingsError
from ci.package.lint.files import File
from ci.package.lint.linters import LINTERS
from ci.package.lint.own_config import CODESPELL, RUFF, OwnConfig, own_config, read_below, spelling_of


def config(files: Mapping[str, bytes], above: Mapping[str, bytes] | None = None) -> OwnConfig:
    return own_config([File(path=name) for name in files], files.get, above=[above] if above else [])


def words(own: OwnConfig, linter: str, path: str) -> tuple[str, ...]:
    one = next(one for one in LINTERS if one.name == linter)
    return one.words(File(path=path), own)


@pytest.mark.parametrize(
    ("name", "text"),
    [("ruff.toml", b""), (".ruff.toml", b""), ("pyproject.toml", b"[tool.ruff]\nline-length = 79\n")],
)
def test_a_project_with_rules_for_ruff_is_held_to_them(name: str, text: bytes) -> None:
    assert words(config({name: text}), "ruff", "a/b.py") == ()


def test_a_project_without_rules_is_held_to_ours_and_to_the_oldest_python_it_names() -> None:
    own = config({"pyproject.toml": b'[project]\nname = "a"\nrequires-python = ">=3.9,<4"\n'})
    assert words(own, "ruff", "a.py") == ("--config", str(RUFF), "--target-version", "py39")
    assert words(own, "ruff-format", "a.py") == words(own, "ruff", "a.py")


def test_rules_of_a_folder_hold_there_and_ours_elsewhere() -> None:
    own = config({"tools/ruff.toml": b""})
    assert words(own, "ruff", "tools/deep/a.py") == ()
    assert words(own, "ruff", "a.py") == ("--config", str(RUFF))
    assert words(own, "ruff", "toolsmith/a.py") == ("--config", str(RUFF))


def test_rules_of_the_repository_around_the_project_hold() -> None:
    assert words(config({"a.py": b""}, above={".ruff.toml": b""}), "ruff", "a.py") == ()
    assert words(config({"a.py": b""}, above={"pyproject.toml": b"[tool.ruff]"}), "ruff", "a.py") == ()
    assert config({"a.h": b""}, above={".clang-format": b""}).has_clang_format(File(path="x/a.h"))


def test_a_pyproject_that_is_no_toml_has_no_rules() -> None:
    assert words(config({"pyproject.toml": b"[tool.ruff"}), "ruff", "a.py")[0] == "--config"


def test_clang_format_looks_where_the_project_has_its_file() -> None:
    own = config({"csrc/.clang-format": b""})
    assert own.has_clang_format(File(path="csrc/x/a.cpp"))
    assert not own.has_clang_format(File(path="other/a.cpp"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.cfg", b"[codespell]\nskip = *.json, third_party\ncheck-hidden =\n"),
        (".codespellrc", b"[codespell]\nskip = *.json,third_party\ncheck-hidden\n"),
        ("pyproject.toml", b'[tool.codespell]\nskip = ["*.json", "third_party"]\ncheck-hidden = true\n'),
        ("pyproject.toml", b'[tool.codespell]\nskip = "*.json,third_party"\ncheck-hidden = true\n'),
    ],
)
def test_what_the_project_skips_is_not_spell_checked(name: str, text: bytes) -> None:
    spelling = config({name: text}).spelling
    assert (spelling.own, spelling.skip, spelling.hidden) == (True, ("*.json", "third_party"), True)
    assert words(config({name: text}), "codespell", "a.md") == ()


def test_a_later_file_of_codespell_wins() -> None:
    files = {"pyproject.toml": b'[tool.codespell]\nskip = "a"\n', "setup.cfg": b"[codespell]\nskip = b\n"}
    assert config(files).spelling.skip == ("b",)


def test_a_false_switch_of_codespell_is_none() -> None:
    own = config({"pyproject.toml": b"[tool.codespell]\ncheck-hidden = false\n"})
    assert not own.spelling.hidden


def test_without_codespell_options_ours_hold() -> None:
    own = config({"setup.cfg": b"[metadata]\nname = a\n"})
    assert not own.spelling.own
    assert "*.lock" in own.spelling.skip
    assert words(own, "codespell", "a.md") == ("--config", str(CODESPELL))


@pytest.mark.parametrize(
    ("path", "looks"),
    [
        ("a.md", True),
        ("deep/a.json", False),
        ("third_party/x/a.md", False),
        ("src/third_party/a.md", False),
        ("docs/api/a.md", False),
        ("docs/other/a.md", True),
        (".github/a.md", False),
        ("src/.hidden.md", False),
    ],
)
def test_codespell_comes_to_the_files_it_would_come_to_by_itself(path: str, looks: bool) -> None:
    spelling = spelling_of({"skip": "*.json,third_party,./docs/api"}, own=True)
    assert spelling.looks_at(File(path=path)) is looks


@pytest.mark.parametrize("key", ["write-changes", "write", "interactive"])
def test_a_configuration_that_would_write_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match=f"configured with '{key}'.*would change them") as caught:
        spelling_of({key: "2"}, own=True)
    assert "package.lint.skip" in str(caught.value)


@pytest.mark.parametrize("key", ["Write-Changes", "write-changes=", "interactive=3"])
def test_a_key_that_would_write_is_known_however_it_is_spelled(key: str) -> None:
    with pytest.raises(SettingsError, match="would change them"):
        config({"pyproject.toml": f'[tool.codespell]\n"{key}" = true\n'.encode()})


@pytest.mark.parametrize("key", ["help", "hel", "version", "ver"])
def test_a_configuration_by_which_nothing_is_looked_at_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match=f"configured with '{key}', so it would end without a look"):
        spelling_of({key: ""}, own=True)


def test_a_value_that_is_an_option_is_refused() -> None:
    with pytest.raises(SettingsError, match="'check-hidden = -w', which it takes for one more option"):
        spelling_of({"check-hidden": "-w"}, own=True)
    assert spelling_of({"dictionary": "-", "quiet-level": "-1"}, own=True).own


def test_what_lies_on_the_disk_holds_whether_or_not_it_is_among_the_files() -> None:
    disk = {"a/ruff.toml": b"", "a/.clang-format": b"", ".codespellrc": b"[codespell]\nskip = x\n"}
    own = own_config([File(path="a/b/c.py")], disk.get)
    assert own.has_ruff(File(path="a/b/c.py"))
    assert own.has_clang_format(File(path="a/b/c.h"))
    assert own.spelling.skip == ("x",)


def test_a_link_is_read_as_linters_read_it(tmp_path: Path) -> None:
    (tmp_path / "rules").write_bytes(b"x")
    (tmp_path / "ruff.toml").symlink_to(tmp_path / "rules")
    (tmp_path / "setup.cfg").symlink_to(tmp_path / "gone")
    (tmp_path / ".codespellrc").mkdir()
    read = read_below(tmp_path)
    assert (read("ruff.toml"), read("setup.cfg"), read(".codespellrc")) == (b"x", None, None)


def test_our_rules_for_ruff_are_toml_with_sorting_and_likely_bugs() -> None:
    rules = tomllib.loads(RUFF.read_text(encoding="utf-8"))
    assert {"B", "E", "F", "I"} <= set(rules["lint"]["select"])


@pytest.mark.parametrize(
    ("files", "looks"),
    [
        ({".groovylintrc.json"}, True),
        ({".groovylintrc.yml"}, True),
        ({"tests/.groovylintrc.json"}, False),
        (set(), False),
        # A program of the project would be run by looking at it.
        ({".groovylintrc.js"}, False),
        ({".groovylintrc.json", ".groovylintrc.cjs"}, False),
    ],
)
def test_groovy_is_looked_at_where_the_project_has_rules_that_are_no_program(
    files: set[str], looks: bool
) -> None:
    linter = next(one for one in LINTERS if one.name == "npm-groovy-lint")
    own = config(dict.fromkeys(files, b""))
    assert linter.looks_at(File(path="jenkins/Jenkinsfile.pr"), own) == looks


def test_who_leaves_codespell_out_is_not_told_of_its_configuration() -> None:
    rules = {".codespellrc": b"[codespell]\nwrite-changes =\n"}
    assert own_config([File(path="a.md")], rules.get, spells=False) == OwnConfig()
