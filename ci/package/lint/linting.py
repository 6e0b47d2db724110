"""`spyre-ci package lint`: run the linters that look at a checkout's files, mend where asked to, note it.

Command lines are of bounded length; a linter that breaks is an error.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, CommandError, SettingsError, UsageError
from ci.core.process import LAST_LINES, finish_command, signal_name
from ci.core.text import counted
from ci.package.lint.files import File, files_of
from ci.package.lint.linters import LINTERS, NAMES, Linter, Words
from ci.package.lint.own_config import OwnConfig, own_config, read_above, read_below
from ci.package.lint.parsers import UNREADABLE
from ci.package.lint.show import Finding, Looked, by_linter
from ci.package.lint.tools import Tool, linter_environment, tools_for
from ci.package.project import Source, read_source
from ci.package.records import LINT, Record, write_record
from ci.package.source import refuse_moved
from ci.package.text import harmless, harmless_line

# Of one command line; Linux takes 2 MiB, of which the environment is a part.
_MOST_BYTES = 120_000
_MOST_FILES = 400
# Stands for a name that a line of output cannot hold.
_PLAIN = b"./the-file"
# Size, time of change and rights; None: it is gone.
Seen = tuple[int, int, int] | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be linted, and how.

    Attributes:
        folder: the project's.
        only: linters, by name; none: all.
        skip: linters of the settings that do not look.
        containerfiles: globs of the settings.
        timeout_s: of one command.
        environ: the user's variables.
        fix: whether files are mended.
    """

    folder: Path
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    containerfiles: Sequence[str] = ()
    timeout_s: float
    environ: Mapping[str, str]
    fix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """What came of it.

    Attributes:
        findings: what is left to mend.
        looked: what each linter with something to look at did, by name.
    """

    findings: tuple[Finding, ...]
    looked: Mapping[str, Looked]


def lint(wanted: Wanted, say: Callable[[str], None]) -> Linted:
    """Look at a project's files; without `fix` nothing of it changes.

    Args:
        wanted: what, and how.
        say: takes a line for people.

    Raises:
        UsageError: there is no linter of a name.
        SettingsError: the same, in the settings; or a configuration of the project would write, or have a
            linter look at nothing.
        MissingToolError: a linter is not installed.
        LinterError: one broke, or changed a file that it was to look at.
        MissingInputError: there is no file.
    """
    chosen = chosen_linters(wanted.only, wanted.skip)
    folder = wanted.folder.resolve()
    files = files_of(folder)
    own = own_config(
        files,
        read_below(folder),
        above=read_above(folder),
        containerfiles=wanted.containerfiles,
        spells=any(one.name == "codespell" for one in chosen),
    )
    by_name = {one.name: [file for file in files if one.looks_at(file, own)] for one in chosen}
    busy = [one for one in chosen if by_name[one.name]]
    with tempfile.TemporaryDirectory(prefix="spyre-ci-lint-") as home:
        environ = linter_environment(wanted.environ, Path(home))
        tools = tools_for(busy, environ)
        runner = Runner(folder=folder, tools=tools, environ=environ, timeout_s=wanted.timeout_s)
        ready = [one for one in busy if one.tool in tools]
        if wanted.fix:
            for one in ready:
                runner.fix(one, by_name[one.name], own)
        findings = _check(runner, ready, by_name, own, say)
    looked = {one.name: _looked(one, len(by_name[one.name]), tools) for one in busy}
    looked |= {name: Looked(files=0, why_not="is in package.lint.skip") for name in wanted.skip}
    return Linted(findings=tuple(sorted(findings)), looked=looked)


def chosen_linters(only: Sequence[str], skip: Sequence[str]) -> list[Linter]:
    """The linters that look.

    Raises:
        UsageError: one that is named is none.
        SettingsError: the settings leave out one that is none.
    """
    known = f"known: {', '.join(NAMES)}"
    for name in only:
        if name not in NAMES:
            raise UsageError(f"there is no linter {name!r}", where="--only", remedy=known)
    for name in skip:
        if name not in NAMES:
            raise SettingsError(f"there is no linter {name!r}", where="package.lint.skip", remedy=known)
    return [one for one in LINTERS if one.name not in skip and (not only or one.name in only)]


def why_no_record(wanted: Wanted, records: Path, *, named: bool, ours: bool) -> str:
    """Why no record is to be written; empty where one is.

    Args:
        wanted: what is linted.
        records: folder of records.
        named: whether somebody named that folder.
        ours: whether the project has settings of this package, so that its gates will ask.
    """
    if wanted.only:
        return "no record: --only looks at a part"
    if not named and not ours and not records.parent.is_dir():
        return f"no record: {records.parent} is not there, and a foreign checkout stays as it is (--records)"
    return ""


def record(wanted: Wanted, linted: Linted, *, project: str, records: Path, before: Source) -> None:
    """Write the record of a lint.

    Args:
        wanted: what was linted.
        linted: what came of it.
        project: its name.
        records: folder of records.
        before: where the checkout stood when it began.

    Raises:
        MovedError: another commit is checked out, so that nobody knows of which the findings are.
    """
    source = read_source(wanted.folder)
    refuse_moved(wanted.folder, before.commit, source.commit, again="lint")
    write_record(
        records,
        Record(
            step=LINT,
            project=project,
            commit=source.commit,
            # What was mended meanwhile was looked at before, and what is mended by linters was not committed.
            dirty=tuple(dict.fromkeys([*before.dirty, *source.dirty])),
            passed=not linted.findings,
            details={
                "findings": len(linted.findings),
                "by_linter": dict(by_linter(linted.findings)),
                "linters": {name: one.as_json() for name, one in linted.looked.items()},
                "fixed": wanted.fix,
            },
        ),
    )


def _check(
    runner: Runner,
    linters: Sequence[Linter],
    by_name: Mapping[str, Sequence[File]],
    own: OwnConfig,
    say: Callable[[str], None],
) -> list[Finding]:
    found: list[Finding] = []
    before = _as_they_are(runner.folder, by_name)
    for one in linters:
        files = by_name[one.name]
        say(f"{one.name}: {counted(len(files), 'file')}")
        found += runner.check(one, files, own)
        after = _as_they_are(runner.folder, by_name)
        refuse_changed(one.name, before, after)
        before = after
    return found


def refuse_changed(linter: str, before: Mapping[str, Seen], after: Mapping[str, Seen]) -> None:
    """Raise where a file is not what it was before a linter looked at it.

    Raises:
        LinterError: one is not.
    """
    changed = [path for path, seen in before.items() if after.get(path) != seen]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise LinterError(
            f"{harmless(changed[0])}{more} changed while it looked, and it was to change nothing",
            where=linter,
            remedy="take out of its configuration what writes; if it was you who changed it, lint again",
        )


def _as_they_are(folder: Path, by_name: Mapping[str, Sequence[File]]) -> dict[str, Seen]:
    """What can be seen of every file that is looked at, without reading it."""
    found: dict[str, Seen] = {}
    for path in {one.path for files in by_name.values() for one in files}:
        try:
            seen = (folder / path).lstat()
            found[path] = (seen.st_size, seen.st_mtime_ns, seen.st_mode)
        except OSError:
            found[path] = None
    return found


def _looked(linter: Linter, files: int, tools: Mapping[str, Tool]) -> Looked:
    if linter.tool not in tools:
        return Looked(files=files, why_not="is not installed")
    return Looked(files=files, version=tools[linter.tool].version)
