"""Render a job as manifests: ConfigMaps, a Service where it listens, and the Job or Deployment. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.core.errors import SettingsError
from ci.jobs.cluster import SPEC_ANNOTATION
from ci.jobs.job import SCRATCH, Helper, Job, container_of, environment_of, helpers_of, mounts_of
from ci.jobs.labels import QUEUE_LABEL, annotations_of, found_by, labels_of, origin_of
from ci.jobs.plan_chunks import CHUNK_BYTES
from ci.jobs.spec import Scratch, SecretRef, Spec

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")
# Many times as fast where libyaml is there, for ConfigMaps of some megabytes.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# `1e3` is a text to YAML 1.1 as it is read here, and a number to others; `y` is true to some.
_WORD = re.compile(r"[A-Za-z][-A-Za-z0-9_./]+")
# PyTorch's workers hand tensors over in it, and 64 MiB are soon full.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a place of the container
READ_ONLY = {"config", "model"}
# Every pod mounts all of a job's ConfigMaps.
MAX_CONFIG_MAPS = 16
# `..` begins what the kubelet keeps beside the files, ..data among them.
_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")
_SMALL = {"cpu": "250m", "memory": "512Mi"}
UPLOADER = {"limits": _SMALL, "requests": _SMALL}
NAMES = {"seconds": "tolerationSeconds"}
Manifest = dict[str, Any]


def fill(template: str, **values: Any) -> dict[str, Any]:
    """A manifest, or part of one, of a template and what goes in; no value gets out of its place.

    Args:
        template: name, without its ending.
        **values: what JSON knows, and objects whose attributes are.
    """
    text = _environment().get_template(f"{template}.yaml.j2").render(values)
    filled: dict[str, Any] = yaml.load(text, Loader=_LOADER)  # noqa: S506  # the safe one
    return filled


def quoted(value: Any) -> str:
    """A value as JSON, which is YAML too: one line of ASCII, whatever it holds.

    JSON's own escapes would not do: half a pair of surrogates is a letter to YAML, and it folds lines where
    Unicode breaks them.
    """
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_ASCII.sub(lambda found: f"\\U{ord(found[0]):08x}", text)


def to_yaml(manifests: list[dict[str, Any]]) -> str:
    """Manifests as YAML documents, as `kubectl create` reads them."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=110)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ci.jobs"),
        undefined=StrictUndefined,
        # Every value that a template prints, so that none can be forgotten.
        finalize=quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # not for a page
    )


class _Dumper(_DUMPER):  # type: ignore[misc,valid-type]  # whichever is there
    """Texts quoted but for plain words, lines as lines, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the method it stands for
        return True


def _represent(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None if _WORD.fullmatch(value) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent)


def pod_of(job: Job, config_maps: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The template of a job's pods.

    Args:
        job: to be rendered.
        config_maps: path by key of each ConfigMap.
    """
    spec, container = job.spec, container_of(job)
    helpers = helpers_of(job)
    cards = {spec.resources.card_resource: str(spec.resources.cards)} if spec.resources.cards else {}
    mounts = [*_mounts(job), {"name": "shm", "mountPath": SHARED_MEMORY}]
    main = {
        "name": "main",
        "image": job.image,
        "command": _literal(container.command),
        "args": _literal(container.args),
        "environment": _variables(container.environment),
        "port": container.port,
        "mounts": mounts,
        **_resources(spec, cards),
    }
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
        tolerations=[
            {NAMES.get(name, name): value for name, value in one.model_dump(exclude_none=True).items()}
            for one in spec.tolerations
        ],
        before=[_helper(job, one) for one in helpers if not one.beside],
        containers=[main, *(_helper(job, one) for one in helpers if one.beside)],
        volumes=_volumes(job, config_maps),
    )


def asks_for_disk(spec: Spec) -> bool:
    """Whether pods ask for room on their node's disk.

    Not in a queue: Kueue admits no job that asks for what its ClusterQueue does not cover, and next to none
    covers ephemeral-storage. Scratch keeps its sizeLimit all the same.
    """
    return spec.resources.scratch.storage_class is None and spec.queue is None


def _helper(job: Job, helper: Helper) -> dict[str, Any]:
    return {
        "name": helper.name,
        "image": helper.image,
        "command": _literal(helper.command),
        "args": [],
        "environment": _variables(environment_of(job)),
        "port": None,
        "mounts": [{"name": "scratch", "mountPath": SCRATCH}],
        # What runs before costs nothing more than the pod's own.
        **(UPLOADER if helper.beside else _resources(job.spec, {})),
    }


def _resources(spec: Spec, cards: Mapping[str, str]) -> dict[str, Any]:
    limits = {"cpu": spec.resources.cpu, "memory": spec.resources.memory, **cards}
    # A node is chosen that has the room on its disk; the limit is the volume's own.
    disk = {"ephemeral-storage": spec.resources.scratch.size} if asks_for_disk(spec) else {}
    return {"limits": limits, "requests": limits | disk}


