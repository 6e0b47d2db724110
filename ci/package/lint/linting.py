"""`spyre-ci package lint`: pre-commit runs a checkout's hooks in a copy, so that looking changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, CommandError, MissingInputError, UsageError
from ci.core.git import environment as git_environment
from ci.core.git import finish_git, git
from ci.core.process import LAST_LINES, finish_command
from ci.core.text import one_line
from ci.core.withheld import without_job_secrets
from ci.package.export import checkout_files, commit_copy, copy_files
from ci.package.lint.hooks import CONFIG, Hook, Plan, ours, own
from ci.package.lint.show import Finding, Looked, by_linter
from ci.package.records import LINT, Record, write_record
from ci.package.source import Source, in_repository, read_source, refuse_moved, top_of
from ci.package.text import harmless_line

# Of the user's variables; everything else could make a linter say something else on another machine.
_KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE")
_FILES = ("ls-files", "--cached", "--others", "--exclude-standard", "--", ".")
_EXIT_CODE = re.compile(r"^- exit code: (-?\d+)$", re.MULTILINE)
# As compilers, ruff, codespell, mypy, shellcheck and actionlint name places; in GitHub's form after `::`.
_PLACE = re.compile(
    r"(?:::\w+ [^\n]*?::)?(?P<path>[^:\n]+):(?P<line>\d+)(?::(?P<column>\d+))?(?::\s?| )(?P<message>.*)"
)
# As rustc does, ruff and zizmor, below the message; check-jsonschema.
_ARROW = re.compile(r"\s*--> (?P<path>[^:\n]+):(?P<line>\d+):(?P<column>\d+)")
_WOULD = re.compile(r"(?P<message>[Ww]ould reformat):? (?P<path>.+)")
_SCHEMA = re.compile(r"\s*(?P<path>[^:\n]+)::(?P<message>\$.*)")
_HUNK = re.compile(r"@@ -(\d+)")


class LinterError(CommandError):
    """A linter that broke, or whose answer cannot be read: what it would have found is not known."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be linted, and how.

    Attributes:
        folder: the project's.
        only: hooks, by name; none: all.
        skip: hooks of the settings that do not look.
        changed: a commit: only files that differ from where this one branched off; empty: all files.
        timeout_s: of one hook.
        environ: the user's variables.
        fix: whether files are mended.
    """

    folder: Path
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    changed: str = ""
    timeout_s: float
    environ: Mapping[str, str]
    fix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Linted:
    """What came of it.

    Attributes:
        findings: what is left to mend.
        looked: what each hook with something to look at did, by name.
    """

    findings: tuple[Finding, ...]
    looked: Mapping[str, Looked]


def lint(wanted: Wanted, say: Callable[[str], None]) -> Linted:
    """Look at a project's files; without `fix` nothing of it changes.

    Args:
        wanted: what, and how.
        say: takes a line for people.

    Raises:
        MissingInputError: there is no file.
        UsageError: there is no hook of a name, or no commit.
        MissingToolError: a linter is not installed.
        LinterError: one broke.
    """
    folder = wanted.folder.resolve()
    # Rules of the repository around a project hold for it, too.
    top = top_of(folder) if in_repository(folder) and git(folder, *_FILES) else folder
    files = [name for name in checkout_files(top) if (top / name).is_file()]
    below = "" if folder == top else f"{folder.relative_to(top)}/"
    mine = [name for name in files if name.startswith(below)]
    if not mine:
        raise MissingInputError(
            "there is no file to look at", where=folder, remedy="name the folder of a project"
        )
    if wanted.changed:
        touched = changed_files(top, wanted.changed)
        mine = [name for name in mine if name in touched]
        say(f"{len(mine)} files differ from {wanted.changed}")
    with tempfile.TemporaryDirectory(prefix="spyre-ci-lint-") as name:
        home = Path(name).resolve()
        tree = home / "tree"
        copy_files(top, files, tree)
        for link in (one for one in files if not (tree / one).resolve().is_relative_to(tree)):
            (tree / link).unlink()
        part = [] if mine == files else ["--files", *mine]
        looking = _Looking(wanted=wanted, tree=tree, home=home, files=frozenset(mine), part=part, say=say)
        commit_copy(tree, 0)
        plan = looking.plan()
        if wanted.fix:
            looking.run(plan, fix=True)
            looking.bring_back(top)
        findings, looked = looking.run(plan, fix=False)
    looked |= {one: Looked(why_not=why) for one, why in plan.not_looked.items()}
    looked |= {one: Looked(why_not="is in package.lint.skip") for one in wanted.skip}
    named = [one.below(below) for one in findings]
    return Linted(findings=tuple(sorted(named)), looked=looked)


def changed_files(top: Path, base: str) -> set[str]:
    """The files of a checkout that differ from where it branched off a commit, new ones too.

    Raises:
        UsageError: there is no such commit, or nothing in common with it.
    """
    ended = finish_git(top, "merge-base", "--", base, "HEAD")
    if ended.code:
        raise UsageError(
            f"there is no commit {base!r} that this one comes from",
            where="--changed",
            remedy="fetch it, with what is between (actions/checkout: fetch-depth: 0)",
        )
    start = ended.stdout.decode().strip()
    said = git(top, "diff", "--name-only", "--no-renames", "-z", start, "--")
    said += git(top, "ls-files", "-z", "--others", "--exclude-standard")
    return set(said.split("\0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looking:
    """Hooks over a copy of a checkout.

    Attributes:
        wanted: what, and how.
        tree: the copy.
        home: a folder for what is written meanwhile.
        files: what findings may be of.
        part: what pre-commit is told of these; empty: they are all there are.
        say: takes a line for people.
    """

    wanted: Wanted
    tree: Path
    home: Path
    files: frozenset[str]
    part: Sequence[str]
    say: Callable[[str], None]

    @property
    def path(self) -> str:
        """Where programs are: those of this environment first, and none in a relative folder."""
        path = self.wanted.environ.get("PATH", os.defpath)
        places = [str(Path(sys.executable).parent), *path.split(os.pathsep)]
        return os.pathsep.join(one for one in places if Path(one).is_absolute())

    @property
    def is_own(self) -> bool:
        """Whether the hooks are those of the checkout."""
        return (self.tree / CONFIG).is_file()

    def plan(self) -> Plan:
        """The hooks that look."""
        plan = own(self.tree, self.home, self._can_fetch) if self.is_own else ours(self.tree, self.path)
        known = {one.id for one in plan.hooks} | plan.not_looked.keys()
        for name in [*self.wanted.only, *self.wanted.skip]:
            if name not in known:
                where = "--only" if name in self.wanted.only else "package.lint.skip"
                raise UsageError(
                    f"there is no linter {name!r}", where=where, remedy=f"known: {', '.join(sorted(known))}"
                )
        hooks = [
            one
            for one in plan.hooks
            if one.id not in self.wanted.skip
            and (not self.wanted.only or one.id.removesuffix("-fix") in self.wanted.only)
        ]
        return Plan(config=plan.config, hooks=tuple(hooks), not_looked=plan.not_looked)

    def run(self, plan: Plan, *, fix: bool) -> tuple[list[Finding], dict[str, Looked]]:
        """What hooks find, and what each did."""
        findings: list[Finding] = []
        looked: dict[str, Looked] = {}
        which = self.part or ["--all-files"]
        for hook in plan.hooks if self.files else ():
            if hook.fixes and not fix:
                continue
            stage = ["--hook-stage", "manual"] if hook.fixes else []
            code, said = self._pre_commit("run", hook.id, "--config", str(plan.config), *stage, *which)
            if "(no files to check)Skipped" in said:
                continue
            self.say(f"{hook.id} {hook.version}".strip())
            looked[hook.id] = Looked(version=hook.version)
            if code == 0:
                continue
            named = [*self._changed(hook), *findings_of(said, hook.id, str(self.tree))]
            here = [one for one in named if (self.tree / one.path).is_file()]
            # Of a hook that looks at all files whatever it is told, those of others are left out.
            findings += [one for one in here if one.path in self.files] if here else [_whole(hook, said)]
        return list(dict.fromkeys(findings)), looked

    def bring_back(self, top: Path) -> None:
        """Put what was mended in the copy into the checkout."""
        for name in git(self.tree, "diff", "--name-only", "--diff-filter=M", "-z", "HEAD", "--").split("\0"):
            if name in self.files:
                shutil.copyfile(self.tree / name, top / name)

    def _changed(self, hook: Hook) -> Iterator[Finding]:
        """A finding for each file that a hook changed, where it does so first."""
        names = git(self.tree, "diff", "--name-only", "-z", "--").split("\0")[:-1]
        patch = git(self.tree, "-c", "core.quotePath=false", "diff", "--unified=0", "--") if names else ""
        places = hunks_of(patch)
        for name in names:
            first, *others = places.get(name, [0])
            more = f", here and in {len(others)} more places" if others else ""
            message = f"{hook.id} writes this otherwise{more}"
            yield Finding(path=name, line=first, linter=hook.id, message=message)
        # What the next hook changes is its own.
        git(self.tree, "add", "--all")

    def _can_fetch(self, config: Path) -> bool:
        self.say("installing the hooks of .pre-commit-config.yaml")
        code, said = self._pre_commit("install-hooks", "--config", str(config))
        if code:
            self.say(f"not every repository of hooks can be fetched: {one_line(said)}")
        return code == 0

    def _pre_commit(self, *words: str) -> tuple[int, str]:
        """Its exit code, and what it says; hooks of ours see no settings of the user's."""
        environ = without_job_secrets(self.wanted.environ)
        if not self.is_own:
            environ = {key: one for key, one in environ.items() if key in _KEPT}
            environ |= {"HOME": str(self.home), "PRE_COMMIT_HOME": str(self.home / "hooks")}
        given = {"PATH": self.path, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8", "NO_COLOR": "1"}
        env = git_environment(given, environ)
        ended = finish_command(
            [sys.executable, "-P", "-m", "pre_commit", *words, "--color", "never"],
            timeout_s=self.wanted.timeout_s, cwd=self.tree, env=env,
        )  # fmt: skip
        return ended.code, (ended.stdout + ended.stderr).decode(errors="surrogateescape")


def findings_of(said: str, hook: str, tree: str = "") -> Iterator[Finding]:
    """Read the places that a hook named; pure.

    Args:
        said: its output.
        hook: its name.
        tree: the folder that it may name before a file.
    """
    before = ""
    for text in said.splitlines():
        found = _ARROW.match(text) or _PLACE.fullmatch(text)
        found = found or _SCHEMA.fullmatch(text) or _WOULD.fullmatch(text)
        if found is not None:
            place = found.groupdict()
            yield Finding(
                path=place["path"].strip().removeprefix(f"{tree}/").removeprefix("./"),
                line=int(place.get("line") or 0),
                column=int(place.get("column") or 0),
                linter=hook,
                message=place.get("message", before).strip() or hook,
            )
        before = text


def hunks_of(patch: str) -> dict[str, list[int]]:
    """The lines of each file at which a patch of `git diff` changes it; pure."""
    found: dict[str, list[int]] = {}
    name = ""
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/").rstrip("\t")
        elif hunk := _HUNK.match(line):
            found.setdefault(name, []).append(int(hunk[1]))
    return found


def _whole(hook: Hook, said: str) -> Finding:
    """A finding of a hook that names no place; raises where it broke."""
    code = next(iter(_EXIT_CODE.findall(said)), "")
    lines = [line for line in said.partition(f"- exit code: {code}")[2].splitlines() if line.strip()]
    if code != "1" or not lines or lines[-1].startswith("Executable `"):
        shown = "".join(f"\n  {harmless_line(line)}" for line in (lines or said.splitlines())[-LAST_LINES:])
        raise LinterError(
            f"ended with code {code or '?'} and named no finding{shown}",
            where=hook.id,
            remedy="mend what it says, or leave this linter out with package.lint.skip",
        )
    return Finding(path="", linter=hook.id, message=one_line("; ".join(lines)))


def why_no_record(wanted: Wanted, records: Path, *, named: bool, ours: bool) -> str:
    """Why no record is to be written; empty where one is.

    Args:
        wanted: what is linted.
        records: folder of records.
        named: whether somebody named that folder.
        ours: whether the project has settings of this package, so that its gates will ask.
    """
    if wanted.only or wanted.changed:
        return "no record: --only and --changed look at a part"
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
        MovedError: the checkout is not what it was, so that nobody knows of what the findings are.
    """
    source = read_source(wanted.folder)
    if not wanted.fix:
        refuse_moved(wanted.folder, before, source, again="lint")
    write_record(
        records,
        Record(
            step=LINT,
            project=project,
            commit=source.commit,
            # What linters mended was not committed.
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
