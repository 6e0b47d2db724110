"""The linters there are: what each looks at, how it is called, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ci.package.lint import parsers
from ci.package.lint.files import (
    File,
    is_action,
    is_containerfile,
    is_cxx,
    is_groovy,
    is_python,
    is_shell,
    is_text,
    is_workflow,
)
from ci.package.lint.own_config import CODESPELL, RUFF, OwnConfig

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linter:
    """A linter.

    Attributes:
        name: as people call it.
        tool: the program.
        check: its words when it looks; files follow.
        fix: its words when it mends; None where it cannot.
        parse: reads its answer.
        looks_at: whether a file is one of its.
        words: more words, which depend on the file and the project's configuration.
        codes: exit codes by which it says what it found; others mean that it broke.
        fix_codes: the same of mending, which is looked at afterwards in any case.
        optional: whether it may be missing.
        package: of npm, where asking the program for its version would start a server that stays; empty: ask.
    """

    name: str
    tool: str
    check: Words
    fix: Words | None = None
    parse: parsers.Parser
    looks_at: Callable[[File, OwnConfig], bool]
    words: Callable[[File, OwnConfig], Words] = lambda _file, _own: ()
    codes: frozenset[int] = frozenset({0, 1})
    fix_codes: frozenset[int] = frozenset({0})
    optional: bool = False
    package: str = ""


def _ruff_words(file: File, own: OwnConfig) -> Words:
    if own.has_ruff(file):
        return ()
    return ("--config", str(RUFF), *(("--target-version", own.python) if own.python else ()))


def _schema(file: File, _: OwnConfig) -> Words:
    kind = "workflows" if is_workflow(file) else "actions"
    return ("--builtin-schema", f"vendor.github-{kind}")


def _of_github(file: File, _: OwnConfig) -> bool:
    return is_workflow(file) or is_action(file)


# Without --force-exclude ruff would look at files that the project leaves out, because they are named.
_RUFF = ("--no-cache", "--force-exclude", "--quiet")
# In the order in which they mend: the formatter has the last word on what rules changed.
LINTERS = (
    Linter(
        name="ruff",
        tool="ruff",
        # A configuration may ask for fixes; looking makes none.
        check=("check", *_RUFF, "--no-fix", "--no-fix-only", "--output-format=json"),
        fix=("check", *_RUFF, "--fix", "--exit-zero"),
        parse=parsers.ruff("ruff"),
        looks_at=lambda file, _: is_python(file),
        words=_ruff_words,
    ),
    Linter(
        name="codespell",
        tool="codespell",
        check=("--disable-colors",),
        fix=("--disable-colors", "--write-changes"),
        parse=parsers.codespell,
        looks_at=lambda file, own: is_text(file) and own.spelling.looks_at(file),
        words=lambda _, own: () if own.spelling.own else ("--config", str(CODESPELL)),
        codes=frozenset({0, 65}),
        fix_codes=frozenset({0, 65}),
    ),
    Linter(
        name="ruff-format",
        tool="ruff",
        check=("format", *_RUFF, "--check", "--output-format=json"),
        fix=("format", *_RUFF),
        parse=parsers.ruff("ruff-format"),
        looks_at=lambda file, _: is_python(file),
        words=_ruff_words,
        codes=frozenset({0, 1, 2}),
        fix_codes=frozenset({0, 2}),
    ),
    Linter(
        name="clang-format",
        tool="clang-format",
        check=("--dry-run", "--style=file", "--fallback-style=none"),
        fix=("-i", "--style=file", "--fallback-style=none"),
        parse=parsers.clang_format,
        looks_at=lambda file, own: is_cxx(file) and own.has_clang_format(file),
        codes=frozenset({0}),
    ),
    Linter(
        name="check-jsonschema",
        tool="check-jsonschema",
        check=("--output-format=json", "--no-cache", "--color=never"),
        parse=parsers.check_jsonschema,
        looks_at=_of_github,
        words=_schema,
    ),
    Linter(
        name="zizmor",
        tool="zizmor",
        check=("--offline", "--no-progress", "--no-exit-codes", "--format=json-v1", "--color=never"),
        parse=parsers.zizmor,
        looks_at=_of_github,
        codes=frozenset({0}),
    ),
    Linter(
        name="actionlint",
        tool="actionlint",
        check=("-no-color", "-format", "{{json .}}"),
        parse=parsers.actionlint,
        looks_at=lambda file, _: is_workflow(file),
        optional=True,
    ),
    Linter(
        name="shellcheck",
        tool="shellcheck",
        check=("--format=json1",),
        parse=parsers.shellcheck,
        looks_at=lambda file, _: is_shell(file),
    ),
    Linter(
        name="npm-groovy-lint",
        tool="npm-groovy-lint",
        # Its server would outlive the command; without --parse a mistake in the syntax goes unseen.
        check=("--noserver", "--parse", "--failon=none", "--output=json"),
        parse=parsers.npm_groovy_lint,
        # Without a project's own rules every second line breaks one.
        looks_at=lambda file, own: is_groovy(file) and own.groovy,
        codes=frozenset({0}),
        optional=True,
        package="npm-groovy-lint",
    ),
    Linter(
        name="hadolint",
        tool="hadolint",
        check=("--format=json", "--no-color"),
        parse=parsers.hadolint,
        looks_at=lambda file, own: is_containerfile(file, own.containerfiles),
    ),
)
NAMES = tuple(one.name for one in LINTERS)
