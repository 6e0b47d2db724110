"""What a stand-in of a cluster takes and refuses, as a real API server does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes.utils import parse_quantity as quantity_of

from tests.kubernetes_store import Store
from tests.manifests import check_strictly
from tests.stand_in import Answer

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
CONFIG_BYTES = 1 << 20
BODY_BYTES = 3 << 20
# The release whose schemas bodies are held against, with `fieldValidation=Strict`.
RELEASE = "1.33"
KUEUE = "kueue.x-k8s.io"
ENFORCED = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A kind the stand-in serves."""

    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        return self.version.partition("/")[0] if "/" in self.version else ""

    @property
    def base(self) -> str:
        return f"/apis/{self.version}" if self.group else f"/api/{self.version}"


def size(quantity: str) -> Any:
    return quantity_of(quantity)  # type: ignore[no-untyped-call]  # the client's


def _many(version: str, *, namespaced: bool = True, **kinds: str) -> list[Resource]:
    return [
        Resource(version=version, kind=kind, plural=plural, namespaced=namespaced)
        for kind, plural in kinds.items()
    ]


RESOURCES = [
    *_many("v1", ConfigMap="configmaps", Event="events", LimitRange="limitranges", Pod="pods",
           PersistentVolumeClaim="persistentvolumeclaims", ResourceQuota="resourcequotas", Secret="secrets",
           Service="services", ServiceAccount="serviceaccounts"),
    *_many("v1", namespaced=False, Namespace="namespaces", Node="nodes"),
    *_many("batch/v1", Job="jobs"),
    *_many("apps/v1", Deployment="deployments", ReplicaSet="replicasets"),
    *(
        one
        for version in (f"{KUEUE}/v1beta1", f"{KUEUE}/v1beta2", f"{KUEUE}/v1")
        for one in (
            *_many(version, LocalQueue="localqueues", Workload="workloads"),
            *_many(version, namespaced=False, ClusterQueue="clusterqueues"),
        )
    ),
    *_many("storage.k8s.io/v1", namespaced=False, StorageClass="storageclasses"),
    *_many("scheduling.k8s.io/v1", namespaced=False, PriorityClass="priorityclasses"),
    *_many("config.openshift.io/v1", namespaced=False, ClusterOperator="clusteroperators",
           ClusterVersion="clusterversions"),
    *_many("apiextensions.k8s.io/v1", namespaced=False,
           CustomResourceDefinition="customresourcedefinitions"),
]  # fmt: skip


def group_of(name: str, versions: Iterable[str]) -> dict[str, Any]:
    """What a group of the API says of itself."""
    rows = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": rows}


def is_served(resource: Resource, kueue: Sequence[str]) -> bool:
    """Whether a cluster with these versions of Kueue serves a kind."""
    return resource.group != KUEUE or resource.version.rpartition("/")[2] in kueue


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """A Status of meta/v1."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Success" if code < 300 else "Failure", "message": message, "reason": reason,
        "details": more, "code": code,
    }  # fmt: skip


def refused(code: int, reason: str, message: str, **more: Any) -> Answer:
    return Answer(status=code, body=status(code, reason, message, **more))


def invalid(resource: Resource, name: str, field: str, message: str) -> Answer:
    text = f'{resource.kind}.{resource.group} "{name}" is invalid: {field}: {message}'
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": field}]
    return refused(422, "Invalid", text, name=name, group=resource.group, kind=resource.kind, causes=causes)


def refused_pod(store: Store, namespace: str, pod: Mapping[str, Any]) -> str:
    """Why admission takes no such pod, whether somebody makes it or a job's controller; empty: it does."""
    spec, name = pod["spec"], pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
    said = ""
    if (priority := spec.get("priorityClassName")) and ("priorityclasses", "", priority) not in store.objects:
        said = f"no PriorityClass with name {priority} was found"
    account = spec.get("serviceAccountName")
    if account and ("serviceaccounts", namespace, account) not in store.objects:
        about = f'serviceaccount "{account}" not found'
        said = f"error looking up service account {namespace}/{account}: {about}"
    for limits in store.of("limitranges", namespace):
        for row in limits["spec"]["limits"]:
            most = row.get("max", {}).get("memory")
            asked = [one.get("resources", {}).get("limits", {}).get("memory") for one in spec["containers"]]
            if most is not None and any(one and size(one) > size(most) for one in asked):
                said = f"maximum memory usage per Container is {most}, but limit is {asked[0]}"
    held = (store.objects[("namespaces", "", namespace)]["metadata"].get("labels") or {}).get(ENFORCED)
    if held == "restricted" and not spec.get("securityContext", {}).get("runAsNonRoot"):
        said = 'violates PodSecurity "restricted:latest": runAsNonRoot != true'
    return f'pods "{name}" is forbidden: {said}' if said else ""


