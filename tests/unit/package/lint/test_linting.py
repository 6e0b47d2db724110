"""Which linters look, in which environment, and where a record is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE, CommandError, SettingsError, UsageError
from ci.core.process import Ended
from ci.package.lint import linting, tools
from ci.package.lint.files import File
from ci.package.lint.linters import LINTERS, NAMES, Linter
from ci.package.lint.linting import (
    Linted,
    LinterError,
    Runner,
    Wanted,
    chosen_linters,
    parts_of,
    record,
    why_no_record,
)
from ci.package.lint.own_config import OwnConfig
from ci.package.lint.show import Finding, Looked
from ci.package.lint.tools import MissingToolError, Tool, find_tool, linter_environment, tools_for
from ci.package.project import Source
from ci.package.records import LINT, forget_record, read_record
from ci.package.source import MovedError


def wanted(folder: Path, *, only: tuple[str, ...] = ()) -> Wanted:
    return Wanted(folder=folder, timeout_s=5, environ={}, only=only)


def linted(*findings: Finding) -> Linted:
    return Linted(findings=findings, looked={"ruff": Looked(files=3, version="0.17.6")})


@pytest.fixture
def _committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linting, "read_source", lambda _: Source(commit="c" * 40, dirty=("a.py",)))


def test_every_linter_looks_unless_some_are_named_or_left_out() -> None:
    assert tuple(one.name for one in chosen_linters((), ())) == NAMES
    assert [one.name for one in chosen_linters(("zizmor", "ruff"), ())] == ["ruff", "zizmor"]
    assert "ruff" not in {one.name for one in chosen_linters((), ("ruff",))}


def test_a_linter_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="--only: there is no linter 'rough'") as caught:
        chosen_linters(("rough",), ())
    assert "known: ruff, codespell" in str(caught.value)
    with pytest.raises(SettingsError, match=r"package\.lint\.skip: there is no linter 'rough'"):
        chosen_linters((), ("rough",))


def test_linters_see_no_secret_and_no_settings_of_the_user() -> None:
    environ = {
        "PATH": "/bin",
        "GH_TOKEN": "t",
        "RUFF_OUTPUT_FILE": "x",
        "SHELLCHECK_OPTS": "-e SC1",
        "HOME": "/h",
    }
    seen = linter_environment(environ, Path("/new"))
    assert seen["PATH"] == "/bin"
    assert seen["HOME"] == seen["XDG_CONFIG_HOME"] == "/new"
    assert not {"GH_TOKEN", "RUFF_OUTPUT_FILE", "SHELLCHECK_OPTS"} & seen.keys()


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_tool_of_this_environment_comes_before_that_of_the_path(tmp_path: Path) -> None:
    other = program(tmp_path / "other", "ruff")
    assert find_tool("ruff", str(other.parent), here=tmp_path / "here") == str(other)
    own = program(tmp_path / "here", "ruff")
    assert find_tool("ruff", str(other.parent), here=own.parent) == str(own)
    assert find_tool("ruff", "", here=tmp_path / "none") is None


def test_a_program_of_the_project_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "ruff")
    monkeypatch.chdir(tmp_path)
    assert find_tool("ruff", "bin", here=tmp_path / "none") is None


def test_linters_that_are_missing_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="not installed: ruff, codespell") as caught:
        tools_for(LINTERS, {"PATH": ""}, here=tmp_path)
    assert "pip install 'spyre-ci[package]'" in str(caught.value)
    assert "actionlint" not in str(caught.value).partition("remedy")[0]
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (b"ShellCheck - shell script analysis tool\nversion: 0.11.0\n", "0.11.0"),
        # Its own, where it tells that of others.
        (b"CodeNarc version 3.7.0\nruff version 16.2.0\n\nEmbeds:\n- Groovy version 3.0.9\n", "16.2.0"),
    ],
)
def test_a_version_is_taken_from_whatever_a_tool_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, version: str
) -> None:
    program(tmp_path, "ruff")
    monkeypatch.setattr(tools, "finish_command", lambda *_, **__: Ended(code=0, stdout=said, stderr=b""))
    assert tools_for(LINTERS[:1], {"PATH": ""}, here=tmp_path)["ruff"].version == version


def test_a_tool_that_would_start_a_server_is_not_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groovy = next(one for one in LINTERS if one.name == "npm-groovy-lint")
    package = tmp_path / "npm-groovy-lint"
    package.mkdir()
    real = program(package / "lib", "index.js")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / groovy.tool).symlink_to(real)
    said = Ended(code=0, stdout=b"npm-groovy-lint version 1.2\n", stderr=b"")
    monkeypatch.setattr(tools, "finish_command", lambda *_, **__: said)
    found = tools_for([groovy], {"PATH": ""}, here=tmp_path / "bin")
    assert found[groovy.tool].version == "1.2"  # of no package: there is nothing else to ask
    (package / "package.json").write_text('{"name": "npm-groovy-lint", "version": "16.2.0"}')
    monkeypatch.delattr(tools, "finish_command")
    found = tools_for([groovy], {"PATH": ""}, here=tmp_path / "bin")
    assert found[groovy.tool].version == "16.2.0"


def test_a_tool_that_says_no_version_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "ruff")
    monkeypatch.setattr(
        tools, "finish_command", lambda *_, **__: Ended(code=127, stdout=b"", stderr=b"no glibc")
    )
    with pytest.raises(MissingToolError, match="does not say its version: 'no glibc'"):
        tools_for(LINTERS[:1], {"PATH": ""}, here=tmp_path)


@pytest.mark.usefixtures("_committed")
def test_a_record_names_what_looked_and_what_was_found(tmp_path: Path) -> None:
    found = Finding(path="a.py", linter="ruff", message="x")
    record(wanted(tmp_path), linted(found), project="p", records=tmp_path, before=Source(commit="c" * 40))
    kept = read_record(tmp_path, LINT)
    assert (kept.project, kept.commit, kept.dirty, kept.passed) == ("p", "c" * 40, ("a.py",), False)
    assert kept.details["by_linter"] == {"ruff": 1}
    assert kept.details["linters"] == {"ruff": {"files": 3, "version": "0.17.6"}}
    record(wanted(tmp_path), linted(), project="p", records=tmp_path, before=Source(commit="c" * 40))
    assert read_record(tmp_path, LINT).passed


@pytest.mark.usefixtures("_committed")
def test_what_differed_at_the_start_or_at_the_end_did(tmp_path: Path) -> None:
    before = Source(commit="c" * 40, dirty=("b.py", "a.py"))
    record(wanted(tmp_path), linted(), project="p", records=tmp_path, before=before)
    assert read_record(tmp_path, LINT).dirty == ("b.py", "a.py")


@pytest.mark.usefixtures("_committed")
def test_a_checkout_that_moved_meanwhile_gets_no_record(tmp_path: Path) -> None:
    with pytest.raises(MovedError, match="went from dddddddddddd to cccccccccccc") as caught:
        record(wanted(tmp_path), linted(), project="p", records=tmp_path, before=Source(commit="d" * 40))
    assert caught.value.exit_code == 3
    assert not (tmp_path / "lint.json").exists()


def test_a_foreign_checkout_gets_a_record_only_where_asked_for(tmp_path: Path) -> None:
    records = tmp_path / ".spyre-ci" / "records"
    assert "a foreign checkout stays as it is" in why_no_record(
        wanted(tmp_path), records, named=False, ours=False
    )
    assert why_no_record(wanted(tmp_path), records, named=True, ours=False) == ""
    assert why_no_record(wanted(tmp_path), records, named=False, ours=True) == ""
    records.parent.mkdir()
    assert why_no_record(wanted(tmp_path), records, named=False, ours=False) == ""


def test_a_part_of_the_linters_is_no_record(tmp_path: Path) -> None:
    told = why_no_record(wanted(tmp_path, only=("ruff",)), tmp_path, named=True, ours=True)
    assert told == "no record: --only looks at a part"


def test_a_record_is_forgotten_before_its_step_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "lint.json").write_text("{}")
    forget_record(tmp_path, LINT)
    forget_record(tmp_path, LINT)
    assert list(tmp_path.iterdir()) == []


RUFF = next(one for one in LINTERS if one.name == "ruff")
SPELLING = next(one for one in LINTERS if one.name == "codespell")
OWN = OwnConfig(ruff=frozenset({""}))


def files(*names: str) -> list[File]:
    return [File(path=name) for name in names]


def check(
    monkeypatch: pytest.MonkeyPatch, linter: Linter, ended: Ended | CommandError, *names: str
) -> list[Finding]:
    def finish(*_: object, **__: object) -> Ended:
        if isinstance(ended, CommandError):
            raise ended
        return ended

    monkeypatch.setattr(linting, "finish_command", finish)
    runner = Runner(
        folder=Path("/p"),
        tools={linter.tool: Tool(path=linter.tool, version="1.0")},
        environ={},
        timeout_s=5,
    )
    return runner.check(linter, files(*names), OWN)


def ended(code: int, stdout: bytes = b"", stderr: bytes = b"") -> Ended:
    return Ended(code=code, stdout=stdout, stderr=stderr)


def test_files_are_dealt_to_as_many_commands_as_it_takes() -> None:
    several = files(*(f"{number:03}.py" for number in range(10)))
    parts = list(parts_of(several, lambda _: (), most_bytes=30))
    assert [len(part.files) for part in parts] == [3, 3, 3, 1]
    assert [file for part in parts for file in part.files] == several
    assert [len(part.files) for part in parts_of(several, lambda _: (), most_files=4)] == [4, 4, 2]


def test_a_name_longer_than_a_command_line_may_be_is_alone() -> None:
    parts = list(parts_of(files("a", "b" * 100, "c"), lambda _: (), most_bytes=50))
    assert [len(part.files) for part in parts] == [1, 1, 1]


def test_files_that_need_other_words_stand_in_other_commands() -> None:
    parts = list(parts_of(files("a.py", "b.pyi", "c.py"), lambda file: (file.suffix,)))
    assert [(part.words, [file.path for file in part.files]) for part in parts] == [
        ((".py",), ["a.py", "c.py"]),
        ((".pyi",), ["b.pyi"]),
    ]


def test_an_odd_name_is_alone() -> None:
    parts = list(parts_of(files("a", "b\nc", "d"), lambda _: ()))
    assert [[file.path for file in part.files] for part in parts] == [["b\nc"], ["a", "d"]]


def test_no_files_are_no_command() -> None:
    assert list(parts_of([], lambda _: ())) == []


def test_paths_of_findings_are_those_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"./a.md:1: teh ==> the\n/p/deep/b.md:2: teh ==> the\n"
    found = check(monkeypatch, SPELLING, ended(65, said), "a.md", "deep/b.md")
    assert [one.path for one in found] == ["a.md", "deep/b.md"]


def test_a_name_with_a_line_end_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"./a\nb.md:1: teh ==> the\n"
    found = check(monkeypatch, SPELLING, ended(65, said), "a\nb.md")
    assert [(one.path, one.line) for one in found] == [("a\nb.md", 1)]


def test_a_name_that_is_no_text_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check(monkeypatch, SPELLING, ended(65, b"./\xff.md:1: teh ==> the\n"), "\udcff.md")
    assert [one.path for one in found] == ["\udcff.md"]


def test_a_linter_that_breaks_has_not_found_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LinterError) as caught:
        check(monkeypatch, RUFF, ended(2, b"", b"ruff failed\n  Cause: bad ruff.toml\n"), "a.py", "b.py")
    said = str(caught.value)
    assert "ruff: ended with code 2, looking at 2 files" in said
    assert "Cause: bad ruff.toml" in said
    assert "remedy" in said
    assert caught.value.exit_code == EXIT_INCOMPLETE


def test_a_linter_that_is_killed_is_told_by_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LinterError, match=r"ended with SIGSEGV, looking at a\.py"):
        check(monkeypatch, RUFF, ended(-11), "a.py")


def test_an_answer_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LinterError, match="an answer that cannot be read"):
        check(monkeypatch, RUFF, ended(0, b"all good"), "a.py")
    with pytest.raises(LinterError, match="an answer that cannot be read"):
        check(monkeypatch, RUFF, ended(1, b'[{"filename": "a.py"}]'), "a.py")


def test_a_code_of_findings_without_findings_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LinterError, match="ended with code 65 and named no finding"):
        check(monkeypatch, SPELLING, ended(65, b"something else\n"), "a.md")


def test_a_linter_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LinterError, match="took longer than 5 s") as caught:
        check(monkeypatch, RUFF, CommandError("took longer than 5 s: ruff"), "a.py")
    assert caught.value.exit_code == EXIT_INCOMPLETE


def test_what_a_broken_linter_says_commands_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LinterError) as caught:
        check(monkeypatch, RUFF, ended(2, b"", b"::error::mine\n\x1b[2Jgone\n"), "a.py")
    said = str(caught.value)
    assert "\n  | ::error::mine" in said
    assert not any(line.lstrip().startswith("::") for line in said.splitlines())
    assert "\x1b" not in said


def test_mending_that_breaks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linting, "finish_command", lambda *_, **__: ended(2, b"", b"cannot write"))
    runner = Runner(
        folder=Path("/p"), tools={"ruff": Tool(path="ruff", version="1.0")}, environ={}, timeout_s=5
    )
    with pytest.raises(LinterError, match="cannot write"):
        runner.fix(RUFF, files("a.py"), OWN)
