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
from ci.jobs.errors import (
    ClusterAwayError,
    ConflictError,
    ForbiddenError,
    MissingError,
    RefusedError,
)
from ci.jobs.labels import COMPONENT_LABEL, found_by, job_name, selector
from ci.jobs.logs import LOG_PATIENCE_S, MOST_AWAY
from ci.jobs.status import pod_status
from ci.jobs.validate import Node, Object, Wanted, unasked

# A job that is left behind by a process that was killed goes by itself after so long.
TTL_S = 600
ENDED = {"Succeeded", "Failed"}
POLL_S = 5.0
# A preflight prints a line a card; a longer log is something else.
MAX_LOG, MAX_LINES = 1 << 20, 4096
REMEDY = "see what refuses it (quota, admission, rights), and ask again"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """The result of a preflight on a node.

    Attributes:
        node: its name; empty if no pod came to one.
        cards: the lines of `job preflight` by card.
        why: why there is no answer; empty if there is one.
    """

    node: str
    cards: Mapping[str, Mapping[str, Any]]
    why: str = ""


def try_cards(
    cluster: Cluster, wanted: Wanted, nodes: Sequence[Node], *, timeout_s: float, card_s: float
) -> list[Finding]:
    """Check every card of every usable node.

    Args:
        cluster: to try.
        wanted: of it.
        nodes: that have cards.
        timeout_s: after which a node that has not answered counts as silent.
        card_s: seconds for the check of one card.
    """
    if not wanted.image:
        return [
            unasked("preflight", "no image is known", "name one in the spec (image.name), or with --image")
        ]
    usable, name = [one for one in nodes if one.usable], job_name("validate", secrets.token_hex(8))
    bodies = preflight_jobs(wanted, usable, name, deadline_s=int(timeout_s), card_s=card_s)
    if not bodies:
        return [unasked("preflight", "no usable node gives out a card", "mend nodes and cards first")]
    completions = sum(int(body["spec"]["completions"]) for body in bodies)
    jobs = path_of("Job", wanted.namespace)
    try:
        try:
            for body in bodies:
                cluster.create(jobs, body)
            results = list(_results(cluster, _ended_pods(cluster, name, completions, timeout_s)))
        finally:
            for one in cluster.items(jobs, labels=selector(name))[0]:
                cluster.delete(path_of("Job", wanted.namespace, one["metadata"]["name"]))
    except (RefusedError, ConflictError) as error:
        return [judged("preflight", error.said or error.what, holds=False, remedy=REMEDY)]
    except (ForbiddenError, MissingError) as error:
        return [unasked("preflight", error.said or error.what, REMEDY)]
    return list(judge_cards(usable, results))


def _ended_pods(cluster: Cluster, name: str, wanted: int, timeout_s: float) -> list[dict[str, Any]]:
    """The pods of the preflight once all have ended or cannot pull their image, or when time is over."""
    end = cluster.effects.monotonic() + timeout_s
    while True:
        pods, _ = cluster.items(path_of("Pod", cluster.namespace), labels=selector(name))
        over = sum(_is_over(pod) for pod in pods)
        if over >= wanted or cluster.effects.monotonic() >= end:
            return pods
        cluster.effects.sleep(POLL_S)


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED or pod_status(pod).why.startswith("cannot pull")


def _results(cluster: Cluster, pods: Sequence[Object]) -> Iterator[NodeResult]:
    """What the pods said, as far as their logs can be had.

    Raises:
        ClusterAwayError: it is not a node alone that does not answer.
    """
    away = 0
    for pod in pods:
        log = bytearray()
        try:
            if (pod.get("status") or {}).get("phase") in ENDED:
                name = pod["metadata"]["name"]
                for chunk in cluster.log(name, container="main", patience_s=LOG_PATIENCE_S):
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
    """The result of one pod of the preflight; its log may hold anything else as well."""
    cards = {}
    for line in log.decode("utf-8", "replace").splitlines()[:MAX_LINES]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("card"), str) and isinstance(row.get("ok"), bool):
            cards[one_line(row["card"], 80)] = row
    ended = (pod.get("status") or {}).get("phase") in ENDED
    why = f"{pod['metadata']['name']} said nothing of cards" if ended else pod_status(pod).why
    node = str((pod.get("spec") or {}).get("nodeName", ""))
    return NodeResult(node=node, cards=cards, why="" if cards else one_line(why))


