"""A run whose results a merge queue's may take: only where nothing is doubtful.

GitHub's and Git's word is asked first, the run's own files last.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ci.core.archives import Wanted as WantedFile
from ci.core.errors import CommandError, SpyreCiError
from ci.core.git import finish_git, git, shows_token
from ci.core.github.client import in_repository
from ci.pipeline.event import SHA, text_at
from ci.pipeline.github_runs import Actions, Run
from ci.pipeline.plan import FILE as IDENTITY_FILE
from ci.pipeline.plan import KIND as IDENTITY_KIND
from ci.report.reused import Reused
from test_selection.files import read_json

# Under which a workflow hands on the folders of its runs, where it has several.
ARTIFACTS = ("results", "results-*")
JOURNALS = "journal"
MAX_LOOKED_AT = 5
# What is taken of the artifact: what it was of, how it was dealt, and what became of each test.
FILES = (
    WantedFile(pattern=re.escape(IDENTITY_FILE), most_bytes=1 << 20),
    WantedFile(pattern=r"plan\.json", most_bytes=128 << 20),
    WantedFile(pattern=rf"{JOURNALS}/[0-9]{{1,6}}-[0-9]{{1,6}}\.jsonl", most_bytes=128 << 20),
)
# As GitHub names the branches of a merge queue, the pull request's number among the rest.
_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,10})-[0-9a-f]{40}")
_WORDS = {
    "tree": "tested another tree",
    "image": "ran in another image",
    "tests": "planned other tests",
    "torch": "had another PyTorch",
    "back_end": "had another back end",
    "settings": "was set otherwise",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a merge queue is about to merge: the tested commit, what it goes onto, the last pull request."""

    head: str
    base: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run has to have been of.

    Attributes:
        sha: the pull request's newest commit.
        workflow: the workflow's file.
        tree: of the group's commit.
        parts: of the plan's identity, by name.
    """

    sha: str
    workflow: str
    tree: str
    parts: Mapping[str, str]


def group_of(payload: Mapping[str, Any]) -> Group | None:
    """The group of a merge_group event; None where it does not say all that is needed."""
    head, base = text_at(payload, "merge_group", "head_sha"), text_at(payload, "merge_group", "base_sha")
    found = _QUEUE.fullmatch(text_at(payload, "merge_group", "head_ref"))
    if found is None or not SHA.fullmatch(head) or not SHA.fullmatch(base):
        return None
    return Group(head=head, base=base, number=int(found[1]))


def workflow_file(ref: str, repository: str) -> str:
    """The workflow's file out of GITHUB_WORKFLOW_REF, `owner/name/path@ref`; empty where it is elsewhere."""
    path = ref.partition("@")[0]
    mine = f"{repository}/".lower()
    return path[len(mine) :] if path.lower().startswith(mine) else ""


def own_doubt(wanted: Wanted, checked_out: str, merged: str) -> str:
    """Why this run can take nobody's results; empty where it may look for some; pure.

    Args:
        wanted: what the results have to be of.
        checked_out: the tree that is checked out.
        merged: the tree that merging the pull request's commit into the group's base gives.
    """
    if checked_out != wanted.tree:
        return "what is checked out is not the merge queue's commit"
    if not wanted.workflow:
        return "the workflow's file is not one of this repository"
    missing = sorted(
        {name for name, value in wanted.parts.items() if not value} | set(_WORDS) - set(wanted.parts)
    )
    if missing:
        return f"the plan does not know its own {', '.join(missing)}"
    if wanted.parts["tree"] != wanted.tree:
        return "the plan is of another tree than the merge queue's commit"
    if merged != wanted.tree:
        return "merging the pull request's newest commit gives another tree: the group holds more, or less"
    return ""


def doubt(run: Run, wanted: Wanted) -> str:
    """Why a run's results are not looked at; empty where they are; pure."""
    if run.event != "pull_request":
        return f"began by {run.event}, not by a pull request"
    if run.path != wanted.workflow:
        return f"is of another workflow, {run.path}"
    if run.sha != wanted.sha:
        return "is of another commit"
    if run.status != "completed":
        return "has not ended"
    if run.conclusion != "success":
        return f"ended as {run.conclusion or 'nobody knows what'}"
    return ""


