"""Try a cluster's cards: a pod on every node pulls the image and checks them all; nothing stays behind."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ci.core.findings import Finding, judged
from ci.core.text import listed, one_line
from ci.jobs.cluster import Cluster, path_of
from ci.jobs.errors import ClusterAwayError, ConflictError, ForbiddenError, MissingError, RefusedError
from ci.jobs.job import Job
from ci.jobs.labels import RUN_LABEL, job_name
from ci.jobs.logs import LOG_PATIENCE_S, MOST_AWAY
from ci.jobs.render import render
from ci.jobs.spec import Evaluation, Image, Resources, Scratch, Spec, Toleration
from ci.jobs.status import pod_status
from ci.jobs.validate import Node, Object, Wanted, unasked
from ci.jobs.watch import refused_pods

ENDED = {"Succeeded", "Failed"}
POLL_S = 5.0
# A preflight prints a line a card; a longer log is something else.
MAX_LOG, MAX_LINES = 1 << 20, 4096
REMEDY = "check what rejects it (quota, admission, rights), and try again"
# Of the spec, where pods may run and as whom.
_KEPT = ("node_selector", "service_account", "user", "group", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What a pod of the trial said.

    Attributes:
        node: it ran on; empty if it came to none.
        cards: the lines of `job preflight` by card.
        why: why there are none; empty if there are.
    """

    node: str
    cards: Mapping[str, Mapping[str, Any]]
    why: str = ""


def try_cards(wanted: Wanted, *, timeout_s: int, card_s: float) -> list[Finding]:
    """Check every card of every usable node.

    Args:
        wanted: of the cluster.
        timeout_s: after which a node that has not answered counts as silent.
        card_s: seconds for the check of one card.
    """
    cluster, name = wanted.cluster, job_name("validate", secrets.token_hex(8))
    if not wanted.image:
        return [
            unasked("preflight", "no image is known", "name one in the spec (image.name), or with --image")
        ]
    jobs, found = path_of("Job", cluster.namespace), f"{RUN_LABEL}={name}"
    try:
        usable = [one for one in wanted.card_nodes if one.usable and one.healthy]
        if not usable:
            return [unasked("preflight", "no usable node offers a card", "fix nodes and cards first")]
        bodies = preflight_jobs(wanted, usable, name, deadline_s=timeout_s, card_s=card_s)
        try:
            for body in bodies:
                cluster.create(jobs, body)
            pods = _ended_pods(cluster, found, len(usable), timeout_s)
            unborn = [refused_pods(cluster, body["metadata"]["name"]) for body in bodies]
            results = list(_results(cluster, pods))
        finally:
            for one in cluster.items(jobs, labels=found)[0]:
                cluster.delete(f"{jobs}/{one['metadata']['name']}")
    except (RefusedError, ConflictError) as error:
        return [judged("preflight", error.said or error.what, holds=False, remedy=REMEDY)]
    except (ForbiddenError, MissingError) as error:
        return [unasked("preflight", error.said or error.what, REMEDY)]
    return list(judge_cards(usable, results, unborn))


def _ended_pods(cluster: Cluster, labels: str, wanted: int, timeout_s: float) -> list[dict[str, Any]]:
    """The pods of the trial once all have ended or cannot pull their image, or when time is over."""
    end = cluster.effects.monotonic() + timeout_s
    while True:
        pods, _ = cluster.items(path_of("Pod", cluster.namespace), labels=labels)
        over = [_ended(one) or pod_status(one).why.startswith("cannot pull") for one in pods]
        if sum(over) >= wanted or cluster.effects.monotonic() >= end:
            return pods
        cluster.effects.sleep(POLL_S)


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


def _results(cluster: Cluster, pods: Sequence[Object]) -> Iterator[NodeResult]:
    """What the pods said, as far as their logs can be had.

    Raises:
        ClusterAwayError: it is not a node alone that does not answer.
    """
    away = 0
    for pod in pods:
        log = bytearray()
        try:
            if _ended(pod):
                for chunk in cluster.log(pod["metadata"]["name"], patience_s=LOG_PATIENCE_S):
                    log += chunk[: MAX_LOG - len(log)]
            away = 0
        except (MissingError, RefusedError):
            away = 0
        except ClusterAwayError:
            away += 1
            if away >= min(MOST_AWAY, len(pods)):
                raise
        yield node_result(pod, bytes(log))


