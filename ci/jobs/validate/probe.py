"""What is put into a cluster to try it: a pod that pulls the image, and jobs that check every card; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ci.jobs.labels import COMPONENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL, NAME_LABEL
from ci.jobs.validate.facts import HOSTNAME, Asked, Node

COMPONENT = "validate"
# Spyre's nodes may be kept for pods that want cards.
SPYRE_TAINT = {"key": "ibm.com/spyre", "operator": "Exists"}
# Left behind by one who was killed, a job goes by itself after so long.
TTL_S = 600
SMALL = {"cpu": "100m", "memory": "128Mi"}
# A check imports torch, for each card in turn.
LARGE = {"cpu": "2", "memory": "8Gi"}


def labels(name: str) -> dict[str, str]:
    """What everything of one validation is labelled with, and found by."""
    return {NAME_LABEL: name, MANAGED_BY_LABEL: MANAGED_BY, COMPONENT_LABEL: COMPONENT}


def pull_pod(asked: Asked, name: str, deadline_s: int) -> dict[str, Any]:
    """A pod of the image that ends at once; the node asks the registry whatever it holds already."""
    pod = _pod(asked, ["true"], SMALL)
    pod["containers"][0]["imagePullPolicy"] = "Always"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-pull", "namespace": asked.namespace, "labels": labels(name)},
        "spec": pod | {"activeDeadlineSeconds": deadline_s},
    }


def policy_job(asked: Asked) -> dict[str, Any]:
    """A Job that says of pods that fail what jobs say, for a dry run: its answer has what is kept."""
    main = {"name": "main", "image": asked.image or "none", "command": ["true"]}
    codes = {"containerName": "main", "operator": "In", "values": [1]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "validate-policy", "namespace": asked.namespace},
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 1,
            "podReplacementPolicy": "Failed",
            # The schema of 1.28 wants conditions beside codes.
            "podFailurePolicy": {
                "rules": [{"action": "FailIndex", "onExitCodes": codes, "onPodConditions": []}]
            },
            "template": {"spec": {"restartPolicy": "Never", "containers": [main]}},
        },
    }


def preflight_jobs(
    asked: Asked, nodes: Sequence[Node], name: str, *, deadline_s: int, card_s: float
) -> list[dict[str, Any]]:
    """Indexed Jobs that ask for all healthy cards of every node: one for the nodes with as many each.

    Args:
        asked: what is wanted.
        nodes: with cards, usable ones.
        name: of this validation.
        deadline_s: seconds a job has.
        card_s: seconds a card has.
    """
    by_number = sorted((one for one in nodes if one.healthy), key=lambda one: (one.healthy, one.name))
    return [
        _preflight_job(asked, number, list(group), f"{name}-cards-{number}", name, deadline_s, card_s)
        for number, group in groupby(by_number, key=lambda one: one.healthy)
    ]


def _preflight_job(  # noqa: PLR0917  # the rows of a table, read once above
    asked: Asked,
    number: int,
    nodes: Sequence[Node],
    job: str,
    name: str,
    deadline_s: int,
    card_s: float,
) -> dict[str, Any]:
    words = ["spyre-ci", "job", "preflight", "--timeout", f"{card_s:g}"]
    pod = _pod(asked, words, LARGE | {asked.resource: str(number)})
    pod["affinity"] = _one_a_node(name, [one.name for one in nodes])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job, "namespace": asked.namespace, "labels": labels(name)},
        "spec": {
            "completionMode": "Indexed",
            "completions": len(nodes),
            "parallelism": len(nodes),
            # A card that fails its check has failed it: no second try, and the other nodes go on.
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": len(nodes),
            "activeDeadlineSeconds": deadline_s,
            "ttlSecondsAfterFinished": TTL_S,
            "template": {"metadata": {"labels": labels(name)}, "spec": pod},
        },
    }


def _one_a_node(name: str, nodes: Sequence[str]) -> dict[str, Any]:
    """On these nodes, and never two on one."""
    wanted = {"key": "metadata.name", "operator": "In", "values": list(nodes)}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                # The one selector on a node's own name takes one value a term.
                "nodeSelectorTerms": [
                    {"matchFields": [{**wanted, "values": [node]}]} for node in wanted["values"]
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": labels(name)}, "topologyKey": HOSTNAME}
            ]
        },
    }


def _pod(asked: Asked, words: Sequence[str], resources: Mapping[str, str]) -> dict[str, Any]:
    spec = asked.spec
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": False,
        "tolerations": [SPYRE_TAINT],
        "containers": [
            {
                "name": "main",
                "image": asked.image,
                "command": list(words),
                "resources": {"limits": dict(resources), "requests": dict(resources)},
            }
        ],
    }
    if spec is not None:
        more = {
            "serviceAccountName": spec.service_account,
            "priorityClassName": spec.priority,
            "nodeSelector": dict(spec.node_selector),
            "imagePullSecrets": [{"name": one} for one in spec.image.pull_secrets],
        }
        pod |= {key: value for key, value in more.items() if value}
        pod["tolerations"] = [
            SPYRE_TAINT,
            *(one.model_dump(exclude_none=True, exclude={"seconds"}) for one in spec.tolerations),
        ]
    return pod
