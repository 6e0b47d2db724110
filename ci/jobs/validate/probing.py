"""Trying a cluster: a pod that pulls the image, a preflight on every card; nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ci.core.findings import Finding, judged
from ci.core.text import one_line
from ci.jobs.away import Away
from ci.jobs.cluster import Cluster
from ci.jobs.errors import (
    ClusterAwayError,
    ClusterError,
    ConflictError,
    CutError,
    ForbiddenError,
    MissingError,
    RefusedError,
)
from ci.jobs.labels import selector
from ci.jobs.paths import path_of
from ci.jobs.validate import probe, told
from ci.jobs.validate.checked import unasked
from ci.jobs.validate.facts import Asked, Node, name_of

POLL_S = 5.0
# What a preflight says is a line a card; a log beyond this is something else.
MAX_LOG = 1 << 20
REMEDY = "see what refuses it (quota, admission, rights), and ask again"


def try_image(cluster: Cluster, asked: Asked, name: str, *, timeout_s: float) -> Finding:
    """Have a node pull the image.

    Args:
        cluster: to try.
        asked: with an image.
        name: of this validation.
        timeout_s: after which nobody waits any more.
    """
    pods = path_of("Pod", asked.namespace)
    body = probe.pull_pod(asked, name, int(timeout_s))
    try:
        with _cleaned_up(cluster, asked.namespace, name):
            cluster.create(pods, body)
            path = path_of("Pod", asked.namespace, name_of(body))
            last: dict[str, Any] | None = None

            def settled() -> bool:
                nonlocal last
                last = cluster.get(path)
                return last is None or told.is_settled(last)

            _until(cluster, settled, timeout_s)
            return told.image_pull(asked.image, last)
    except (RefusedError, ConflictError) as error:
        return judged("image", _said(error), holds=False, remedy=REMEDY)
    except (ForbiddenError, MissingError) as error:
        return unasked("image", _said(error), REMEDY)


def try_cards(
    cluster: Cluster, asked: Asked, nodes: Sequence[Node], name: str, *, timeout_s: float, card_s: float
) -> list[Finding]:
    """Check every card of every usable node.

    Args:
        cluster: to try.
        asked: with an image.
        nodes: that have cards.
        name: of this validation.
        timeout_s: after which who has not answered counts as silent.
        card_s: seconds one card's check has.
    """
    usable = [one for one in nodes if one.usable]
    bodies = probe.preflight_jobs(asked, usable, name, deadline_s=int(timeout_s), card_s=card_s)
    if not bodies:
        return [unasked("preflight", "no usable node gives out a card", "mend nodes and cards first")]
    try:
        with _cleaned_up(cluster, asked.namespace, name):
            for body in bodies:
                cluster.create(path_of("Job", asked.namespace), body)
            pods = _ended_pods(cluster, asked.namespace, name, sum(map(_completions, bodies)), timeout_s)
            away = Away()
            answers = [told.node_told(pod, _log(cluster, pod, away)) for pod in pods]
    except (RefusedError, ConflictError) as error:
        return [judged("preflight", _said(error), holds=False, remedy=REMEDY)]
    except (ForbiddenError, MissingError) as error:
        return [unasked("preflight", _said(error), REMEDY)]
    return list(told.preflight(usable, answers))


def _completions(body: dict[str, Any]) -> int:
    return int(body["spec"]["completions"])


def _ended_pods(
    cluster: Cluster, namespace: str, name: str, wanted: int, timeout_s: float
) -> list[dict[str, Any]]:
    """The pods of the preflight, as they are when all have ended, or when time is over."""
    found: list[dict[str, Any]] = []

    def all_ended() -> bool:
        nonlocal found
        found, _ = cluster.items(path_of("Pod", namespace), labels=selector(name))
        ended = [one for one in found if (one.get("status") or {}).get("phase") in told.ENDED]
        return len(ended) >= wanted

    _until(cluster, all_ended, timeout_s)
    return found


def _log(cluster: Cluster, pod: dict[str, Any], away: Away) -> bytes:
    """A pod's log, as far as it can be had; what it does not say is found missing.

    Raises:
        ClusterAwayError: it is not this pod's node alone that does not answer.
    """
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    if (pod.get("status") or {}).get("phase") not in told.ENDED:
        return b""
    log = bytearray()
    try:
        for piece in cluster.log(name_of(pod), container="main", patience_s=away.patience_s(node)):
            log += piece
            if len(log) > MAX_LOG:
                break
        away.answered()
    except (CutError, MissingError, RefusedError):
        away.answered()
    except ClusterAwayError:
        away.silent(node)
        if away.all:
            raise
    return bytes(log[:MAX_LOG])


def _until(cluster: Cluster, done: Callable[[], bool], timeout_s: float) -> None:
    """Look every few seconds, until it is done or time is over."""
    deadline = cluster.effects.monotonic() + timeout_s
    while not done() and cluster.effects.monotonic() < deadline:
        cluster.effects.sleep(POLL_S)


@contextmanager
def _cleaned_up(cluster: Cluster, namespace: str, name: str) -> Iterator[None]:
    """Afterwards, however it ended, nothing of this validation is left in the cluster."""
    try:
        yield
    finally:
        for kind in ("Job", "Pod"):
            path = path_of(kind, namespace)
            for one in cluster.items(path, labels=selector(name))[0]:
                # What a job made goes with it.
                if not one["metadata"].get("ownerReferences"):
                    cluster.delete(f"{path}/{name_of(one)}")


def _said(error: ClusterError) -> str:
    return one_line(error.said or error.what)
