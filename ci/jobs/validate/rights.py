"""What one must be allowed to do in a namespace so that submit, watch, logs and cancel work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ci.jobs.spec import Spec


class Right(NamedTuple):
    """A verb on a kind, as a SelfSubjectAccessReview asks for it."""

    verb: str
    group: str
    resource: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.part}" if self.part else "")

    def review(self, namespace: str) -> dict[str, object]:
        """The body of the review."""
        about = {
            "namespace": namespace, "verb": self.verb, "group": self.group, "resource": self.resource,
            "subresource": self.part,
        }  # fmt: skip
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": {key: value for key, value in about.items() if value}},
        }


def _rights(group: str, resource: str, verbs: str) -> list[Right]:
    return [Right(verb, group, resource) for verb in verbs.split()]


# The Role of docs/jobs-cluster.md is these. What `cancel` reads of secrets and claims is left out where it
# may not be.
RIGHTS: tuple[Right, ...] = (
    *_rights("batch", "jobs", "create get list patch delete"),
    *_rights("apps", "deployments", "create get list patch delete"),
    *_rights("", "configmaps", "create get list deletecollection"),
    *_rights("", "services", "create get list deletecollection"),
    # Made alone to look into a job, and to try a cluster, which deletes it by its name.
    *_rights("", "pods", "create get list watch delete deletecollection"),
    Right("get", "", "pods", "log"),
    *_rights("", "events", "list"),
    *_rights("", "secrets", "create get"),
)


def wanted(spec: Spec | None) -> list[Right]:
    """The rights that a job asks for; those of secrets only where a submit makes one.

    Args:
        spec: of the job; None: of any that is not a notebook.
    """
    makes = spec is not None and spec.kind == "notebook" and not (spec.notebook and spec.notebook.token)
    return [one for one in RIGHTS if makes or one.resource != "secrets"]


def lacking(rights: Mapping[str, bool], spec: Spec | None) -> list[str]:
    """The rights that a job asks for and we do not have, in their order."""
    return [str(one) for one in wanted(spec) if not rights.get(str(one), False)]
