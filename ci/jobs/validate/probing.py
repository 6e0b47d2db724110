"""Try a cluster: a pod that pulls the image, a preflight on every card; nothing stays behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ci.core.findings import Finding, judged
from ci.core.text import listed, one_line
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
from ci.jobs.logs import Away
from ci.jobs.paths import path_of
from ci.jobs.validate import probe
from ci.jobs.validate.checks import unasked
from ci.jobs.validate.facts import Asked, Node, Object, condition, name_of

# Of the kubelet: the image cannot be had. Others are told after it was pulled.
NOT_PULLED = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
    "SignatureValidationFailed",
}
# A kubelet says these before it has asked the registry.
NOT_YET = {"", "ContainerCreating", "PodInitializing"}
ENDED = {"Succeeded", "Failed"}
MAX_LINES = 4096
POLL_S = 5.0
# What a preflight says is a line a card; a log beyond this is something else.
MAX_LOG = 1 << 20
REMEDY = "see what refuses it (quota, admission, rights), and ask again"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTold:
    """What a card's check said."""

    card: str
    ok: bool
    message: str
    emulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTold:
    """What became of the preflight on a node.

    Attributes:
        node: its name, where a pod came to one.
        cards: what was said of each card.
        why: why there is no answer; empty where there is one.
    """

    node: str
    cards: tuple[CardTold, ...]
    why: str = ""


def waiting_for(pod: Object) -> tuple[str, str]:
    """What a pod's container waits for: reason and message; empty where it runs or has ended."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        if waiting := (one.get("state") or {}).get("waiting"):
            return str(waiting.get("reason", "")), str(waiting.get("message", ""))
    return "", ""


def is_settled(pod: Object) -> bool:
    """Whether a pod that pulls an image has shown what it is there to show."""
    status = pod.get("status") or {}
    begun = status.get("phase") in {*ENDED, "Running"}
    return bool(begun or waiting_for(pod)[0] not in NOT_YET)


def image_pull(image: str, pod: Object | None) -> Finding:
    """Whether the image was pulled; from the pod as it was last seen."""
    if pod is None:
        return unasked("image", f"{image}: the pod went away", "see who deletes pods there, and ask again")
    reason, message = waiting_for(pod)
    if reason in NOT_PULLED:
        return judged(
            "image",
            one_line(f"{image}: {reason}: {message}"),
            holds=False,
            remedy="check its name and the pull secrets of the spec and the service account",
        )
    if not is_settled(pod):
        return unasked("image", one_line(f"{image}: {why_pending(pod)}"), "make room, and ask again")
    return judged("image", f"{image}: pulled", holds=True, remedy="")


def why_pending(pod: Object) -> str:
    """Why a pod has not begun, in the cluster's words."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', '')}: {scheduled.get('message', '')}"
    reason, message = waiting_for(pod)
    if reason:
        return f"{reason}: {message}" if message else reason
    return f"pod {(pod.get('status') or {}).get('phase') or 'is new'}"


def cards_told(log: bytes) -> tuple[CardTold, ...]:
    """The lines of `job preflight`, of a log that may hold anything else as well."""
    found: dict[str, CardTold] = {}
    for line in log.decode("utf-8", "replace").splitlines()[:MAX_LINES]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("card"), str) and isinstance(row.get("ok"), bool):
            found[row["card"]] = CardTold(
                card=one_line(row["card"], 80),
                ok=row["ok"],
                message=one_line(str(row.get("message", ""))),
                emulated=row.get("emulated") is True,
            )
    return tuple(found.values())


def node_told(pod: Object, log: bytes) -> NodeTold:
    """What one pod of the preflight came to."""
    node = str((pod.get("spec") or {}).get("nodeName", ""))
    phase = (pod.get("status") or {}).get("phase")
    cards = cards_told(log)
    if cards:
        return NodeTold(node=node, cards=cards)
    why = f"{name_of(pod)} said nothing of cards" if phase in ENDED else why_pending(pod)
    return NodeTold(node=node, cards=(), why=one_line(why))


def preflight(nodes: Sequence[Node], told: Sequence[NodeTold]) -> Iterator[Finding]:
    """Every card of every node passed its check, and every node answered for all it has."""
    by_node: Mapping[str, NodeTold] = {one.node: one for one in told if one.node and one.cards}
    failed = [
        f"{one.node} {card.card}: {card.message or 'failed'}"
        for one in told
        for card in one.cards
        if not card.ok
    ]
    passed = sum(card.ok for one in told for card in one.cards)
    yield judged(
        "preflight",
        f"{passed:,} cards passed" + (f"; failed: {listed(failed)}" if failed else ""),
        holds=bool(passed) and not failed,
        remedy="look at these cards (lspci, RAS lines in the pod's log), and see who else holds them",
    )
    if fake := [one.node for one in told if any(card.emulated for card in one.cards)]:
        yield judged(
            "preflight on real cards",
            f"emulated on {listed(fake)}",
            holds=False,
            remedy="use an image with torch_spyre, and see that the pod was given its cards",
        )
    # A pod that found no node names none: the whys go with the nodes nobody answered for.
    whys = sorted({one.why for one in told if one.why})
    silent = [one.name for one in nodes if one.healthy and one.name not in by_node]
    short = [
        f"{one.name}: {len(by_node[one.name].cards)} of {one.healthy}"
        for one in nodes
        if one.name in by_node and len(by_node[one.name].cards) < one.healthy
    ]
    if silent or short:
        seen = (
            f"{len(silent)} nodes did not answer: {listed(silent)}"
            if silent
            else "fewer cards than given out"
        )
        seen += f" ({listed(whys, 2)})" if whys and silent else ""
        seen += f"; {listed(short)}" if short else ""
        yield unasked("preflight of every node", seen, "free the cards that others hold there, and ask again")


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
                return last is None or is_settled(last)

            _until(cluster, settled, timeout_s)
            return image_pull(asked.image, last)
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
            pods = _ended_pods(
                cluster,
                asked.namespace,
                name,
                sum(int(body["spec"]["completions"]) for body in bodies),
                timeout_s,
            )
            away = Away()
            answers = [node_told(pod, _log(cluster, pod, away)) for pod in pods]
    except (RefusedError, ConflictError) as error:
        return [judged("preflight", _said(error), holds=False, remedy=REMEDY)]
    except (ForbiddenError, MissingError) as error:
        return [unasked("preflight", _said(error), REMEDY)]
    return list(preflight(usable, answers))


def _ended_pods(
    cluster: Cluster, namespace: str, name: str, wanted: int, timeout_s: float
) -> list[dict[str, Any]]:
    """The pods of the preflight, as they are when all have ended, or when time is over."""
    found: list[dict[str, Any]] = []

    def all_ended() -> bool:
        nonlocal found
        found, _ = cluster.items(path_of("Pod", namespace), labels=selector(name))
        ended = [one for one in found if (one.get("status") or {}).get("phase") in ENDED]
        return len(ended) >= wanted

    _until(cluster, all_ended, timeout_s)
    return found


def _log(cluster: Cluster, pod: dict[str, Any], away: Away) -> bytes:
    """A pod's log, as far as it can be had; what it does not say is found missing.

    Raises:
        ClusterAwayError: it is not this pod's node alone that does not answer.
    """
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    if (pod.get("status") or {}).get("phase") not in ENDED:
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
