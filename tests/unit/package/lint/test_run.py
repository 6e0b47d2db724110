"""Command lines of bounded length, and linters that break."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, CommandError
from ci.core.process import Ended
from ci.package.lint import run
from ci.package.lint.files import File
from ci.package.lint.linters import LINTERS, Linter
from ci.package.lint.own_config import OwnConfig
from ci.package.lint.run import LinterError, Runner, parts_of
from ci.package.lint.show import Finding
from ci.package.lint.tools import Tool

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

    monkeypatch.setattr(run, "finish_command", finish)
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
    monkeypatch.setattr(run, "finish_command", lambda *_, **__: ended(2, b"", b"cannot write"))
    runner = Runner(
        folder=Path("/p"), tools={"ruff": Tool(path="ruff", version="1.0")}, environ={}, timeout_s=5
    )
    with pytest.raises(LinterError, match="cannot write"):
        runner.fix(RUFF, files("a.py"), OWN)
