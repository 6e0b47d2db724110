"""Lint with the real linters: a fault for each, what `--fix` mends, and that looking changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ci.cli.app import run
from ci.core.commands import Ended, finish_command
from tests.integration.conftest import need
from tests.repositories import commit, git

WORKFLOW = """\
name: ci
on: [push]
jobs:
  one:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
    unknown-key: 1
"""
FAULTS = {
    "src/a.py": "import sys\nimport os\n\nx  =  1\n",
    "README.md": "This is teh project.\n",
    "csrc/.clang-format": "BasedOnStyle: LLVM\n",
    "csrc/a.cpp": "int  main( ){return 0;}\n",
    ".github/workflows/ci.yml": WORKFLOW,
    "tools/run.sh": "#!/bin/sh\necho $1\n",
    "Containerfile": "FROM debian\nRUN cd /tmp\n",
}
FOUND = {
    "ruff",
    "ruff-format",
    "codespell",
    "clang-format",
    "check-jsonschema",
    "zizmor",
    "shellcheck",
    "hadolint",
}
TOOLS = (FOUND - {"ruff-format"}) | {"pre-commit"}


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch) -> None:
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    missing = [name for name in TOOLS if shutil.which(name, path=places) is None]
    need(not missing, ", ".join(missing))
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


def project(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def committed(folder: Path) -> Path:
    commit(folder)
    return folder


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every name below a folder with its bytes, rights and time, Git's own files as well."""
    return {os.fsdecode(path.relative_to(folder)): _of(path) for path in [folder, *_below(folder)]}