def doubt_of_parts(parts: Any, wanted: Wanted) -> str:
    """Why a run was not the same work, by what its plan says of itself; empty where it was; pure."""
    if not isinstance(parts, dict):
        return "does not say what it was of"
    different = [words for name, words in _WORDS.items() if parts.get(name) != wanted.parts.get(name)]
    # Parts that a later version adds are compared as well.
    return ", ".join(different) or ("" if parts == dict(wanted.parts) else "says other things of itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where is looked for a run's results.

    Attributes:
        actions: of GitHub.
        checkout: of the group's commit.
        run_dir: the folder of the run that was planned.
        scratch: for what is fetched.
        environ: `GITHUB_SERVER_URL` says whom the token of GITHUB_TOKEN is shown to.
        say: tells people of each run that is not taken.
    """

    actions: Actions
    checkout: Path
    run_dir: Path
    scratch: Path
    environ: Mapping[str, str]
    say: Callable[[str], object]

    def candidates(self, group: Group, workflow: str) -> Iterator[tuple[Path, Reused]]:
        """The runs that fit, the newest first, each with the folder of its files; of others is said why not.

        Raises:
            SpyreCiError: the plan, the pull request or a commit is not there, or GitHub does not say.
        """
        told = self.actions.client.get(in_repository(self.actions.repository, "pulls", group.number))
        parts = read_json(self.run_dir / IDENTITY_FILE, IDENTITY_KIND).get("parts")
        wanted = Wanted(
            sha=text_at(told, "head", "sha"),
            workflow=workflow,
            tree=tree_of(self.checkout, group.head),
            parts=parts if isinstance(parts, dict) else {},
        )
        bring(self.checkout, group.number, wanted.sha, self.environ)
        merged = git(self.checkout, "merge-tree", "--write-tree", group.base, wanted.sha).split("\n", 1)[0]
        if reason := own_doubt(wanted, tree_of(self.checkout, "HEAD"), merged.strip()):
            self.say(f"nothing is reused: {reason}")
            return
        looked_at, runs = 0, self.actions.runs(head_sha=wanted.sha, event="pull_request")
        if not runs:
            self.say(f"no run of {wanted.sha[:12]} is known")
        for run in runs:
            folder = self.scratch / f"run-{run.id}"
            if not (reason := doubt(run, wanted)):
                looked_at += 1
                reason = f"is older than {MAX_LOOKED_AT} others that were looked at"
                if looked_at <= MAX_LOOKED_AT:
                    reason = self._doubt_of_artifacts(run, wanted, folder)
            if not reason:
                yield folder, self._reused(run, group, wanted)
                continue
            self.say(f"run {run.id} {reason}")

    def _doubt_of_artifacts(self, run: Run, wanted: Wanted, folder: Path) -> str:
        """Why nothing that a run handed on can be taken; empty where one was fetched and fits."""
        reasons = []
        try:
            for artifact in self.actions.artifacts(run, ARTIFACTS):
                shutil.rmtree(folder, ignore_errors=True)
                self.actions.fetch(artifact, folder, FILES, beside=IDENTITY_FILE)
                reason = doubt_of_parts(read_json(folder / IDENTITY_FILE, IDENTITY_KIND).get("parts"), wanted)
                if not reason and any((folder / JOURNALS).glob("*.jsonl")):
                    return ""
                reasons.append(reason or "handed on what cannot be used: there is no journal")
        except SpyreCiError as error:
            reasons.append(f"handed on what cannot be used: {error.what}")
        return "; ".join(reasons) or "handed on no results, or they have expired"

    def _reused(self, run: Run, group: Group, wanted: Wanted) -> Reused:
        return Reused(
            repository=self.actions.repository,
            run_id=run.id,
            attempt=run.attempt,
            sha=run.sha,
            pull_request=group.number,
            url=run.url,
            tree=wanted.tree,
        )


def tree_of(folder: Path, commit: str) -> str:
    """The tree of a commit.

    Raises:
        CommandError: the clone does not hold it.
    """
    return git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()


def bring(folder: Path, number: int, sha: str, environ: Mapping[str, str]) -> None:
    """Have the newest commit of a pull request in the clone, whose remote `origin` is the repository.

    Raises:
        CommandError: it cannot be had.
    """

    def is_there() -> bool:
        return not finish_git(folder, "cat-file", "-e", f"{sha}^{{commit}}").code

    if is_there():
        return
    variables = {"GIT_TERMINAL_PROMPT": "0", **_token(environ)}
    words = ("fetch", "--quiet", "--no-tags", "origin", f"refs/pull/{number}/head")
    if finish_git(folder, *words, variables=variables).code or not is_there():
        raise CommandError(
            f"the commit {sha[:12]} of pull request {number} cannot be had",
            remedy="check out with fetch-depth: 0, and let the job read contents",
        )


def _token(environ: Mapping[str, str]) -> dict[str, str]:
    """The token for git, for one server only; nothing where there is none, or over plain http."""
    token, server = environ.get("GITHUB_TOKEN", ""), environ.get("GITHUB_SERVER_URL", "")
    if not token or urlsplit(server).scheme != "https":
        return {}
    return shows_token(server.rstrip("/"), token, environ)
