"""What people, GitHub and machines see of findings."""

from __future__ import annotations

import json
from pathlib import Path

from ci.core.workflow_commands import MAX_ANNOTATIONS
from ci.package.lint.show import Finding, Looked, document, github_commands, lines, looked_lines, summary

ONE = Finding(
    path="src/a.py", line=3, column=7, linter="ruff", rule="F401", message="`os` unused", fixable=True
)
WHOLE = Finding(path="b.yml", linter="check-jsonschema", rule="$.jobs", message="$.jobs: not good")


def test_a_finding_is_a_line_with_its_place_and_rule() -> None:
    assert lines([ONE])[0] == "src/a.py:3:7: `os` unused [ruff F401]"
    assert lines([WHOLE])[0] == "b.yml: $.jobs: not good [check-jsonschema $.jobs]"


def test_findings_stand_file_by_file_and_are_counted_by_linter() -> None:
    later = Finding(path="src/a.py", line=20, linter="codespell", message="teh should be the")
    told = lines([later, ONE, WHOLE])
    assert [line.partition(":")[0] for line in told[:3]] == ["b.yml", "src/a.py", "src/a.py"]
    assert told[-1] == "3 findings: codespell 1, ruff 1, check-jsonschema 1; --fix mends 1"


def test_no_finding_is_said() -> None:
    assert lines([]) == ["nothing found"]
    assert summary([ONE]).startswith("1 finding: ")


def test_what_did_not_look_is_said() -> None:
    looked = {
        "ruff": Looked(files=1, version="0.17.6"),
        "codespell": Looked(files=1200, version="2.4.3"),
        "actionlint": Looked(files=2, why_not="is not installed"),
    }
    assert looked_lines(looked) == [
        "looked: ruff 0.17.6 (1 file), codespell 2.4.3 (1,200 files)",
        "not looked at: actionlint is not installed",
    ]


def test_a_project_commands_neither_the_ci_nor_the_terminal() -> None:
    bad = Finding(path="::error::x\x1b[2J", line=1, linter="codespell", message="##[error]a\nb")
    line = lines([bad])[0]
    assert not line.startswith("::")
    assert "##[" not in line
    assert "\x1b" not in line
    assert "\n" not in line


def test_a_path_that_is_no_text_can_be_printed() -> None:
    line = lines([Finding(path="\udcff.py", linter="ruff", message="x")])[0]
    assert line.encode("utf-8").startswith(b"\\udcff.py")


def test_github_gets_an_annotation_beside_the_line() -> None:
    assert github_commands([ONE], Path("/w/p"), Path("/w")) == [
        "::error file=p/src/a.py,line=3,col=7,title=ruff F401::`os` unused"
    ]
    assert github_commands([WHOLE], Path("/w"), Path("/w"))[0].startswith("::error file=b.yml,title=")


def test_a_project_outside_the_workspace_is_named_from_itself() -> None:
    assert "file=src/a.py," in github_commands([ONE], Path("/p"), Path("/w"))[0]
    assert "file=src/a.py," in github_commands([ONE], Path("/p"), None)[0]


def test_what_github_would_drop_is_counted() -> None:
    several = [
        Finding(path=f"{number:02}.py", line=1, linter="ruff", message="x")
        for number in range(MAX_ANNOTATIONS + 5)
    ]
    told = github_commands(several, Path("/w"), Path("/w"))
    assert len(told) == MAX_ANNOTATIONS + 1
    assert told[-1] == "::notice::5 more findings without an annotation: see the log"


def test_an_annotation_cannot_be_left_early() -> None:
    bad = Finding(path="a,b:c.py", line=1, linter="ruff", rule="X", message="50 %\n::set-output::x")
    (told,) = github_commands([bad], Path("/w"), Path("/w"))
    assert told == "::error file=a%2Cb%3Ac.py,line=1,title=ruff X::50 %25 ::set-output::x"


def test_machines_get_everything() -> None:
    looked = {
        "ruff": Looked(files=1, version="0.17.6"),
        "actionlint": Looked(files=1, why_not="is not installed"),
    }
    bad = Finding(path="\udcff.py", linter="ruff", message="##[error]")
    text = document([bad, ONE], looked)
    assert "##[" not in text
    content = json.loads(text)
    assert [one["path"] for one in content["findings"]] == ["src/a.py", "\udcff.py"]
    assert content["findings"][0] == {
        "linter": "ruff", "path": "src/a.py", "line": 3, "column": 7, "rule": "F401",
        "message": "`os` unused", "fixable": True,
    }  # fmt: skip
    assert content["linters"] == {
        "ruff": {"files": 1, "version": "0.17.6"},
        "actionlint": {"files": 1, "not_looked": "is not installed"},
    }
