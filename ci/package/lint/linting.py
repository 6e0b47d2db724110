"""`spyre-ci package lint`: which linters look at which files, mending where asked to, the record."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import SettingsError, UsageError
from ci.core.text import counted
from ci.package.lint.files import File, files_of
from ci.package.lint.linters import LINTERS, NAMES, Linter
from ci.package.lint.own_config import OwnConfig, own_config, read_above, read_below
from ci.package.lint.run import LinterError, Runner
from ci.package.lint.show import Finding, Looked, by_linter
from ci.package.lint.tools import Tool, linter_environment, tools_for
from ci.package.project import Source, read_source
from ci.package.records import LINT, Record, write_record
from ci.package.source import refuse_moved
from ci.package.text import harmless

# Size, time of change and rights; None: it is gone.
Seen = tuple[int, int, int] | None


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
