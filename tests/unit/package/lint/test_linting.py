"""What a hook's output means, what is shown of it, and where a record is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.config import load_settings
from ci.core.errors import EXIT_INCOMPLETE
from ci.package.context import Context
from ci.package.lint import linting
from ci.package.lint.findings import (
    Finding,
    document,
    findings_of,
    github_commands,
    hunks_of,
    lines,
    not_looked_lines,
)
from ci.package.lint.linting import Hook, LinterError, record, why_no_record
from ci.package.project import MovedError, Project, ProjectTable, Pyproject, Source
from ci.package.records import LINT, read_record


@pytest.mark.parametrize(
    ("said", "place", "message"),
    [
        ("a.py:1:8: F401 [*] `os` imported but unused", ("a.py", 1, 8), "F401 [*] `os` imported but unused"),
        ("./a.md:3: teh ==> the", ("a.md", 3, 0), "teh ==> the"),
        ("Containerfile:2 DL3003 warning: Use it", ("Containerfile", 2, 0), "DL3003 warning: Use it"),
        ("F401 `os` imported\n --> /t/a.py:1:8", ("a.py", 1, 8), "F401 `os` imported"),
        ("error[unpinned-uses]: unpinned\n  --> .github/w.yml:7:15", (".github/w.yml", 7, 15),
         "error[unpinned-uses]: unpinned"),
        ("  .github/w.yml::$.jobs.a: is not valid", (".github/w.yml", 0, 0), "$.jobs.a: is not valid"),
        ("::error title=F401,file=/t/a.py,line=1::a.py:1:8: F401 unused", ("a.py", 1, 8), "F401 unused"),
        ("Would reformat: b c.py", ("b c.py", 0, 0), "Would reformat"),
        ("a.py:2: error: no  [attr-defined]", ("a.py", 2, 0), "error: no  [attr-defined]"),
    ],
)  # fmt: skip
def test_a_place_is_read_however_a_linter_writes_it(
    said: str, place: tuple[str, int, int], message: str
) -> None:
    output = f"x....Failed\n- hook id: x\n- exit code: 1\n\n{said}\nFound 1 error.\n"
    (found,) = findings_of(output, "x", "/t")
    assert ((found.path, found.line, found.column), found.message) == (place, message)


def test_a_patch_says_where_each_file_changes() -> None:
    patch = (
        "diff --git a/a b.py b/a b.py\n--- a/a b.py\t\n+++ b/a b.py\t\n@@ -3 +3 @@ def x\n-x  = 1\n+x = 1\n"
        "@@ -9,2 +9 @@\n+y\n--- a/é.md\n+++ b/é.md\n@@ -1 +1 @@\n"
    )
    assert hunks_of(patch) == {"a b.py": [3, 9], "é.md": [1]}


def whole(said: str) -> Finding:
    return linting._whole(Hook(id="x"), f"x....Failed\n- hook id: x\n{said}")


def test_a_hook_that_names_no_place_is_a_finding_of_the_whole() -> None:
    found = whole("- exit code: 1\n\na b.py\nno blanks!\n")
    assert lines([found])[0] == "a b.py; no blanks! [x]"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("- exit code: 2\n\nruff failed\n::error::mine\n\x1b[2Jgone\n", "ended with code 2 and named no"),
        ("- exit code: -11\n\n", "ended with code -11"),
        ("- exit code: 1\n\nExecutable `x` not found\n", "Executable `x` not found"),
        ("- exit code: 1\n\n", "ended with code 1"),
        ("An unexpected error has occurred\n", "ended with code ?"),
    ],
)
def test_a_linter_that_breaks_has_not_found_nothing(said: str, why: str) -> None:
    with pytest.raises(LinterError) as caught:
        whole(said)
    assert why in str(caught.value)
    assert caught.value.exit_code == EXIT_INCOMPLETE
    assert not any(line.lstrip().startswith("::") for line in str(caught.value).splitlines())
    assert "\x1b" not in str(caught.value)


ONE = Finding(path="a.py", line=3, column=1, linter="ruff", message="F401 no")
ODD = Finding(path="::error::a\nb.md", linter="codespell", message="teh ==> the\x1b[2J")


def test_findings_are_shown_in_lines_that_command_nobody() -> None:
    assert lines([]) == ["nothing found"]
    shown = lines([ONE, ODD])
    assert shown[1:] == ["a.py:3:1: F401 no [ruff]", "2 findings: ruff 1, codespell 1"]
    assert not shown[0].startswith("::")
    assert "\x1b" not in shown[0]
    assert not_looked_lines({"a": {"version": "1"}, "b": {"not_looked": "is gone"}}) == ["skipped: b is gone"]


def test_github_gets_annotations_from_the_top_of_its_checkout_and_what_has_none_is_counted() -> None:
    told = github_commands([ONE], Path("/w/p"), Path("/w"))
    assert told == ["::error file=p/a.py,line=3,col=1,title=ruff::F401 no"]
    many = [Finding(path=f"{number}.py", linter="x", message="y") for number in range(12)]
    told = github_commands(many, Path("/p"), None)
    assert len(told) == 11
    assert told[-1].startswith("::notice::2 more findings")


def test_machines_get_all_of_it() -> None:
    told = json.loads(document([ONE], {"ruff": {"version": "1.0"}, "b": {"not_looked": "is gone"}}))
    assert told["findings"] == [
        {"path": "a.py", "line": 3, "column": 1, "linter": "ruff", "message": "F401 no"}
    ]
    assert told["linters"] == {"ruff": {"version": "1.0"}, "b": {"not_looked": "is gone"}}


def context_of(folder: Path, source: Source) -> Context:
    project = Project(folder=folder, pyproject=Pyproject(project=ProjectTable(name="p")), source=source)
    settings = load_settings(path=None, environ={}, flags={}, cwd=folder)
    return Context(project=project, settings=settings, dist=folder, records=folder / "kept" / "records")


def test_a_part_makes_no_record_and_a_foreign_checkout_gets_none(tmp_path: Path) -> None:
    context = context_of(tmp_path, Source())
    assert "checks only a part" in why_no_record(context, changed="a", named=True)
    assert "has no settings of spyre-ci" in why_no_record(context, changed="", named=False)
    assert why_no_record(context, changed="", named=True) == ""
    (tmp_path / "spyre-ci.yaml").write_text("{}")
    assert why_no_record(context_of(tmp_path, Source()), changed="", named=False) == ""


def test_a_record_is_of_the_commit_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Source(commit="c" * 40, dirty=("a.py",))
    context = context_of(tmp_path, before)
    monkeypatch.setattr(linting, "read_source", lambda *_, **__: before)
    record(context, [ONE], {"ruff": {"version": "0.17.6"}}, fixed=False)
    read = read_record(context.records, LINT)
    assert (read.commit, read.dirty, read.passed) == (before.commit, before.dirty, False)
    assert read.details["by_linter"] == {"ruff": 1}
    monkeypatch.setattr(linting, "read_source", lambda *_, **__: Source())
    with pytest.raises(MovedError, match="the checkout changed meanwhile: HEAD"):
        record(context, [ONE], {}, fixed=False)
