"""What a cluster would say of manifests: its schemas, release by release, and the rules no schema tells."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

RELEASES = tuple(f"1.{minor}" for minor in range(28, 38))
Manifest = dict[str, Any]
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@functools.cache
def validator() -> Any:
    """The package with the schemas; a test that wants it skips where it is not installed."""
    found = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    # Each schema is a megabyte, and read anew by each call.
    found.utils.schema_contents = functools.cache(found.utils.schema_contents)
    return found


def check_strictly(manifests: Sequence[Manifest], releases: Sequence[str] = RELEASES) -> None:
    """Hold manifests against the schemas of releases, where a key they do not know is an error.

    Raises:
        AssertionError: one does not fit, or there is no schema to hold it against.
    """
    kubernetes_validate = validator()
    utils = kubernetes_validate.utils
    for release in releases:
        for one in manifests:
            what = f"{one.get('kind')} {one.get('apiVersion')} on {release}"
            try:
                held = kubernetes_validate.validate(one, release, strict=True)
            except (kubernetes_validate.SchemaNotFoundError, utils.VersionNotSupportedError) as error:
                raise AssertionError(f"no schema for {what}: {error.message}") from error
            except kubernetes_validate.ValidationError as error:
                raise AssertionError(f"{what}: {'.'.join(map(str, error.path))}: {error.message}") from error
            # Where there is no schema of a release, the one before it is taken in silence.
            assert held == release, f"no schema for {what}: {held} was taken"


def broken_rules(manifests: Sequence[Manifest]) -> list[str]:
    """What the API server refuses although the schemas take it."""
    return [f"{one['kind']}: {said}" for one in manifests for said in _broken(one)]


def _broken(one: Manifest) -> Iterator[str]:
    metadata = one["metadata"]
    if not _LABEL.fullmatch(metadata["name"]):
        yield f"name {metadata['name']!r}"
    yield from (
        f"label {value!r}" for value in metadata["labels"].values() if not _LABEL_VALUE.fullmatch(value)
    )
    if sum(len(f"{key}{value}".encode()) for key, value in metadata["annotations"].items()) > 256 * 1024:
        yield "annotations of more than 256 KiB"
    if one["kind"] == "ConfigMap":
        yield from _broken_config_map(one)
    if one["kind"] == "Job":
        yield from _broken_job(one["spec"])
    if one["kind"] == "Deployment":
        pod = one["spec"]["template"]["spec"]
        if pod["restartPolicy"] != "Always" or "activeDeadlineSeconds" in pod:
            yield "a Deployment whose pods end"
        chosen, has = one["spec"]["selector"]["matchLabels"], one["spec"]["template"]["metadata"]["labels"]
        if chosen.items() - has.items():
            yield "the selector does not choose its own pods"
    if one["kind"] in {"Job", "Deployment"}:
        yield from _broken_pod(one["spec"]["template"]["spec"])


def _broken_config_map(one: Manifest) -> Iterator[str]:
    content = {**one.get("data", {}), **one.get("binaryData", {})}
    if sum(len(value.encode()) for value in content.values()) > 4 * 1024 * 1024 // 3:
        yield "more than 1 MiB"
    for key in content:
        if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key) or key == "." or key.startswith(".."):
            yield f"key {key!r}"


def _broken_job(spec: Manifest) -> Iterator[str]:
    if "podFailurePolicy" in spec and spec["podReplacementPolicy"] != "Failed":
        yield "podReplacementPolicy with a podFailurePolicy"
    if "podFailurePolicy" in spec and spec["template"]["spec"]["restartPolicy"] != "Never":
        yield "restartPolicy with a podFailurePolicy"
    actions = {rule["action"] for rule in spec["podFailurePolicy"]["rules"]}
    if "FailIndex" in actions and "backoffLimitPerIndex" not in spec:
        yield "FailIndex without backoffLimitPerIndex"
    if spec["maxFailedIndexes"] > spec["completions"]:
        yield "maxFailedIndexes above completions"
    names = {one["name"] for one in spec["template"]["spec"]["containers"]}
    for rule in spec["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes")
        if codes and (codes["containerName"] not in names or 0 in codes["values"]):
            yield f"rule {rule}"
        if bool(codes) == bool(rule.get("onPodConditions")):
            yield f"both or none of onExitCodes and onPodConditions in {rule}"


def _broken_pod(pod: Manifest) -> Iterator[str]:
    volumes = [one["name"] for one in pod["volumes"]]
    if len(volumes) != len(set(volumes)):
        yield "a volume twice"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        mounts = container["volumeMounts"]
        yield from (f"mount of {one['name']}" for one in mounts if one["name"] not in volumes)
        paths = [one["mountPath"] for one in mounts]
        if len(paths) != len(set(paths)):
            yield "a mountPath twice"
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        if any("/" in key and requests.get(key) != value for key, value in limits.items()):
            yield "an extended resource whose request is not its limit"
