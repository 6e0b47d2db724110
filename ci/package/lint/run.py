"""Running linters over files, in command lines of bounded length; a linter that breaks is an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, CommandError
from ci.core.process import LAST_LINES, finish_command, signal_name
from ci.package.lint.files import File
from ci.package.lint.linters import Linter, Words
from ci.package.lint.own_config import OwnConfig
from ci.package.lint.parsers import UNREADABLE
from ci.package.lint.show import Finding
from ci.package.lint.tools import Tool
from ci.package.text import harmless, harmless_line

# Of one command line; Linux takes 2 MiB, of which the environment is a part.
_MOST_BYTES = 120_000
_MOST_FILES = 400
# Stands for a name that a line of output cannot hold.
_PLAIN = b"./the-file"


class LinterError(CommandError):
    """A linter that broke, or whose answer cannot be read: what it would have found is not known."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Files that one command line takes.

    Attributes:
        words: what these files need besides the linter's own words.
        files: in order; a file with an odd name is alone.
    """

    words: Words
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs linters on a project.

    Attributes:
        folder: the project's.
        tools: programs by name.
        environ: of linters.
        timeout_s: of one command.
    """

    folder: Path
    tools: Mapping[str, Tool]
    environ: Mapping[str, str]
    timeout_s: float

    def fix(self, linter: Linter, files: Sequence[File], own: OwnConfig) -> None:
        """Have a linter mend what it can; what is left is to be looked at.

        Raises:
            LinterError: it broke.
        """
        if linter.fix is None:
            return
        for part in parts_of(files, lambda file: linter.words(file, own)):
            code, _, said = self._run(linter, linter.fix, part)
            if code not in linter.fix_codes:
                raise _broke(linter, part, f"ended with {_code_text(code)}", said)

    def check(self, linter: Linter, files: Sequence[File], own: OwnConfig) -> list[Finding]:
        """What a linter finds; nothing is written.

        Raises:
            LinterError: it broke, or its answer cannot be read.
        """
        found: list[Finding] = []
        for part in parts_of(files, lambda file: linter.words(file, own)):
            code, printed, said = self._run(linter, linter.check, part)
            if code not in linter.codes:
                raise _broke(linter, part, f"ended with {_code_text(code)}", said or printed)
            try:
                here = linter.parse(printed, said)
            except UNREADABLE as error:
                what = f"gave an answer that cannot be read ({error})"
                raise _broke(linter, part, what, printed + said) from error
            if code and not here:
                what = f"ended with {_code_text(code)} and named no finding"
                raise _broke(linter, part, what, said or printed)
            found += _named(here, part, self.folder)
        return found

    def _run(self, linter: Linter, words: Words, part: Part) -> tuple[int, bytes, bytes]:
        names = [f"./{file.path}" for file in part.files]
        try:
            ended = finish_command(
                [self.tools[linter.tool].path, *words, *part.words, *names],
                timeout_s=self.timeout_s,
                cwd=self.folder,
                env=self.environ,
            )
        except CommandError as error:
            raise _broke(linter, part, error.what, b"") from error
        printed, said = ended.stdout, ended.stderr
        if part.files[0].is_odd:
            name = os.fsencode(names[0])
            printed, said = printed.replace(name, _PLAIN), said.replace(name, _PLAIN)
        return ended.code, printed, said


def parts_of(
    files: Sequence[File],
    words: Callable[[File], Words],
    *,
    most_bytes: int = _MOST_BYTES,
    most_files: int = _MOST_FILES,
) -> Iterator[Part]:
    """Files dealt to command lines: those that need the same words together, as many as fit.

    Args:
        files: all of them.
        words: what a file needs besides the linter's words.
        most_bytes: of all names in one command line.
        most_files: in one command line.
    """
    by_words: dict[Words, list[File]] = {}
    for file in files:
        by_words.setdefault(words(file), []).append(file)
    for needed, several in by_words.items():
        for one in several:
            if one.is_odd:
                yield Part(words=needed, files=(one,))
        plain = [one for one in several if not one.is_odd]
        for chunk in _chunks(plain, most_bytes, most_files):
            yield Part(words=needed, files=chunk)


def _chunks(files: Sequence[File], most_bytes: int, most_files: int) -> Iterator[tuple[File, ...]]:
    chunk: list[File] = []
    size = 0
    for file in files:
        length = len(os.fsencode(file.path)) + 3
        if chunk and (size + length > most_bytes or len(chunk) >= most_files):
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(file)
        size += length
    if chunk:
        yield tuple(chunk)


def _named(findings: Sequence[Finding], part: Part, folder: Path) -> Iterator[Finding]:
    """Findings with paths as the project has them."""
    alone = part.files[0].path if part.files[0].is_odd else None
    prefix = f"{folder}/"
    for one in findings:
        path = one.path.removeprefix(prefix).removeprefix("./")
        yield replace(one, path=alone if alone is not None else path)


def _broke(linter: Linter, part: Part, what: str, said: bytes) -> LinterError:
    lines = os.fsdecode(said).strip().splitlines()[-LAST_LINES:]
    tail = "".join(f"\n  {harmless_line(line)}" for line in lines)
    files = harmless(part.files[0].path) if len(part.files) == 1 else f"{len(part.files)} files"
    return LinterError(
        f"{what}, looking at {files}{tail}",
        where=linter.name,
        remedy="mend what it says, or leave this linter out with package.lint.skip",
    )


def _code_text(code: int) -> str:
    return f"code {code}" if code >= 0 else signal_name(-code)