def _below(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        yield from (Path(top, name) for name in [*folders, *files])


def _of(path: Path) -> tuple[object, ...]:
    seen = path.lstat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(seen.st_mode) else ""
    return seen.st_mode, seen.st_mtime_ns, seen.st_size, digest


def lint(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["package", "lint", str(folder), *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def found(
    capsys: pytest.CaptureFixture[str], folder: Path, *words: str
) -> dict[str, list[dict[str, object]]]:
    _, out, _ = lint(capsys, folder, "--json", *words)
    by_linter: dict[str, list[dict[str, object]]] = {}
    for one in json.loads(out)["findings"]:
        by_linter.setdefault(one["linter"], []).append(one)
    return by_linter


@pytest.mark.nightly
def test_a_fault_of_each_kind_is_found_where_it_is_and_nothing_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = committed(project(tmp_path / "p", FAULTS))
    before = state(folder)
    code, out, _ = lint(capsys, folder)
    assert code == 1
    by_linter = found(capsys, folder)
    assert state(folder) == before
    assert set(by_linter) - {"actionlint"} == FOUND
    places = {name: {one["path"] for one in several} for name, several in by_linter.items()}
    assert places["ruff"] == places["ruff-format"] == {"src/a.py"}
    assert places["codespell"] == {"README.md"}
    assert places["clang-format"] == {"csrc/a.cpp"}
    assert places["check-jsonschema"] == places["zizmor"] == {".github/workflows/ci.yml"}
    assert places["shellcheck"] == {"tools/run.sh"}
    assert places["hadolint"] == {"Containerfile"}
    assert "README.md:1: teh ==> the [codespell]" in out
    assert "src/a.py:1:8: F401 [*] `sys` imported but unused [ruff]" in out
    assert "src/a.py:4: ruff-format would change this [ruff-format]" in out
    assert "zizmor" in out.splitlines()[-1]


@pytest.mark.nightly
def test_mending_mends_what_it_can_and_says_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = committed(project(tmp_path / "p", FAULTS))
    code, _, _ = lint(capsys, folder, "--fix")
    assert code == 1
    assert (folder / "README.md").read_text() == "This is the project.\n"
    assert (folder / "src/a.py").read_text() == "x = 1\n"
    assert (folder / "csrc/a.cpp").read_text() == "int main() { return 0; }\n"
    left = set(found(capsys, folder)) - {"actionlint"}
    assert left == {"check-jsonschema", "zizmor", "shellcheck", "hadolint"}


def test_a_project_without_faults_passes_and_has_a_record_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = committed(project(tmp_path / "p", {"a.py": "x = 1\n"}))
    code, out, said = lint(capsys, folder, "--records", str(tmp_path / "records"))
    assert (code, out) == (0, "nothing found\n")
    assert "ruff " in said
    record = json.loads((tmp_path / "records" / "lint.json").read_text())
    assert record["passed"] is True
    assert len(record["commit"]) == 40
    assert record["linters"]["ruff"]["version"]


@pytest.mark.nightly
def test_the_projects_own_rules_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        **FAULTS,
        "pyproject.toml": (
            '[tool.ruff]\nextend-exclude = ["src"]\n[tool.codespell]\nignore-words-list = "teh"\n'
        ),
        "lib/b.py": "import os\n",
        ".hadolint.yaml": "ignored: [DL3006, DL3003, SC2164]\n",
        "tools/.shellcheckrc": "disable=SC2086\n",
        ".github/zizmor.yml": "rules: {unpinned-uses: {disable: true}}\n",
        ".clang-format-ignore": "csrc/*\n",
        "csrc/.clang-format-ignore": "a.cpp\n",
    }
    by_linter = found(capsys, committed(project(tmp_path / "p", files)))
    assert {one["path"] for one in by_linter["ruff"]} == {"lib/b.py"}
    assert not {"codespell", "hadolint", "shellcheck", "clang-format", "ruff-format"} & set(by_linter)
    assert not any("unpinned-uses" in str(one["message"]) for one in by_linter["zizmor"])


def test_a_file_that_is_called_as_an_option_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Linters that took it for one would print their help, and all other files would pass."""
    folder = project(tmp_path / "p", {"a.py": "import os\n", "--help": "#!/usr/bin/env python3\n"})
    (folder / "--help").chmod(0o755)
    committed(folder)
    assert set(found(capsys, folder)) == {"ruff"}
    (folder / "a.py").write_text("import  os\n")
    (folder / "-h").write_text("new\n")
    assert set(found(capsys, folder, "--changed", "HEAD")) == {"ruff", "ruff-format"}


def test_a_name_that_is_no_text_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path / "p", {"a.py": "x = 1\n", os.fsdecode(b"\xff.py"): "x = 1\n"})
    code, _, said = lint(capsys, folder)
    assert code == 2
    assert "pre-commit cannot read a file name that is not UTF-8" in said


def test_what_is_not_the_projects_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = project(tmp_path / "outside", {"a.md": "teh\n", "deep/b.md": "teh\n"})
    folder = project(tmp_path / "p", {"ok.md": "fine\n", ".gitignore": "ignored.md\n", "ignored.md": "teh\n"})
    (folder / "link.md").symlink_to(outside / "a.md")
    (folder / "deep").symlink_to(outside / "deep")
    committed(folder)
    inner = committed(project(folder / "inner", {"c.md": "teh\n"}))
    assert lint(capsys, folder, "--fix")[0] == 0
    assert (outside / "a.md").read_text() == (inner / "c.md").read_text() == "teh\n"
    assert (folder / "ignored.md").read_text() == "teh\n"


def test_a_linter_that_breaks_is_told_and_is_not_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project(tmp_path / "p", {"a.py": "x = 1\n", "ruff.toml": "no-such-setting = 1\n"})
    code, out, said = lint(capsys, folder)
    assert (code, out) == (3, "")
    assert "ruff: ended with code 2" in said
    assert "no-such-setting" in said


def test_rules_that_ask_for_fixes_fix_nothing_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = {"ruff.toml": "fix = true\nunsafe-fixes = true\n", "setup.cfg": "[codespell]\nwrite-changes =\n"}
    folder = project(tmp_path / "p", {"a.py": "import os\n", "a.md": "teh\n", **rules})
    assert lint(capsys, folder)[0] == 1
    assert (folder / "a.py").read_text() == "import os\n"
    assert (folder / "a.md").read_text() == "teh\n"


def test_a_folder_without_files_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p").mkdir()
    code, _, said = lint(capsys, tmp_path / "p")
    assert code == 2
    assert "there is no file to check" in said
    code, _, said = lint(capsys, tmp_path / "gone")
    assert code == 2
    assert "there is no such folder" in said


def test_github_gets_annotations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "p", {"a.md": "teh\n" * 12})
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    _, out, _ = lint(capsys, folder)
    told = [line for line in out.splitlines() if line.startswith("::")]
    assert told[0] == "::error file=p/a.md,line=1,title=codespell::teh ==> the"
    assert told[-1].startswith("::notice::2 more findings")
    assert len(told) == 11


def _in_nox(folder: Path, *words: str) -> Ended:
    root = Path(__file__).parents[3]
    argv: list[str | Path] = ["nox", "-f", root / "noxfile.py", "--no-venv", "-s", "lint"]
    argv += ["--", folder, *words]
    return finish_command(argv, timeout_s=500, env={**os.environ, "PYTHONPATH": str(root)})


@pytest.mark.nightly
def test_a_real_foreign_checkout_stays_as_it_is(tmp_path: Path, pytorch_tree: Path) -> None:
    need(shutil.which("nox") is not None, "nox")
    folder = tmp_path / "pytorch"
    folder.mkdir()
    for name in ("pyproject.toml", ".clang-format", "Dockerfile"):
        shutil.copy2(pytorch_tree / name, folder / name)
    for name in ("test", "torch/csrc", "torch/testing", "scripts", "tools"):
        shutil.copytree(pytorch_tree / name, folder / name, symlinks=True)
    committed(folder)
    before = state(folder)
    ended = _in_nox(folder)
    assert ended.code == 1, ended.stderr.decode()
    last = next(line for line in ended.stdout.decode().splitlines() if " findings: " in line)
    assert all(f"{name} " in last for name in FOUND - {"check-jsonschema", "zizmor"}), last
    assert state(folder) == before


OWN = {
    "pyproject.toml": '[tool.ruff]\nline-length = 79\n[tool.ruff.lint]\nselect = ["F"]\n',
    ".pre-commit-config.yaml": """\
repos:
- repo: local
  hooks:
  - &ruff
    id: ruff
    name: ruff
    language: python
    additional_dependencies: [ruff==0.12.7]
    entry: ruff check --force-exclude --output-format github --fix
    types: [python]
  - {<<: *ruff, id: ruff-version, entry: ruff --version, pass_filenames: false, verbose: true}
  - {<<: *ruff, id: ruff-format, entry: ruff format --check}
  - {id: no-tabs, name: no tabs, language: pygrep, entry: "\\t", types: [text], exclude: ^third_party/}
""",
    "ok.py": '"""teh words of a project that does not look for them"""\n',
    "third_party/a.txt": "\t\n",
}


@pytest.mark.nightly
def test_a_checkout_with_rules_of_its_own_is_held_to_them_in_the_pinned_version_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "hooks"))
    folder = committed(project(tmp_path / "p", OWN))
    before = state(folder)
    code, out, said = lint(capsys, folder, "--json")
    assert (code, json.loads(out)["findings"]) == (0, []), said
    names = ("ruff", "ruff-version", "ruff-format", "no-tabs")
    assert json.loads(out)["linters"] == {name: {"version": ""} for name in names}
    assert state(folder) == before
    ran = finish_command(
        ["pre-commit", "run", "-a", "ruff-version"], timeout_s=100, cwd=folder, env=os.environ
    )
    assert b"ruff 0.12.7" in ran.stdout
    project(folder, {"bad.py": "import os\nx  = 1\n", "more.txt": "\t\n"})
    by_linter = found(capsys, folder)
    assert {name: [one["path"] for one in several] for name, several in by_linter.items()} == {
        "ruff": ["bad.py"], "ruff-format": ["bad.py"], "no-tabs": ["more.txt"],
    }  # fmt: skip
    assert (folder / "bad.py").read_text() == "import os\nx  = 1\n"
    lint(capsys, folder, "--fix")
    assert (folder / "bad.py").read_text() == "x  = 1\n", "what its own hook mends"


@pytest.mark.parametrize(
    "text", ["", "repos: 3\n", "repos: [{repo: 'file:///gone', rev: v1, hooks: [{id: x}]}]\n"]
)
def test_rules_that_are_none_or_cannot_be_fetched_are_not_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "hooks"))
    code, out, said = lint(
        capsys, project(tmp_path / "p", {".pre-commit-config.yaml": text, "a.py": "x = 1\n"})
    )
    assert (code, out) == (3, "")
    assert ".pre-commit-config.yaml: the hooks cannot be installed" in said
    assert "its repositories and an index can be reached" in said


def test_a_linter_that_hangs_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hook = "{id: slow, name: s, language: system, entry: sleep 60, always_run: true, pass_filenames: false}"
    files = {
        ".pre-commit-config.yaml": f"repos: [{{repo: local, hooks: [{hook}]}}]\n",
        "spyre-ci.yaml": "package: {lint: {timeout_s: 3}}\n",
    }
    code, out, said = lint(capsys, project(tmp_path / "p", files))
    assert (code, out) == (3, "")
    assert "took longer than 3 s" in said
    assert "pre_commit run slow" in said
    assert "raise package.lint.timeout_s" in said


TWINS = """\
repos:
- repo: file://{hooks}
  rev: v1.0
  hooks: [{{id: of-messages}}]
- repo: local
  hooks:
  - {{id: twin, name: no file, language: pygrep, entry: teh, files: "[.]none$"}}
  - {{id: twin, name: a file, language: pygrep, entry: teh, files: "[.]md$"}}
"""


def test_a_hook_is_passed_over_only_where_none_of_its_name_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SKIP", "twin")
    hook = "- {id: of-messages, name: m, language: pygrep, entry: x, stages: [commit-msg]}\n"
    hooks = committed(project(tmp_path / "hooks", {".pre-commit-hooks.yaml": hook}))
    git(hooks, "tag", "v1.0")
    files = {".pre-commit-config.yaml": TWINS.format(hooks=hooks), "a.md": "teh\n"}
    folder = committed(project(tmp_path / "p", files))
    code, out, said = lint(capsys, folder, "--json")
    assert code == 1, said
    told = json.loads(out)
    assert [(one["linter"], one["path"]) for one in told["findings"]] == [("twin", "a.md")]
    assert told["linters"] == {"twin": {"version": ""}}
    (folder / "a.md").write_text("the\n")
    code, out, _ = lint(capsys, folder, "--json")
    assert (code, json.loads(out)["linters"]) == (0, {"twin": {"version": ""}})


def test_only_what_a_change_touches_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = committed(project(tmp_path / "p", {"old.py": "import os\n", "old.md": "teh\n"}))
    base = git(folder, "rev-parse", "HEAD")
    assert lint(capsys, folder, "--changed", base)[:2] == (0, "nothing found\n")
    project(folder, {"committed.py": "import os\n"})
    committed(folder)
    project(folder, {"new.md": "teh\n"})
    by_linter = found(capsys, folder, "--changed", base)
    assert {name: [one["path"] for one in several] for name, several in by_linter.items()} == {
        "ruff": ["committed.py"], "codespell": ["new.md"],
    }  # fmt: skip
    code, _, said = lint(capsys, folder, "--changed", "gone")
    assert code == 2
    assert "--changed: 'gone' is not a commit that shares history with this one" in said


def test_a_project_in_a_folder_of_a_repository_is_held_to_the_rules_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "ruff.toml": 'lint.select = ["E711"]\n',
        "in/a.py": "import os\nos == None\n",
        "out.py": "1 == None\n",
    }
    folder = committed(project(tmp_path / "p", files)) / "in"
    by_linter = found(capsys, folder)
    assert [(one["path"], one["line"]) for one in by_linter["ruff"]] == [("a.py", 2)]


def test_hooks_that_can_be_fetched_look_as_they_do_for_the_project_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    hook = "- {id: no-teh, name: no teh, language: pygrep, entry: teh, types: [text]}\n"
    hooks = committed(project(tmp_path / "hooks", {".pre-commit-hooks.yaml": hook}))
    git(hooks, "tag", "v1.0")
    rules = (
        f"exclude: ^(docs/|[.]pre)\nrepos: [{{repo: 'file://{hooks}', rev: v1.0, hooks: [{{id: no-teh}}]}}]\n"
    )
    folder = committed(
        project(tmp_path / "p", {".pre-commit-config.yaml": rules, "docs/a.md": "teh\n", "b.md": "the\n"})
    )
    for text, code in {"the\n": 0, "teh\n": 1}.items():
        project(folder, {"b.md": text})
        own = finish_command(["pre-commit", "run", "--all-files"], timeout_s=100, cwd=folder, env=os.environ)
        said = lint(capsys, folder, "--json")
        assert (said[0], own.code) == (code, code), said
        told = json.loads(said[1])
        assert told["linters"] == {"no-teh": {"version": "v1.0"}}
        assert [(one["path"], one["line"], one["message"]) for one in told["findings"]] == [
            ("b.md", 1, "teh")
        ] * code