def _literal(words: Sequence[str]) -> list[str]:
    """Words as they are: Kubernetes would put variables where `$(NAME)` stands, and `$` for `$$`.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    return [word.replace("$", "$$") for word in words]


def _variables(values: Mapping[str, str | SecretRef]) -> list[dict[str, Any]]:
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
            below = PurePosixPath(helpers_of(job)[0].at).relative_to(SCRATCH)
            mount |= {"name": "scratch", "subPath": str(below)}
        found.append(mount)
    return found


def _volumes(job: Job, config_maps: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "scratch", **_scratch(job, job.spec.resources.scratch)},
        # What is put there counts against the memory's limit.
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    if config_maps:
        sources = [
            {"configMap": {"name": f"{job.name}-{number}"} | _items(paths)}
            for number, paths in enumerate(config_maps)
        ]
        found.append({"name": "config", "projected": {"sources": sources}})
    if job.spec.store is not None and job.spec.store.volume is not None:
        found.append({"name": "results", "persistentVolumeClaim": {"claimName": job.spec.store.volume}})
    return found


def _items(paths: Mapping[str, str]) -> dict[str, Any]:
    if all(key == path for key, path in paths.items()):
        return {}
    return {"items": [{"key": key, "path": path} for key, path in paths.items()]}


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


def config_maps_of(files: Mapping[str, bytes]) -> list[dict[str, str]]:
    """Path by key of the files of each ConfigMap; a path that is no key gets a number for one.

    Raises:
        SettingsError: they are more than ConfigMaps hold.
    """
    found: list[dict[str, str]] = []
    room = 0
    for number, path in enumerate(sorted(files)):
        size = len(files[path])
        if not found or size > room:
            found.append({})
            room = CHUNK_BYTES
        room -= size
        key = path if _KEY.fullmatch(path) else f"file-{number}"
        found[-1][key if key == path or key not in files else f"{key}-of-a-folder"] = path
        if room < 0 or len(found) > MAX_CONFIG_MAPS:
            raise SettingsError(
                f"{len(files):,} files of {sum(map(len, files.values())):,} bytes are more than "
                f"{MAX_CONFIG_MAPS} ConfigMaps of {CHUNK_BYTES:,} bytes hold",
                where="configs",
                remedy="fetch what is large with `source`, or put it into the image; of a plan: store.bucket",
            )
    return found


def render(job: Job) -> list[Manifest]:
    """The manifests of a job, in the order they are made; the same job gives the same.

    Args:
        job: resolved; the contract of its kind holds.

    Raises:
        SettingsError: the files do not go into ConfigMaps, or the tags into annotations.
    """
    packed = config_maps_of(job.files)
    manifests = [_config_map(job, number, paths) for number, paths in enumerate(packed)]
    pod = pod_of(job, packed)
    port = container_of(job).port
    if port is not None:
        found = found_by(job.name)
        manifests.append(fill("service", metadata=_metadata(job), found_by=found, port=port))
    manifests.append(_deployment(job, pod) if job.spec.kind == "serve" else _job(job, pod))
    # A job of the same name with another digest was rendered of something else.
    content = json.dumps(manifests, sort_keys=True).encode() + job.plan
    digest = hashlib.sha256(content).hexdigest()
    for one in manifests:
        one["metadata"]["annotations"][SPEC_ANNOTATION] = digest
    return manifests


def _config_map(job: Job, number: int, paths: Mapping[str, str]) -> Manifest:
    files = {key: job.files[path] for key, path in paths.items()}
    texts = {key: text for key, content in files.items() if (text := _text(content)) is not None}
    binaries = {key: base64.b64encode(content).decode() for key, content in files.items() if key not in texts}
    metadata = _metadata(job) | {"name": f"{job.name}-{number}"}
    return fill("configmap", metadata=metadata, texts=texts, binaries=binaries)


def _job(job: Job, pod: Manifest) -> Manifest:
    return fill(
        "job",
        metadata=_metadata(job, queue=job.spec.queue),
        pods=job.pods,
        suspend=job.spec.queue is not None,
        uploads=bool(job.plan),
        retries=job.spec.retries,
        deadline_s=job.deadline_s,
        ttl_s=job.spec.ttl_minutes * 60,
        pod=pod,
    )


def _deployment(job: Job, pod: Manifest) -> Manifest:
    metadata = _metadata(job, queue=job.spec.queue)
    return fill("deployment", metadata=metadata, found_by=found_by(job.name), pod=pod)


def _metadata(job: Job, queue: str | None = None) -> Manifest:
    return {
        "name": job.name,
        "namespace": job.namespace,
        "labels": labels_of(job) | ({QUEUE_LABEL: queue} if queue else {}),
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
