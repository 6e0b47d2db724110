"""What a job of the stage would ask of its namespace, as quotas and limits count it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ci.jobs.pod_template import asks_for_disk
from ci.jobs.spec import Spec
from ci.jobs.validate.facts import Asked
from ci.jobs.validate.quantity import quantity


def of_a_pod(spec: Spec) -> dict[str, Decimal]:
    """What one pod asks for, by resource; requests are limits, less that of the node's disk.

    A quota on limits of the node's disk is kept to by who has none: no more than cpu and memory must be said
    where a quota counts them (validationSet of pkg/quota/v1/evaluator/core/pods.go).
    """
    resources = spec.resources
    found = {"cpu": quantity(resources.cpu), "memory": quantity(resources.memory)}
    if resources.cards:
        found[resources.card_resource] = Decimal(resources.cards)
    if asks_for_disk(spec):
        found["ephemeral-storage"] = quantity(resources.scratch.size)
    return found


def of_a_job(asked: Asked) -> Mapping[str, Decimal]:
    """What a job on all cards of the stage asks for, by the names that a ResourceQuota has.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    if asked.spec is None:
        return {}
    pods, scratch = asked.pods, asked.spec.resources.scratch
    found = {"pods": Decimal(pods), "count/pods": Decimal(pods), "count/jobs.batch": Decimal(1)}
    for name, number in of_a_pod(asked.spec).items():
        found[f"requests.{name}"] = number * pods
        if name in {"cpu", "memory", "ephemeral-storage"}:
            found[name] = number * pods
        if name in {"cpu", "memory"}:
            found[f"limits.{name}"] = number * pods
    if (claimed := scratch.storage_class) is not None:
        size = quantity(scratch.size) * pods
        of_class = f"{claimed}.storageclass.storage.k8s.io"
        found |= {"requests.storage": size, f"{of_class}/requests.storage": size}
        claims = Decimal(pods)
        found |= {"persistentvolumeclaims": claims, f"{of_class}/persistentvolumeclaims": claims}
    return found
