"""A job's pod, as its Job or Deployment makes it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ci.jobs.fill import fill
from ci.jobs.job import Fetch, Job, container_of, fetches_of, mounts_of
from ci.jobs.kinds import SCRATCH
from ci.jobs.labels import labels_of, origin_of
from ci.jobs.parcels import Parcel
from ci.jobs.parts import Scratch, SecretRef, Toleration
from ci.jobs.spec import Spec

# PyTorch's workers hand tensors over in it, and 64 MiB are soon full.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a place of the container
READ_ONLY = {"config", "model"}


def pod_of(job: Job, packed: Sequence[Parcel]) -> dict[str, Any]:
    """The template of a job's pods.

    Args:
        job: resolved.
        packed: what its ConfigMaps hold, in order.
    """
    spec = job.spec
    return fill(
        "pod",
        spec=spec,
        labels=labels_of(job),
        # Without the tags, which may be long, and pods many.
        annotations=origin_of(job),
        restart="Always" if spec.kind == "serve" else "Never",
        # A Deployment's pods may have none.
        deadline_s=0 if spec.kind == "serve" else job.pod_deadline_s,
        pull_secrets=[{"name": name} for name in spec.image.pull_secrets],
        tolerations=[_toleration(one) for one in spec.tolerations],
        environment=_environment(container_of(job).environment),
        fetches=[_fetch(job, one) for one in fetches_of(job)],
        main=_main(job),
        volumes=_volumes(job, packed),
    )


def asks_for_disk(spec: Spec) -> bool:
    """Whether pods ask for room on their node's disk.

    Not in a queue: Kueue admits no job that asks for what its ClusterQueue does not cover, and next to none
    covers ephemeral-storage. Scratch keeps its sizeLimit all the same.
    """
    return spec.resources.scratch.storage_class is None and spec.queue is None


def config_map_name(job: Job, number: int) -> str:
    """The name of a job's ConfigMap."""
    return f"{job.name}-{number}"


def _main(job: Job) -> dict[str, Any]:
    container = container_of(job)
    resources = job.spec.resources
    cards = {resources.card_resource: str(resources.cards)} if resources.cards else {}
    return {
        "name": "main",
        "image": job.image,
        "command": _literal(container.command),
        "args": _literal(container.args),
        "port": container.port,
        "mounts": [*_mounts(job), {"name": "shm", "mountPath": SHARED_MEMORY}],
        **_resources(job, cards),
    }


def _fetch(job: Job, fetch: Fetch) -> dict[str, Any]:
    return {
        "name": fetch.name,
        "image": job.spec.source_image or job.image,
        "command": _literal(fetch.command),
        "args": [],
        "port": None,
        "mounts": [{"name": "scratch", "mountPath": SCRATCH}],
        # As much as the pod's own: it runs before that and costs nothing more.
        **_resources(job, {}),
    }


def _resources(job: Job, cards: Mapping[str, str]) -> dict[str, Any]:
    resources = job.spec.resources
    limits = {"cpu": resources.cpu, "memory": resources.memory, **cards}
    # A node is chosen that has the room on its disk; the limit is the volume's own.
    disk = {"ephemeral-storage": resources.scratch.size} if asks_for_disk(job.spec) else {}
    return {"limits": limits, "requests": limits | disk}


def _literal(words: Sequence[str]) -> list[str]:
    """Words as they are: Kubernetes would put variables where `$(NAME)` stands, and `$` for `$$`.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    return [word.replace("$", "$$") for word in words]


def _environment(values: Mapping[str, str | SecretRef]) -> list[dict[str, Any]]:
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}}
        if isinstance(value, SecretRef)
        else {"name": name, "value": _literal([value])[0]}
        for name, value in values.items()
    ]


def _mounts(job: Job) -> list[dict[str, Any]]:
    found = []
    for name, path in mounts_of(job).items():
        mount: dict[str, Any] = {"name": name, "mountPath": path}
        if name in READ_ONLY:
            mount["readOnly"] = True
        if name == "model":
            below = PurePosixPath(fetches_of(job)[0].at).relative_to(SCRATCH)
            mount |= {"name": "scratch", "subPath": str(below)}
        found.append(mount)
    return found


def _volumes(job: Job, packed: Sequence[Parcel]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "scratch", **_scratch(job, job.spec.resources.scratch)},
        # What is put there counts against the memory's limit.
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    if packed:
        sources = [_projection(config_map_name(job, number), one) for number, one in enumerate(packed)]
        found.append({"name": "config", "projected": {"sources": sources}})
    if job.spec.store is not None and job.spec.store.volume is not None:
        found.append({"name": "results", "persistentVolumeClaim": {"claimName": job.spec.store.volume}})
    return found


def _scratch(job: Job, scratch: Scratch) -> dict[str, Any]:
    """The node's own disk, or a volume that is claimed for the pod and ends with it.

    https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes
    """
    if scratch.storage_class is None:
        return {"emptyDir": {"sizeLimit": scratch.size}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": scratch.storage_class,
        "resources": {"requests": {"storage": scratch.size}},
    }
    return {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": labels_of(job)}, "spec": claim}}}


def _projection(name: str, parcel: Parcel) -> dict[str, Any]:
    items = [{"key": key, "path": path} for key, path in parcel.paths.items()]
    return {"configMap": {"name": name} | ({"items": items} if items else {})}


def _toleration(one: Toleration) -> dict[str, Any]:
    found = {
        "key": one.key,
        "operator": one.operator,
        "value": one.value,
        "effect": one.effect,
        "tolerationSeconds": one.seconds,
    }
    return {key: value for key, value in found.items() if value is not None}
