"""Reading what linters say, each in its own format, as findings; pure.

What cannot be read raises one of `UNREADABLE`: a linter that is not understood has not found nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from ci.package.lint.show import Finding

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
# Standard output, then standard error.
Parser = Callable[[bytes, bytes], list[Finding]]
_SPELLING = re.compile(r"(?P<path>.+?):(?:(?P<line>\d+):)? (?P<wrong>.+?) ==> (?P<right>.+)")
_CLANG = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): (?:warning|error): (?P<message>.+)")
_CLANG_RULE = re.compile(r" \[-W(?P<rule>[\w-]+)\]$")


def ruff(name: str) -> Parser:
    """The parser of `ruff check` and `ruff format --check`, as the linter of that name."""

    def parse(stdout: bytes, _: bytes) -> list[Finding]:
        return [
            Finding(
                path=one["filename"],
                line=one["location"]["row"],
                column=one["location"]["column"],
                linter=name,
                rule=one["code"] or "",
                message=one["message"],
                fixable=(one["fix"] or {}).get("applicability") == "safe",
            )
            for one in json.loads(stdout)
        ]

    return parse


def codespell(stdout: bytes, _: bytes) -> list[Finding]:
    """Lines such as `./a.py:3: wrong ==> right`; others say which configuration was read."""
    found = []
    for text in os.fsdecode(stdout).split("\n"):
        if (match := _SPELLING.fullmatch(text)) is None:
            continue
        right = match["right"]
        found.append(
            Finding(
                path=match["path"],
                line=int(match["line"] or 0),
                linter="codespell",
                rule=match["wrong"],
                message=f"{match['wrong']} should be {right}",
                # Of several candidates, or one with a caveat, somebody has to choose.
                fixable="," not in right and "|" not in right,
            )
        )
    return found


def clang_format(_: bytes, stderr: bytes) -> list[Finding]:
    """Warnings of `clang-format --dry-run`, one for all that it would change of a file."""
    places = [match for text in os.fsdecode(stderr).split("\n") if (match := _CLANG.fullmatch(text))]
    return [_clang_file(list(several)) for _, several in groupby(places, key=lambda one: one["path"])]


def _clang_file(places: list[re.Match[str]]) -> Finding:
    first = places[0]
    rule = _CLANG_RULE.search(first["message"])
    more = f", here and in {len(places) - 1} more places" if len(places) > 1 else ""
    return Finding(
        path=first["path"],
        line=int(first["line"]),
        column=int(first["column"]),
        linter="clang-format",
        rule=rule["rule"] if rule else "",
        message=_CLANG_RULE.sub("", first["message"]) + more,
        fixable=rule is not None,
    )


def shellcheck(stdout: bytes, _: bytes) -> list[Finding]:
    """Its format json1."""
    return [
        Finding(
            path=one["file"],
            line=one["line"],
            column=one["column"],
            linter="shellcheck",
            rule=f"SC{one['code']}",
            message=one["message"],
        )
        for one in json.loads(stdout)["comments"]
    ]


def hadolint(stdout: bytes, _: bytes) -> list[Finding]:
    """Its format json."""
    return [
        Finding(
            path=one["file"],
            line=one["line"],
            column=one["column"],
            linter="hadolint",
            rule=one["code"],
            message=one["message"],
        )
        for one in json.loads(stdout)
    ]


def check_jsonschema(stdout: bytes, _: bytes) -> list[Finding]:
    """Its format json: what breaks the schema, and what is no YAML."""
    content = json.loads(stdout)
    if content["status"] not in {"ok", "fail"}:
        raise ValueError(f"its status is {content['status']!r}")
    return [*_broken(content.get("errors", [])), *_broken(content.get("parse_errors", []))]


def _broken(errors: list[Any]) -> Iterator[Finding]:
    for one in errors:
        deepest = one.get("best_deep_match") or one
        place = deepest.get("path", "")
        yield Finding(
            path=one["filename"],
            linter="check-jsonschema",
            rule=place,
            message=f"{place}: {deepest['message']}" if place else deepest["message"],
        )


def zizmor(stdout: bytes, _: bytes) -> list[Finding]:
    """Its format json-v1; lines count from 0 there."""
    found = []
    for one in json.loads(stdout):
        if one["ignored"]:
            continue
        where = one["locations"]
        primary = next((place for place in where if place["symbolic"].get("kind") == "Primary"), where[0])
        start = primary["concrete"]["location"]["start_point"]
        said = primary["symbolic"]["annotation"]
        found.append(
            Finding(
                path=_zizmor_path(primary["symbolic"]["key"]),
                line=start["row"] + 1,
                column=start["column"] + 1,
                linter="zizmor",
                rule=one["ident"],
                message=f"{one['desc']}: {said}" if said else one["desc"],
            )
        )
    return found


def _zizmor_path(key: dict[str, Any]) -> str:
    local: dict[str, str] = key["Local"]
    return local.get("verbatim_path") or local["given_path"]


def actionlint(stdout: bytes, _: bytes) -> list[Finding]:
    """What its format `{{json .}}` prints."""
    return [
        Finding(
            path=one["filepath"],
            line=one["line"],
            column=one["column"],
            linter="actionlint",
            rule=one["kind"],
            message=one["message"],
        )
        for one in json.loads(stdout) or []
    ]


def npm_groovy_lint(stdout: bytes, _: bytes) -> list[Finding]:
    """What its `--output=json` prints; a file that is no Groovy is a finding, too."""
    return [
        Finding(
            path=path,
            line=max(int(one["line"]), 0),
            linter="npm-groovy-lint",
            rule=one["rule"],
            message=" ".join(one["msg"].split()),
        )
        for path, looked in json.loads(stdout)["files"].items()
        for one in looked["errors"]
    ]