def judge_cards(nodes: Sequence[Node], results: Sequence[NodeResult]) -> Iterator[Finding]:
    """Every card of every node passed its check, and every node answered for all it has; pure."""
    answered = {one.node: len(one.cards) for one in results if one.node and one.cards}
    told = [(one.node, card, row) for one in results for card, row in one.cards.items()]
    failed = [
        f"{node} {card}: {one_line(str(row.get('message') or 'failed'))}"
        for node, card, row in told
        if not row["ok"]
    ]
    passed = len(told) - len(failed)
    seen = f"{passed:,} cards passed" + (f"; failed: {listed(failed)}" if failed else "")
    remedy = "look at these cards (lspci, RAS lines in the pod's log), and see who else holds them"
    yield judged("preflight", seen, holds=bool(passed) and not failed, remedy=remedy)
    if fake := sorted({node for node, _, row in told if row.get("emulated") is True}):
        remedy = "use an image with torch_spyre, and see that the pod was given its cards"
        yield judged("preflight on real cards", f"emulated on {listed(fake)}", holds=False, remedy=remedy)
    short = [
        f"{one.name} ({answered.get(one.name, 0)} of {one.healthy})"
        for one in nodes
        if one.healthy > answered.get(one.name, 0)
    ]
    if short:
        # A pod that found no node names none, so the reasons stand with the nodes.
        whys = sorted({one.why for one in results if one.why})
        seen = f"{len(short)} nodes did not answer for all their cards: {listed(short)}"
        remedy = "free the cards that others hold there, see that the image can be pulled, and ask again"
        yield unasked("preflight of every node", seen + (f"; {listed(whys, 2)}" if whys else ""), remedy)


def preflight_jobs(
    wanted: Wanted, nodes: Sequence[Node], name: str, *, deadline_s: int, card_s: float
) -> list[dict[str, Any]]:
    """Indexed Jobs that ask for all healthy cards of every node: one for the nodes with as many each.

    Args:
        wanted: image and namespace.
        nodes: with cards, usable ones.
        name: of this validation.
        deadline_s: seconds a job has.
        card_s: seconds a card has.
    """
    labels = found_by(name) | {COMPONENT_LABEL: "validate"}
    words = ["spyre-ci", "job", "preflight", "--timeout", f"{card_s:g}"]
    found = []
    by_number = sorted((one for one in nodes if one.healthy), key=lambda one: (one.healthy, one.name))
    for number, group in groupby(by_number, key=lambda one: one.healthy):
        names = [one.name for one in group]
        pod = trial_pod(wanted, "", words, **{wanted.resource: str(number)})["spec"]
        # The node asks the registry whatever it holds already.
        pod["containers"][0]["imagePullPolicy"] = "Always"
        spec = {
            "completionMode": "Indexed",
            "completions": len(names),
            "parallelism": len(names),
            # A card that fails its check has failed it: no second try, and the other nodes go on.
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": len(names),
            "activeDeadlineSeconds": deadline_s,
            "ttlSecondsAfterFinished": TTL_S,
            "template": {
                "metadata": {"labels": labels},
                "spec": pod | {"affinity": _one_a_node(labels, names)},
            },
        }
        about = {"name": f"{name}-cards-{number}", "namespace": wanted.namespace, "labels": labels}
        found.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec})
    return found


def trial_pod(wanted: Wanted, name: str, words: Sequence[str], **more: str) -> dict[str, Any]:
    """A small pod of the image, where the spec has its pods; `more` are resources."""
    resources = {"cpu": "2", "memory": "8Gi", **more}
    limits = {"limits": resources, "requests": resources}
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    main = {"name": "main", "image": wanted.image or "none", "command": list(words), "resources": limits}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        # Spyre's nodes may be kept for pods that want cards.
        "tolerations": [{"key": "ibm.com/spyre", "operator": "Exists"}],
        "containers": [{**main, "securityContext": safe}],
    }
    if (job := wanted.spec) is not None:
        more_spec = {
            "serviceAccountName": job.service_account,
            "priorityClassName": job.priority,
            "nodeSelector": dict(job.node_selector),
            "imagePullSecrets": [{"name": one} for one in job.image.pull_secrets],
        }
        spec |= {key: value for key, value in more_spec.items() if value}
        spec["tolerations"] += [
            one.model_dump(exclude_none=True, exclude={"seconds"}) for one in job.tolerations
        ]
    about = {"name": name, "namespace": wanted.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def _one_a_node(labels: Mapping[str, str], nodes: Sequence[str]) -> dict[str, Any]:
    """On these nodes, and never two on one; the selector on a node's own name takes one value a term."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes
    ]
    alone = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "nodeAffinity": {required: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {required: [alone]},
    }
