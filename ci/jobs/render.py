"""Render a job as manifests: ConfigMaps, a Service where it listens, and the Job or Deployment. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from ci.core.errors import SettingsError
from ci.jobs.cluster import SPEC_ANNOTATION
from ci.jobs.job import SCRATCH, Job, container_of, environment_of, helpers_of, mounts_of
from ci.jobs.labels import QUEUE_LABEL, annotations_of, found_by, labels_of, origin_of
from ci.jobs.plan_chunks import CHUNK_BYTES
from ci.jobs.spec import Spec

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")
# Many times as fast where libyaml is there, for ConfigMaps of some megabytes.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# `1e3` is a text to YAML 1.1 as it is read here, and a number to others; `y` is true to some.
_WORD = re.compile(r"[A-Za-z][-A-Za-z0-9_./]+")
# Every pod mounts all of a job's ConfigMaps.
MAX_CONFIG_MAPS = 16
# `..` begins what the kubelet keeps beside the files, ..data among them.
_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")
UPLOADER = {"cpu": "250m", "memory": "512Mi"}
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
    made = Environment(
        loader=PackageLoader("ci.jobs"),
        undefined=StrictUndefined,
        # Every value that a template prints, so that none can be forgotten.
        finalize=quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # not for a page
    )
    # Words as they are: Kubernetes would put variables where `$(NAME)` stands, and `$` for `$$`.
    # https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    made.filters["literal"] = lambda words: [word.replace("$", "$$") for word in words]
    return made


class _Dumper(_DUMPER):  # type: ignore[misc,valid-type]  # whichever is there
    """Texts quoted but for plain words, lines as lines, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the method it stands for
        return True


def _represent(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None if _WORD.fullmatch(value) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent)


def render(job: Job) -> list[Manifest]:
    """The manifests of a job, in the order they are made; the same job gives the same.

    Args:
        job: resolved.

    Raises:
        SettingsError: the files do not go into ConfigMaps.
    """
    spec, labels, own = job.spec, labels_of(job), found_by(job.name)
    metadata = {
        "name": job.name,
        "namespace": job.namespace,
        "labels": labels,
        "annotations": annotations_of(job),
    }
    config_maps = config_maps_of(job)
    manifests = [
        fill("configmap", metadata=metadata | {"name": name}, **_contents(job, paths))
        for name, paths in config_maps.items()
    ]
    if (port := container_of(job).port) is not None:
        manifests.append(fill("service", metadata=metadata, found_by=own, port=port))
    if spec.queue:
        metadata["labels"] = labels | {QUEUE_LABEL: spec.queue}
    pod = fill(
        "pod",
        job=job,
        spec=spec,
        labels=labels,
        origin=origin_of(job),
        config_maps=config_maps,
        **_containers(job),
    )
    owner = "deployment" if spec.kind == "serve" else "job"
    manifests.append(fill(owner, job=job, spec=spec, metadata=metadata, found_by=own, pod=pod))
    # A job of the same name with another digest was rendered of something else.
    content = json.dumps(manifests, sort_keys=True).encode() + job.plan
    for one in manifests:
        one["metadata"]["annotations"][SPEC_ANNOTATION] = hashlib.sha256(content).hexdigest()
    return manifests


def _containers(job: Job) -> dict[str, Any]:
    """The containers that begin before the job's own, and those beside it, itself first."""
    spec, own, helpers = job.spec, container_of(job), helpers_of(job)
    amounts = {"cpu": spec.resources.cpu, "memory": spec.resources.memory}
    cards = {spec.resources.card_resource: str(spec.resources.cards)} if spec.resources.cards else {}
    # PyTorch's workers hand tensors over in shared memory, and 64 MiB are soon full.
    mounts = mounts_of(job) | {"shm": "/dev/shm"}  # noqa: S108  # a place of the container
    common = {"environment": environment_of(job), "mounts": {"scratch": SCRATCH}, "args": (), "port": None}
    main = {
        "name": "main",
        "image": job.image,
        **asdict(own),
        "mounts": mounts,
        **_room(spec, amounts | cards),
    }
    before, beside = [], [main]
    for one in helpers:
        made = {"name": one.name, "image": one.image, "command": one.command, **common}
        if one.beside:
            beside.append(made | {"limits": UPLOADER, "requests": UPLOADER})
        else:
            # It costs nothing more than the pod's own.
            before.append(made | _room(spec, amounts))
    model = str(PurePosixPath(helpers[0].at).relative_to(SCRATCH)) if "model" in mounts else ""
    return {"before": before, "beside": beside, "model": model}


def _room(spec: Spec, limits: Mapping[str, str]) -> dict[str, Any]:
    """Limits and requests: a node is chosen that has room for scratch; its limit is the volume's own.

    Not in a queue: Kueue admits no job that asks for what its ClusterQueue does not cover, and next to none
    covers ephemeral-storage.
    """
    scratch = spec.resources.scratch
    own = scratch.storage_class is None and spec.queue is None
    return {"limits": limits, "requests": {**limits, **({"ephemeral-storage": scratch.size} if own else {})}}


def config_maps_of(job: Job) -> dict[str, dict[str, str]]:
    """The ConfigMaps of a job's files by name: path by key.

    Raises:
        SettingsError: they are more than ConfigMaps hold.
    """
    found: list[dict[str, str]] = []
    room, are_keys = 0, all(map(_KEY.fullmatch, job.files))
    for number, (path, content) in enumerate(sorted(job.files.items())):
        if not found or len(content) > room:
            found.append({})
            room = CHUNK_BYTES
        room -= len(content)
        found[-1][path if are_keys else f"file-{number}"] = path
        if room < 0 or len(found) > MAX_CONFIG_MAPS:
            raise SettingsError(
                f"{len(job.files):,} files of {sum(map(len, job.files.values())):,} bytes do not fit into "
                f"{MAX_CONFIG_MAPS} ConfigMaps of {CHUNK_BYTES:,} bytes",
                where="configs",
                remedy="fetch large files with `source`, or put them into the image; a plan: store.bucket",
            )
    return {f"{job.name}-{number}": paths for number, paths in enumerate(found)}


def _contents(job: Job, paths: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The files of a ConfigMap by key: texts as they are, all else in base64."""
    files = {key: job.files[path] for key, path in paths.items()}
    texts = {key: text for key, content in files.items() if (text := _text(content)) is not None}
    binaries = {key: base64.b64encode(content).decode() for key, content in files.items() if key not in texts}
    return {"texts": texts, "binaries": binaries}


def _text(content: bytes) -> str | None:
    """What stands as text in a ConfigMap: UTF-8 that a person can read; None: bytes."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    # A control character takes six bytes of a request, which may be no larger than three MiB.
    return text if all(letter.isprintable() or letter in "\t\n\r" for letter in text) else None