def wrong_body(resource: Resource, namespace: str, body: Any) -> Answer | None:
    """Why an object cannot be made; None where it can."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        return refused(400, "BadRequest", "the object provided is unrecognized")
    about = body["metadata"]
    if (body.get("apiVersion"), body.get("kind")) != (resource.version, resource.kind):
        given = f"{body.get('apiVersion')}, Kind={body.get('kind')}"
        wanted = f"{resource.version}, Kind={resource.kind}"
        said = f"{given} in the body does not match the expected {wanted}"
        return refused(400, "BadRequest", f"the API version in the data ({said})")
    if resource.namespaced and about.get("namespace", namespace) != namespace:
        said = "the namespace of the provided object does not match the namespace sent on the request"
        return refused(400, "BadRequest", said)
    if len(json.dumps(body)) > BODY_BYTES:
        return refused(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    if said := _strictly(resource, body):
        text = (
            f"{resource.kind} in version {resource.version!r} cannot be handled as a {resource.kind}: {said}"
        )
        return refused(400, "BadRequest", text)
    return _wrong_about(resource, about) or _wrong_content(resource, about.get("name", ""), body)


def _strictly(resource: Resource, body: Mapping[str, Any]) -> str:
    """What the release's schema does not take; empty where it takes all, or there is none of the kind."""
    if resource.kind not in {"ConfigMap", "Deployment", "Job", "Pod", "Secret", "Service"}:
        return ""
    try:
        check_strictly([dict(body)], [RELEASE])
    except AssertionError as error:
        return f"strict decoding error: {error}"
    return ""


