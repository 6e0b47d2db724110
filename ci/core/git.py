"""Git, asked about a checkout; names of files come as bytes, since they need not be text."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ci.core.commands import Ended, finish_command, refuse_failed
from ci.core.errors import CommandError

TIMEOUT_S = 600
# What a hook of another repository hands on, by which every folder would seem to be that repository's.
_OF_A_HOOK = {
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE", "GIT_INTERNAL_SUPER_PREFIX",
}  # fmt: skip
SUBMODULE = "160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file as the index of a repository has it.

    Attributes:
        name: its path; bytes that are no UTF-8 are kept as surrogates (`os.fsdecode`).
        mode: as Git writes it, such as 100644.
        hidden: whether Git was told not to look whether the file differs (skip-worktree, assume-unchanged).
    """

    name: str
    mode: str
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A repository of a checkout: its own, or that of a submodule.

    Attributes:
        below: where it is in the checkout; empty, or with a slash at its end.
        folder: of it.
        entries: of its index.
    """

    below: str
    folder: Path
    entries: Sequence[Entry]


def git(
    folder: Path,
    *words: str,
    variables: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    remedy: str = "check that git can read the checkout",
) -> str:
    """What git says of a folder.

    Args:
        folder: in the checkout.
        words: what it is asked.
        variables: of its environment besides, such as an index of its own.
        environ: the rest of its environment; None: this process's.
        timeout_s: seconds it may take.
        remedy: what the user does when it fails.

    Raises:
        CommandError: it cannot be started, took too long, or ended with another code than 0.
    """
    ended = finish_git(folder, *words, variables=variables, environ=environ, timeout_s=timeout_s)
    refuse_failed(_argv(folder, words), ended, remedy=remedy)
    return os.fsdecode(ended.stdout)


def find_object(folder: Path, name: str) -> str:
    """The SHA that a name such as `main^{tree}` stands for; empty where git knows none."""
    try:
        return git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", name).strip()
    except CommandError:
        return ""


def finish_git(
    folder: Path,
    *words: str,
    variables: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Ended:
    """`git` for those whom its exit code tells something.

    Raises:
        CommandError: it cannot be started, or took too long.
    """
    env = environment(variables, os.environ if environ is None else environ)
    return finish_command(_argv(folder, words), timeout_s=timeout_s, env=env)


def _argv(folder: Path, words: Sequence[str]) -> list[str]:
    # A monitor of files is a program of the checkout's own, which could also say that nothing changed.
    return ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *words]


def environment(variables: Mapping[str, str] | None, environ: Mapping[str, str]) -> dict[str, str]:
    """An environment, as far as it does not say which repository a folder is, and variables put into it."""
    env = {key: value for key, value in environ.items() if key not in _OF_A_HOOK}
    # `git status` would write the index anew, and looking at a checkout changes nothing there.
    env["GIT_OPTIONAL_LOCKS"] = "0"
    # `git replace` has another object stand in for one, under the hash of the first.
    env["GIT_NO_REPLACE_OBJECTS"] = "1"
    return env | dict(variables or {})


def shows_token(server: str, token: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which Git shows a token to one server, and nothing of it in its arguments; pure.

    Args:
        server: its address, without a slash at its end.
        token: of GitHub.
        environ: the environment, which may give Git settings already.
    """
    shown = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    first = int(environ.get("GIT_CONFIG_COUNT") or 0)
    made = {"GIT_CONFIG_COUNT": str(first + 2)}
    # The empty one takes away what a checkout has left: two such headers are refused.
    for number, value in enumerate(("", f"Authorization: basic {shown}"), start=first):
        made[f"GIT_CONFIG_KEY_{number}"] = f"http.{server}/.extraHeader"
        made[f"GIT_CONFIG_VALUE_{number}"] = value
    return made


@contextmanager
def scratch_index() -> Iterator[dict[str, str]]:
    """The variables by which Git has an index of its own, empty at first, within the block."""
    with TemporaryDirectory(prefix="spyre-ci-") as folder:
        yield {"GIT_INDEX_FILE": f"{folder}/index"}


def parts(folder: Path, below: str = "") -> Iterator[Part]:
    """The repository a folder is in, as far as it is in the folder, and every submodule that was fetched.

    Raises:
        CommandError: git did not answer.
    """
    entries = index_entries(git(folder, "ls-files", "-v", "-s", "-z", "--cached", "--", "."))
    yield Part(below=below, folder=folder, entries=entries)
    for name in dict.fromkeys(one.name for one in entries if one.mode == SUBMODULE):
        if os.path.lexists(folder / name / ".git"):
            yield from parts(folder / name, f"{below}{name}/")


def index_entries(listed: str) -> list[Entry]:
    """What `git ls-files -v -s -z` lists: tag, mode, hash, stage, name (git-ls-files(1)); pure."""
    found = []
    for line in filter(None, listed.split("\0")):
        told, _, name = line.partition("\t")
        tag, mode, _, _ = told.split(" ")
        found.append(Entry(name=name, mode=mode, hidden=tag == "S" or tag.islower()))
    return found


def changes(status: str) -> tuple[list[str], list[str]]:
    """Changed and untracked files of `git status --porcelain=v2 -z --no-renames` (git-status(1)); pure."""
    fields = {"1": 8, "u": 10, "?": 1}
    changed: list[str] = []
    untracked: list[str] = []
    for line in filter(None, status.split("\0")):
        kind = line[0]
        if kind not in fields:
            continue
        *told, path = line.split(" ", fields[kind])
        # In a submodule, files nobody added are no more a change than in the project itself.
        only_new = kind == "1" and told[1] == ".M" and told[2] == "S..U"
        (untracked if kind == "?" or only_new else changed).append(path)
    return changed, untracked


def hidden_changes(part: Part) -> list[str]:
    """Files, relative to the part's folder, that differ from its commit although Git was told not to look.

    Raises:
        CommandError: git did not answer.
    """
    hidden = {one.name for one in part.entries if one.hidden}
    if not hidden:
        return []
    with scratch_index() as anew:
        # One that is made anew of the commit has no such marks.
        git(part.folder, "read-tree", "--no-sparse-checkout", "HEAD", variables=anew)
        found = git(
            part.folder, "-c", "core.fileMode=true", "-c", "core.symlinks=true",
            "diff", "--name-only", "-z", "--relative", "--no-renames", "--ignore-submodules=none",
            variables=anew,
        )  # fmt: skip
    return [name for name in found.split("\0") if name in hidden]
