"""A job as manifests: ConfigMaps, a Service where it listens, and the Job or Deployment; pure."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from ci.jobs.fill import fill
from ci.jobs.job import Job, container_of
from ci.jobs.labels import QUEUE_LABEL, SPEC_ANNOTATION, annotations_of, found_by, labels_of
from ci.jobs.parcels import Parcel, parcels
from ci.jobs.pod_template import config_map_name, pod_of

Manifest = dict[str, Any]


def render(job: Job) -> list[Manifest]:
    """The manifests of a job, in the order they are made; the same job gives the same.

    Args:
        job: resolved; the contract of its kind holds.

    Raises:
        SettingsError: the configuration files do not go into ConfigMaps, or the tags into annotations.
    """
    packed = [] if job.by_volume else parcels(job.files)
    manifests = [_config_map(job, number, parcel) for number, parcel in enumerate(packed)]
    pod = pod_of(job, packed)
    port = container_of(job).port
    if port is not None:
        found = found_by(job.name)
        manifests.append(fill("service", metadata=_metadata(job), found_by=found, port=port))
    manifests.append(_deployment(job, pod) if job.spec.kind == "serve" else _job(job, pod))
    # A job of the same name with another digest was rendered of something else.
    digest = hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()
    for one in manifests:
        one["metadata"]["annotations"][SPEC_ANNOTATION] = digest
    return manifests


def _config_map(job: Job, number: int, parcel: Parcel) -> Manifest:
    texts = {key: text for key, content in parcel.files.items() if (text := _text(content)) is not None}
    binaries = {
        key: base64.b64encode(content).decode() for key, content in parcel.files.items() if key not in texts
    }
    metadata = _metadata(job, config_map_name(job, number))
    return fill("configmap", metadata=metadata, texts=texts, binaries=binaries)


def _job(job: Job, pod: Manifest) -> Manifest:
    return fill(
        "job",
        metadata=_metadata(job, queue=job.spec.queue),
        pods=job.pods,
        suspend=job.spec.queue is not None,
        retries=job.spec.retries,
        deadline_s=job.deadline_s,
        ttl_s=job.spec.ttl_minutes * 60,
        pod=pod,
    )


def _deployment(job: Job, pod: Manifest) -> Manifest:
    metadata = _metadata(job, queue=job.spec.queue)
    return fill("deployment", metadata=metadata, found_by=found_by(job.name), pod=pod)


def _metadata(job: Job, name: str = "", queue: str | None = None) -> Manifest:
    labels = labels_of(job) | ({QUEUE_LABEL: queue} if queue else {})
    return {
        "name": name or job.name,
        "namespace": job.namespace,
        "labels": labels,
        "annotations": annotations_of(job),
    }


def _text(content: bytes) -> str | None:
    """What stands as text in a ConfigMap: UTF-8 that a person can read; None: bytes."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    # A control character takes six bytes of a request, which may be no larger than three MiB.
    return text if all(letter.isprintable() or letter in "\t\n\r" for letter in text) else None