def _wrong_about(resource: Resource, about: Mapping[str, Any]) -> Answer | None:
    name = about.get("name") or about.get("generateName", "").rstrip("-")
    if not name:
        return invalid(resource, "", "metadata.name", "Required value: name or generateName is required")
    pattern, longest = (_LABEL, 63) if resource.kind in {"Service", "Namespace"} else (_SUBDOMAIN, 253)
    if not pattern.fullmatch(name) or len(name) > longest:
        return invalid(resource, name, "metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 name')
    for key, value in (about.get("labels") or {}).items():
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            said = f'Invalid value: "{value}": a valid label must be an empty string or consist of …'
            return invalid(resource, name, "metadata.labels", said if isinstance(value, str) else f"{key}")
    if any(not isinstance(one, str) for one in (about.get("annotations") or {}).values()):
        return refused(
            400, "BadRequest", "json: cannot unmarshal into Go struct field ObjectMeta.annotations"
        )
    for ref in about.get("ownerReferences") or ():
        if missing := {"apiVersion", "kind", "name", "uid"} - set(ref):
            return invalid(resource, name, f"metadata.ownerReferences.{min(missing)}", "Required value")
    return None


def _wrong_content(resource: Resource, name: str, body: Mapping[str, Any]) -> Answer | None:
    if resource.kind == "ConfigMap":
        size = sum(len(one) for part in ("data", "binaryData") for one in (body.get(part) or {}).values())
        if size > CONFIG_BYTES:
            return invalid(resource, name, "data", "Too long: must have at most 1048576 bytes")
    if resource.kind == "Service" and not body.get("spec", {}).get("ports"):
        return invalid(resource, name, "spec.ports", "Required value")
    if resource.kind not in {"Job", "Deployment", "Pod"}:
        return None
    spec = body.get("spec", {})
    pod = spec if resource.kind == "Pod" else spec.get("template", {}).get("spec", {})
    if not pod.get("containers"):
        return invalid(resource, name, "spec.template.spec.containers", "Required value")
    for one in (*pod["containers"], *pod.get("initContainers", ())):
        if not one.get("name") or not one.get("image"):
            return invalid(resource, name, "spec.template.spec.containers[0].image", "Required value")
    return _wrong_job(resource, name, spec, pod) if resource.kind == "Job" else None


def _wrong_job(
    resource: Resource, name: str, spec: Mapping[str, Any], pod: Mapping[str, Any]
) -> Answer | None:
    if pod.get("restartPolicy") not in {"Never", "OnFailure"}:
        said = 'Required value: valid values: "OnFailure", "Never"'
        return invalid(resource, name, "spec.template.spec.restartPolicy", said)
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and spec.get("completions") is None:
        said = "Required value: when completion mode is Indexed"
        return invalid(resource, name, "spec.completions", said)
    if spec.get("backoffLimitPerIndex") is not None and not indexed:
        said = 'Invalid value: requires "Indexed" completion mode'
        return invalid(resource, name, "spec.backoffLimitPerIndex", said)
    if spec.get("podFailurePolicy") and pod["restartPolicy"] != "Never":
        said = 'Invalid value: only "Never" is supported when podFailurePolicy is specified'
        return invalid(resource, name, "spec.template.spec.restartPolicy", said)
    if indexed and len(f"{name}-{spec['completions'] - 1}-xxxxx") > 63:
        said = f'Invalid value: "{name}": pod names of it would have more than 63 characters'
        return invalid(resource, name, "metadata.name", said)
    return None


def kept(resource: Resource, body: Mapping[str, Any], git_version: str) -> dict[str, Any]:
    """What a server of a version keeps: a Job's failure policy is behind gates that are off before 1.29.

    pkg/registry/batch/job/strategy.go, PrepareForCreate of 1.28.
    """
    if resource.kind != "Job" or int(git_version.split(".")[1]) >= 29:
        return dict(body)
    gated = {"backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy"}
    spec = {key: value for key, value in body["spec"].items() if key not in gated}
    if policy := spec.get("podFailurePolicy"):
        rules = [one for one in policy["rules"] if one["action"] != "FailIndex"]
        spec["podFailurePolicy"] = {**policy, "rules": rules}
    return {**body, "spec": spec}


IMMUTABLE = {
    "Job": ("template", "completions", "completionMode", "selector", "podFailurePolicy",
            "backoffLimitPerIndex", "podReplacementPolicy"),
    "Deployment": ("selector",),
}  # fmt: skip


def wrong_patch(resource: Resource, was: Mapping[str, Any], is_: Mapping[str, Any]) -> Answer | None:
    """Why a change is refused; None where it is not."""
    name = was["metadata"]["name"]
    for field in ("name", "uid", "creationTimestamp"):
        if is_["metadata"].get(field) != was["metadata"].get(field):
            return invalid(resource, name, f"metadata.{field}", "Invalid value: field is immutable")
    for field in IMMUTABLE.get(resource.kind, ()):
        if is_.get("spec", {}).get(field) != was.get("spec", {}).get(field):
            return invalid(resource, name, f"spec.{field}", "Invalid value: field is immutable")
    if was.get("immutable") and is_.get("data") != was.get("data"):
        return invalid(resource, name, "data", "Forbidden: field is immutable when `immutable` is set")
    return None
