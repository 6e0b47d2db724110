"""Having a cluster make a job: checked whole before anything is made, and finished by whoever does it again.

The Job comes first and is held, so that all else can be its own and goes when it goes; it begins when what it
needs is there. A submit that is killed half way leaves a job that is held, which the next one lets begin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.core.errors import UsageError
from ci.core.git import changes, git, hidden_changes, parts
from ci.core.text import counted, listed, one_line
from ci.jobs.cluster import Cluster, same_spec
from ci.jobs.errors import ConflictError
from ci.jobs.labels import ANNOTATION, QUEUE_LABEL
from ci.jobs.paths import path_of
from ci.jobs.policy import check_kept
from ci.jobs.standing import SHARDS_ANNOTATION, End, standing_of

Manifest = Mapping[str, Any]
# What holds an owner until it may begin; a pod waits for what it mounts by itself.
HOLD = {"Job": "suspend", "Deployment": "paused", "Pod": None}
# That it was let begin: who holds it afterwards means it.
BEGUN = f"{ANNOTATION}begun"
SHOWN_FILES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """What a checkout is at.

    Attributes:
        commit: its SHA; empty where it is no repository.
        dirty: whether it holds what nobody committed.
    """

    commit: str = ""
    dirty: bool = False


@dataclass(slots=True, kw_only=True)
class Submitted:
    """What a submit did.

    Attributes:
        name: of the job.
        kind: Job, Deployment or, to look into one, Pod.
        made: kinds and names of what was made now.
        there: those that were there already.
        begins: what starts it: this submit, an earlier one, or a queue; empty after a dry run.
    """

    name: str
    kind: str
    made: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    begins: str = ""


def check_checkout(folder: Path, *, allow_dirty: bool) -> Checkout:
    """What a checkout is at; one with changes nobody committed is refused unless told.

    Args:
        folder: in the checkout.
        allow_dirty: whether changes are taken; the job is then marked with them.

    Raises:
        UsageError: there are changes, and they were not allowed.
        CommandError: git did not answer.
    """
    if not any((one / ".git").exists() for one in (folder.absolute(), *folder.absolute().parents)):
        return Checkout()
    commit = git(folder, "rev-parse", "HEAD").strip()
    changed, untracked = changes(git(folder, "status", "--porcelain=v2", "-z", "--no-renames"))
    hidden = [f"{part.below}{name}" for part in parts(folder) for name in hidden_changes(part)]
    found = [*changed, *hidden, *untracked]
    if found and not allow_dirty:
        shown = listed([one_line(name) for name in found], SHOWN_FILES)
        raise UsageError(
            f"{counted(len(found), 'file')} of the checkout differ from {commit[:12]}: {shown}",
            where=folder,
            remedy="commit them, or give --allow-dirty, which marks the job",
        )
    return Checkout(commit=commit, dirty=bool(found))


def submit(
    cluster: Cluster,
    manifests: Sequence[Manifest],
    *,
    shards: Sequence[Sequence[int]] = (),
    dry_run: bool = False,
    ready: Callable[[], object] = lambda: None,
) -> Submitted:
    """Make a job of its manifests, or what is missing of it.

    Args:
        cluster: that makes it.
        manifests: of one job, all with the same hash of its spec.
        shards: of each pod, by index, so that a watch can count them; empty for other kinds than tests.
        dry_run: whether to have it all checked, and make nothing.
        ready: called once all of it was checked, before anything is made.

    Raises:
        ConflictError: something else has a name of it, or the job is of another spec, or has failed.
        ClusterError: the cluster refuses a part, or would drop what a job counts on, and then nothing was
            made; or it went away.
    """
    owner = next(one for one in manifests if one["kind"] in HOLD)
    others = [one for one in manifests if one is not owner]
    done = Submitted(name=owner["metadata"]["name"], kind=owner["kind"])
    there = {_word(one): cluster.get(_path(one, named=True)) for one in manifests}
    for one in manifests:
        _check_same(there[_word(one)], one, there[_word(owner)])
    _check_goes_on(there[_word(owner)], done)
    for one in manifests:
        if there[_word(one)] is None:
            check_kept(one, cluster.create(_path(one), one, dry_run=True))
    done.there = [word for word, found in there.items() if found is not None]
    if dry_run:
        return done
    ready()
    made = there[_word(owner)] or _make(cluster, _held(owner, shards), done)
    for one in others:
        if there[_word(one)] is None:
            _make(cluster, _owned(one, made), done)
    done.begins = _begin(cluster, owner, made)
    return done


def _check_same(there: Manifest | None, wanted: Manifest, owner: Manifest | None) -> None:
    """Refuse what has a name of the job and is not it."""
    if there is None:
        return
    word, about = _word(wanted), there["metadata"]
    name = (wanted["metadata"].get("labels") or {}).get("app.kubernetes.io/name", wanted["metadata"]["name"])
    if "deletionTimestamp" in about:
        raise ConflictError(f"{word} is being removed", remedy="wait until it is gone, then submit again")
    if not same_spec(there, wanted):
        raise ConflictError(
            f"{word} is there, and was made of another spec",
            remedy=f"take another run id, or remove it: spyre-ci job cancel {name}",
        )
    owners = {ref.get("uid") for ref in about.get("ownerReferences") or ()}
    if wanted["kind"] not in HOLD and (owner is None or owner["metadata"]["uid"] not in owners):
        # It goes with its owner, which may be any moment.
        raise ConflictError(
            f"{word} is there, left of a job that is gone",
            remedy=f"remove what is left, then submit again: spyre-ci job cancel {name}",
        )


def _check_goes_on(there: Manifest | None, done: Submitted) -> None:
    """Refuse a Job that came to nothing: no cluster takes one up again."""
    if there is None or done.kind != "Job":
        return
    if (standing := standing_of(there)).over is End.FAILED:
        raise ConflictError(
            f"Job {done.name} is there, and has failed: {standing.reason or 'nobody says why'}",
            remedy=f"remove it, then submit again: spyre-ci job cancel {done.name}; what has a verdict stays",
        )


def _make(cluster: Cluster, body: Manifest, done: Submitted) -> Manifest:
    made = cluster.create(_path(body), body)
    done.made.append(_word(body))
    return made


def _begin(cluster: Cluster, owner: Manifest, made: Manifest) -> str:
    """Let the job begin, once; and what starts it."""
    if owner["kind"] == "Job" and standing_of(made).over is End.COMPLETE:
        return "an earlier submit, and done"
    if (owner["metadata"].get("labels") or {}).get(QUEUE_LABEL) and owner["kind"] == "Job":
        return "its queue"
    if BEGUN in (made["metadata"].get("annotations") or {}):
        return "an earlier submit"
    if (hold := HOLD[owner["kind"]]) is not None:
        about = {"annotations": {BEGUN: "true"}}
        cluster.patch(_path(owner, named=True), {"metadata": about, "spec": {hold: False}})
    return "this submit"


def _held(owner: Manifest, shards: Sequence[Sequence[int]]) -> Manifest:
    about, spec = owner["metadata"], owner["spec"]
    if shards:
        told = {SHARDS_ANNOTATION: ",".join(str(len(one)) for one in shards)}
        about = {**about, "annotations": {**about["annotations"], **told}}
    if (hold := HOLD[owner["kind"]]) is not None:
        spec = {**spec, hold: True}
    return {**owner, "metadata": about, "spec": spec}


def _owned(body: Manifest, owner: Manifest) -> Manifest:
    """The object as its owner's own: it goes when that goes.

    It does not block its owner's deletion (blockOwnerDeletion): OpenShift grants that only to whoever may
    write finalizers.
    """
    about = {name: owner["metadata"][name] for name in ("name", "uid")}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **about}
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def _word(body: Manifest) -> str:
    return f"{body['kind']} {body['metadata']['name']}"


def _path(body: Manifest, *, named: bool = False) -> str:
    about = body["metadata"]
    return path_of(body["kind"], about["namespace"], about["name"] if named else None)
