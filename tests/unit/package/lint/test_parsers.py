"""Each linter's own words as findings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci.package.lint import parsers
from ci.package.lint.parsers import UNREADABLE, Parser
from ci.package.lint.show import Finding


def parsed(parser: Parser, stdout: Any, stderr: bytes = b"") -> list[Finding]:
    text = stdout if isinstance(stdout, bytes) else json.dumps(stdout).encode()
    return parser(text, stderr)


RUFF = {
    "cell": None,
    "code": "F401",
    "end_location": {"column": 10, "row": 1},
    "filename": "/p/a.py",
    "fix": {"applicability": "safe", "edits": [], "message": "Remove unused import: `os`"},
    "location": {"column": 8, "row": 1},
    "message": "`os` imported but unused",
    "name": "unused-import",
    "noqa_row": 1,
    "severity": "error",
    "url": "https://docs.astral.sh/ruff/rules/unused-import",
}


def test_ruff() -> None:
    unsafe = {**RUFF, "fix": {"applicability": "unsafe"}}
    broken = {**RUFF, "code": None, "fix": None, "message": "SyntaxError: unexpected EOF"}
    first, second, third = parsed(parsers.ruff("ruff"), [RUFF, unsafe, broken])
    assert first == Finding(
        path="/p/a.py", line=1, column=8, linter="ruff", rule="F401",
        message="`os` imported but unused", fixable=True,
    )  # fmt: skip
    assert not second.fixable
    assert (third.rule, third.fixable) == ("", False)


def test_ruff_format() -> None:
    said = {**RUFF, "code": "unformatted", "message": "File would be reformatted"}
    (one,) = parsed(parsers.ruff("ruff-format"), [said])
    assert (one.linter, one.rule, one.fixable) == ("ruff-format", "unformatted", True)


def test_codespell() -> None:
    said = (
        b"Used config files:\n    1: setup.cfg\n"
        b"./a:b.md:3: teh ==> the\n"
        b"./a.md:4: clas ==> class, clash\n"
        b"./a.md:5: nd ==> and, 2nd | disabled because of the unit\n"
        b"./teh.md: teh ==> the\n"
    )
    first, second, third, fourth = parsed(parsers.codespell, said)
    assert first == Finding(
        path="./a:b.md", line=3, linter="codespell", rule="teh", message="teh should be the", fixable=True
    )
    assert (second.fixable, third.fixable) == (False, False)
    assert (fourth.path, fourth.line) == ("./teh.md", 0)


def test_clang_format_tells_a_file_once() -> None:
    said = (
        b"./csrc/a.cpp:1:4: warning: code should be clang-formatted [-Wclang-format-violations]\n"
        b"int  main( ){return 0;}\n"
        b"   ^\n"
        b"./csrc/a.cpp:2:1: warning: code should be clang-formatted [-Wclang-format-violations]\n"
        b"./csrc/b.cpp:9:2: warning: code should be clang-formatted [-Wclang-format-violations]\n"
    )
    first, second = parsed(parsers.clang_format, b"", said)
    assert first == Finding(
        path="./csrc/a.cpp", line=1, column=4, linter="clang-format", rule="clang-format-violations",
        message="code should be clang-formatted, here and in 1 more places", fixable=True,
    )  # fmt: skip
    assert (second.path, second.line) == ("./csrc/b.cpp", 9)


def test_shellcheck() -> None:
    said = {
        "comments": [
            {
                "file": "./run", "line": 2, "endLine": 2, "column": 6, "endColumn": 8, "level": "info",
                "code": 2086, "message": "Double quote to prevent globbing.", "fix": None,
            }
        ]
    }  # fmt: skip
    (one,) = parsed(parsers.shellcheck, said)
    assert (one.path, one.line, one.column, one.rule) == ("./run", 2, 6, "SC2086")


def test_hadolint() -> None:
    said = [
        {
            "code": "DL3006", "column": 1, "file": "./Containerfile", "level": "warning", "line": 1,
            "message": "Always tag the version of an image explicitly",
        }
    ]  # fmt: skip
    (one,) = parsed(parsers.hadolint, said)
    assert (one.path, one.line, one.rule) == ("./Containerfile", 1, "DL3006")


def test_check_jsonschema() -> None:
    place, parse = ".github/workflows/a.yml", ".github/workflows/b.yml"
    said = {
        "status": "fail",
        "errors": [
            {"filename": place, "path": "$.jobs.x", "message": "not valid", "has_sub_errors": False},
            {
                "filename": place, "path": "$.jobs.y", "message": "no", "has_sub_errors": True,
                "best_match": {"path": "$.jobs.y", "message": "'uses' is required"},
                "best_deep_match": {"path": "$.jobs.y.steps[0]", "message": "'runs' was unexpected"},
            },
        ],
        "parse_errors": [{"filename": parse, "message": "Failed to parse"}],
    }  # fmt: skip
    first, second, third = parsed(parsers.check_jsonschema, said)
    assert first.message == "$.jobs.x: not valid"
    assert second.message == "$.jobs.y.steps[0]: 'runs' was unexpected"
    assert (third.path, third.message, third.rule) == (parse, "Failed to parse", "")
    assert parsed(parsers.check_jsonschema, {"status": "ok", "errors": []}) == []


def location(kind: str, row: int, annotation: str) -> dict[str, Any]:
    return {
        "symbolic": {
            "key": {"Local": {"prefix": None, "given_path": "./.github/workflows/ci.yml"}},
            "annotation": annotation,
            "kind": kind,
        },
        "concrete": {"location": {"start_point": {"row": row, "column": 14}}},
    }


def test_zizmor() -> None:
    said = {
        "ident": "unpinned-uses",
        "desc": "unpinned action reference",
        "determinations": {"confidence": "High", "severity": "High", "persona": "Regular"},
        "locations": [location("Related", 3, "this job"), location("Primary", 6, "not pinned to a hash")],
        "ignored": False,
    }
    (one,) = parsed(parsers.zizmor, [said, {**said, "ignored": True}])
    assert one == Finding(
        path="./.github/workflows/ci.yml", line=7, column=15, linter="zizmor", rule="unpinned-uses",
        message="unpinned action reference: not pinned to a hash",
    )  # fmt: skip


def test_actionlint() -> None:
    said = [
        {
            "message": "unexpected key", "filepath": ".github/workflows/a.yml", "line": 8, "column": 5,
            "kind": "syntax-check", "snippet": "    unknown-key: 1", "end_column": 15,
        }
    ]  # fmt: skip
    (one,) = parsed(parsers.actionlint, said)
    assert (one.path, one.line, one.rule) == (".github/workflows/a.yml", 8, "syntax-check")
    assert parsed(parsers.actionlint, b"null") == []


def test_npm_groovy_lint_tells_rules_that_are_broken_and_what_is_no_groovy() -> None:
    said = {
        "files": {
            "/w/p/jenkins/Jenkinsfile.pr": {
                "errors": [
                    {
                        "id": 0,
                        "line": 3,
                        "rule": "NoDef",
                        "severity": "info",
                        "msg": "def should not be used",
                    },
                    {"id": 1, "line": "9", "rule": "NglParseError", "msg": "Unexpected input: '{'\n  ^\n"},
                    {"id": 2, "line": -1, "rule": "FileEndsWithoutNewline", "msg": "no newline"},
                ]
            },
            "/w/p/good.groovy": {"errors": []},
        }
    }
    rule, syntax, whole = parsed(parsers.npm_groovy_lint, said)
    assert (rule.path, rule.line, rule.rule) == ("/w/p/jenkins/Jenkinsfile.pr", 3, "NoDef")
    assert (syntax.line, syntax.message) == (9, "Unexpected input: '{' ^")
    assert whole.line == 0


@pytest.mark.parametrize(
    "parser",
    [
        parsers.npm_groovy_lint,
        parsers.ruff("ruff"),
        parsers.shellcheck,
        parsers.hadolint,
        parsers.check_jsonschema,
        parsers.zizmor,
        parsers.actionlint,
    ],
)
@pytest.mark.parametrize("said", [b"", b"Traceback", b'[{"other": 1}]', b'{"other": 1}', b"[1]"])
def test_what_is_not_understood_is_never_nothing(parser: Parser, said: bytes) -> None:
    with pytest.raises(UNREADABLE):
        parser(said, b"")