def node_result(pod: Object, log: bytes) -> NodeResult:
    """The result of one pod of the trial; its log may hold anything else as well."""
    cards = {}
    for line in log.decode("utf-8", "replace").splitlines()[:MAX_LINES]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("card"), str) and isinstance(row.get("ok"), bool):
            cards[one_line(row["card"], 80)] = row
    why = f"{pod['metadata']['name']} reported no cards" if _ended(pod) else pod_status(pod).why
    node = str((pod.get("spec") or {}).get("nodeName", ""))
    return NodeResult(node=node, cards=cards, why="" if cards else one_line(why))


def judge_cards(
    nodes: Sequence[Node], results: Sequence[NodeResult], unborn: Sequence[str] = ()
) -> Iterator[Finding]:
    """Every card of every node passed its check, and every node answered for all it has; pure.

    Args:
        nodes: that were tried.
        results: of their pods.
        unborn: why pods could not be made.
    """
    answered = {one.node: len(one.cards) for one in results if one.node and one.cards}
    told = [(one.node, card, row) for one in results for card, row in one.cards.items()]
    failed = [
        f"{node} {card}: {one_line(str(row.get('message') or 'failed'))}"
        for node, card, row in told
        if not row["ok"]
    ]
    passed = len(told) - len(failed)
    seen = f"{passed:,} cards passed" + (f"; failed: {listed(failed)}" if failed else "")
    remedy = "look at these cards (lspci, RAS lines in the pod's log), and see which process uses them"
    yield judged("preflight", seen, holds=bool(passed) and not failed, remedy=remedy)
    if fake := sorted({node for node, _, row in told if row.get("emulated") is True}):
        remedy = "use an image with torch_spyre, and check that the pod was given its cards"
        yield judged("preflight on real cards", f"emulated on {listed(fake)}", holds=False, remedy=remedy)
    short = [
        f"{one.name} ({answered.get(one.name, 0)} of {one.healthy})"
        for one in nodes
        if one.healthy > answered.get(one.name, 0)
    ]
    if short:
        # A pod that found no node names none, so the reasons stand with the nodes.
        whys = sorted({why for why in (*unborn, *(one.why for one in results)) if why})
        seen = f"{len(short)} nodes did not report all their cards: {listed(short)}"
        remedy = "free the cards that others use there, check that the image can be pulled, and try again"
        yield unasked("preflight of every node", seen + (f"; {listed(whys, 2)}" if whys else ""), remedy)


def preflight_jobs(
    wanted: Wanted, nodes: Sequence[Node], name: str, *, deadline_s: int, card_s: float
) -> list[dict[str, Any]]:
    """Indexed Jobs that ask for all healthy cards of every node: one for the nodes with as many each."""
    command = ["spyre-ci", "job", "preflight", "--timeout", f"{card_s:g}"]
    found = []
    for cards, group in groupby(sorted(nodes, key=lambda one: one.healthy), key=lambda one: one.healthy):
        names = [one.name for one in group]
        job = Job(
            spec=_trial_spec(wanted, cards, command), name=f"{name}-{cards}", run=name, image=wanted.image,
            namespace=wanted.cluster.namespace, pods=len(names), deadline_s=deadline_s,
        )  # fmt: skip
        (body,) = render(job)
        body["spec"]["template"]["spec"]["affinity"] = _one_a_node(name, names)
        found.append(body)
    return found


def _trial_spec(wanted: Wanted, cards: int, command: Sequence[str]) -> Spec:
    """A small job where the spec has its pods; a card that fails its check gets no second try."""
    given, spec = {}, wanted.spec
    if spec is not None:
        given = {key: getattr(spec, key) for key in _KEPT}
    # Spyre's nodes may be kept for pods that want cards.
    tolerations = [Toleration(key="ibm.com/spyre"), *(spec.tolerations if spec else ())]
    return Spec(
        version=1,
        kind="evaluation",
        image=Image.model_construct(name=wanted.image, pull_secrets=spec.image.pull_secrets if spec else []),
        # A node may have more cards than a pod of a spec may ask for.
        resources=Resources.model_construct(
            cards=cards, resource=wanted.resource, cpu="2", memory="8Gi", scratch=Scratch(size="1Gi")
        ),
        tolerations=tolerations,
        retries=0,
        ttl_minutes=10,
        evaluation=Evaluation(command=list(command)),
        **given,
    )


def _one_a_node(name: str, nodes: Sequence[str]) -> dict[str, Any]:
    """On these nodes, and never two on one; the selector on a node's own name takes one value a term."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes
    ]
    alone = {"labelSelector": {"matchLabels": {RUN_LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "nodeAffinity": {required: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {required: [alone]},
    }
