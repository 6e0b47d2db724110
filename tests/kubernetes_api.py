"""A stand-in of a cluster's API server: real HTTP on loopback, with state, and faults on demand.

    with KubernetesApi() as api:
        cluster = api.cluster(tmp_path)
        api.fail("status", code=429, retry_after=1, path="/jobs")
        api.world.pod(3).fail(exit_code=1)

Paths, bodies and Status objects are those that kubernetes.io, "Kubernetes API Concepts", tells of. Pods run
nowhere: what becomes of them says the test, by `api.world` (`tests/kubernetes_world.py`, with a table of what
a real server was seen to do).
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ci.jobs.cluster import Cluster, Effects, open_cluster
from tests import stand_in
from tests.kubernetes_checks import (
    KUEUE,
    RESOURCES,
    group_of,
    is_served,
    kept,
    refused,
    status,
    wrong_body,
    wrong_patch,
)
from tests.kubernetes_pages import Pages
from tests.kubernetes_routes import VERBS, Ask, found, merge, whole
from tests.kubernetes_store import Object, Store, selected
from tests.kubernetes_streams import log_of, watch_of
from tests.kubernetes_world import World
from tests.stand_in import Answer, Seen, StandIn

TOKEN = "sha256~made-up-for-tests"
NAMESPACE = "cards"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(kw_only=True)
class Fault(stand_in.Fault):
    """A fault; `status` answers with a Status of `code`, `reason` and `message`."""

    code: int
    reason: str
    message: str
    retry_after: int | None


class KubernetesApi(StandIn[Fault]):
    """The server.

    Attributes:
        store: what it holds.
        world: what becomes of the pods of jobs.
        token: that is known.
        denied: verbs and plurals that are refused with 403, such as ("delete", "jobs").
        allowed: the verbs and plurals that are not refused; None: all others than `denied`.
        used: verbs and plurals that were asked for, and not refused.
        unserved: plurals of kinds this cluster does not have.
        kueue: versions of Kueue that this cluster serves; empty: it has none.
        pages: of lists; how long they are, and how long they last.
        cut_watches: after so many events each, the next watches are cut, in order.
        bookmark_s: seconds of silence after which a watch sends a bookmark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.world = World(self.store)
        self.token = TOKEN
        self.git_version = "v1.33.2"
        self.denied: set[tuple[str, str]] = set()
        self.allowed: set[tuple[str, str]] | None = None
        self.used: set[tuple[str, str]] = set()
        self.unserved: set[str] = {"workloads"}
        self.kueue = ["v1beta1", "v1beta2"]
        self.pages = Pages()
        self.cut_watches: list[int] = []
        self.bookmark_s = 0.2
        with self.store.changed:
            self.store.add("namespaces", {"metadata": {"name": NAMESPACE}, "status": {"phase": "Active"}})

    def fail(
        self,
        kind: str = "status",
        *,
        code: int = 500,
        reason: str = "InternalError",
        message: str = "something of the cluster's own",
        method: str = "",
        path: str = "",
        times: int = 1,
        taken: bool = False,
        retry_after: int | None = None,
        seconds: float = 5,
    ) -> None:
        """Let the next requests fail that fit; kinds as in `tests.stand_in`, and `status`."""
        self.faults.append(
            Fault(
                kind=kind, method=method, path=path, times=times, taken=taken, seconds=seconds, code=code,
                reason=reason, message=message, retry_after=retry_after,
            )
        )  # fmt: skip

    def compact(self) -> None:
        """Forget what happened so far: watches from before it are told 410."""
        with self.store.changed:
            self.store.version += 1
            self.store.oldest = self.store.version

    def kubeconfig(self, folder: Path, *, token: str | None = None, namespace: str = NAMESPACE) -> Path:
        """A kubeconfig that leads here, in a folder."""
        path = folder / "kubeconfig"
        about = {"cluster": "here", "user": "me", "namespace": namespace}
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": token or self.token}}],
            "contexts": [{"name": "here", "context": about}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(content))
        return path

    def cluster(self, folder: Path, *, effects: Effects | None = None, patience_s: float = 90) -> Cluster:
        """A client of it."""
        environ = {"KUBECONFIG": str(self.kubeconfig(folder))}
        return open_cluster(environ, effects=effects, patience_s=patience_s)

    def put(self, made: Object, namespace: str = NAMESPACE) -> Object:
        """Have an object be there, as others than us would make it; no checks but its kind."""
        resource = next(one for one in RESOURCES if one.kind == made["kind"])
        made = copy.deepcopy(made)
        made.setdefault("apiVersion", resource.version)
        if resource.namespaced:
            made["metadata"].setdefault("namespace", namespace)
        with self.store.changed:
            self.store.add(resource.plural, made)
            self.world.sync()
        return made

    def asked(self, method: str, pattern: str) -> list[Seen]:
        """The requests of a method whose path holds a pattern, in the order they came."""
        return [one for one in self.seen if one.method == method and re.search(pattern, one.path)]

    def read(self, raw: bytes) -> Any:
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            return raw

    def usual(self, data: bytes) -> Mapping[str, str]:
        return {"content-type": "application/json", "content-length": str(len(data)), "audit-id": "made-up"}

    def refusal(self, fault: Fault) -> Answer:
        after = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        return Answer(status=fault.code, body=status(fault.code, fault.reason, fault.message), headers=after)

    def answer(self, seen: Seen) -> Answer:
        if seen.path == "/version":
            major, minor, _ = self.git_version.removeprefix("v").split(".")
            return Answer(body={"major": major, "minor": minor, "gitVersion": self.git_version})
        if seen.headers.get("authorization", "").lower() != f"bearer {self.token}".lower():
            return refused(401, "Unauthorized", "Unauthorized")
        if seen.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            return self._review(seen)
        if seen.path == f"/apis/{KUEUE}" and self.kueue:
            return Answer(body=group_of(KUEUE, self.kueue))
        ask = found(seen)
        if ask is None or ask.resource.plural in self.unserved or not is_served(ask.resource, self.kueue):
            return Answer(status=404, body=b"404 page not found\n", headers={"content-type": "text/plain"})
        return self._asked_of(ask)

    def _asked_of(self, ask: Ask) -> Answer:
        method, query = ask.seen.method, ask.seen.query
        verb = VERBS.get((method, bool(ask.name)))
        nowhere = verb == "create" and ask.resource.namespaced and not ask.namespace
        if verb is None or nowhere or (ask.part and method != "GET"):
            return refused(405, "MethodNotAllowed", "the server does not allow this method on the resource")
        if verb == "list" and query.get("watch") in {"1", "true"}:
            verb = "watch"
        about = ask.resource.plural + (f"/{ask.part}" if ask.part else "")
        if not self._may(verb, about):
            said = f'{about} is forbidden: User "me" cannot {verb} resource "{about}" in API group'
            text = f'{said} "{ask.resource.group}" in the namespace "{ask.namespace}"'
            return refused(403, "Forbidden", text, kind=about)
        self.used.add((verb, about))
        with self.store.changed:
            done: Answer = getattr(self, f"_{verb}")(ask)
            if method != "GET":
                self.world.sync()
            return done

    def _review(self, seen: Seen) -> Answer:
        if seen.method != "POST":
            return refused(405, "MethodNotAllowed", "the server does not allow this method on the resource")
        about = seen.body["spec"]["resourceAttributes"]
        plural = about["resource"] + (f"/{about['subresource']}" if about.get("subresource") else "")
        allowed = self._may(about["verb"], plural)
        return Answer(status=201, body={**seen.body, "status": {"allowed": allowed}})

    def _may(self, verb: str, plural: str) -> bool:
        return (verb, plural) not in self.denied and (self.allowed is None or (verb, plural) in self.allowed)

    def _get(self, ask: Ask) -> Answer:
        there = self._there(ask)
        if isinstance(there, Answer):
            return there
        if ask.part:
            return log_of(self.world, there, ask.seen.query, self.stop)
        return Answer(body=whole(ask.resource, there))

    def _watch(self, ask: Ask) -> Answer:
        cut = self.cut_watches.pop(0) if self.cut_watches else None
        query, bookmark_s = ask.seen.query, self.bookmark_s
        watched = watch_of(
            self.store, ask.resource, ask.namespace, query, self.stop, cut=cut, bookmark_s=bookmark_s
        )
        return Answer(body=watched)

    def _list(self, ask: Ask) -> Answer:
        query, resource = ask.seen.query, ask.resource
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        there = self.store.of(resource.plural, ask.namespace)
        rows = [one for one in there if selected(one, labels, fields)]
        return self.pages.page(resource, query, rows, version=str(self.store.version))

    def _create(self, ask: Ask) -> Answer:
        resource, body = ask.resource, copy.deepcopy(ask.seen.body)
        if resource.namespaced and ("namespaces", "", ask.namespace) not in self.store.objects:
            return refused(404, "NotFound", f'namespaces "{ask.namespace}" not found', name=ask.namespace)
        if wrong := wrong_body(resource, ask.namespace, body):
            return wrong
        body = kept(resource, body, self.git_version)
        about = body["metadata"]
        if not about.get("name"):
            # A cluster's own choice: nothing depends on it.
            about["name"] = about["generateName"] + "".join(random.choices(LETTERS, k=5))  # noqa: S311
        if resource.namespaced:
            about["namespace"] = ask.namespace
        if resource.kind == "Pod" and (said := self.world.refused(ask.namespace, body)):
            return refused(403, "Forbidden", said, name=about["name"], kind="pods")
        if self.store.key(resource.plural, body) in self.store.objects:
            text = f'{resource.plural} "{about["name"]}" already exists'
            return refused(409, "AlreadyExists", text, name=about["name"], kind=resource.plural)
        if ask.seen.query.get("dryRun") != "All":
            self.store.add(resource.plural, body)
        return Answer(status=201, body=whole(resource, body))

    def _patch(self, ask: Ask) -> Answer:
        there = self._there(ask)
        if isinstance(there, Answer):
            return there
        if ask.seen.headers.get("content-type") != "application/merge-patch+json":
            return refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        merged = merge(there, ask.seen.body)
        if wrong := wrong_patch(ask.resource, there, merged):
            return wrong
        if ask.seen.query.get("dryRun") != "All" and merged != there:
            there.clear()
            there.update(merged)
            self.store.tell("MODIFIED", ask.resource.plural, there)
        return Answer(body=whole(ask.resource, merged))

    def _delete(self, ask: Ask) -> Answer:
        there = self._there(ask)
        if isinstance(there, Answer):
            return there
        options = ask.seen.body or {}
        self.store.delete(ask.resource.plural, there, options.get("propagationPolicy", "Background"))
        if self.store.key(ask.resource.plural, there) in self.store.objects:
            return Answer(body=whole(ask.resource, there))
        about = {"name": ask.name, "kind": ask.resource.plural, "uid": there["metadata"]["uid"]}
        return Answer(body=status(200, "", "", **about))

    def _deletecollection(self, ask: Ask) -> Answer:
        query, options = ask.seen.query, ask.seen.body or {}
        for one in self.store.of(ask.resource.plural, ask.namespace):
            if selected(one, query.get("labelSelector", ""), query.get("fieldSelector", "")):
                self.store.delete(ask.resource.plural, one, options.get("propagationPolicy", "Background"))
        return Answer(body=status(200, "", ""))

    def _there(self, ask: Ask) -> Object | Answer:
        there = self.store.objects.get((ask.resource.plural, ask.namespace, ask.name))
        if there is None:
            text = f'{ask.resource.plural} "{ask.name}" not found'
            return refused(404, "NotFound", text, name=ask.name, kind=ask.resource.plural)
        return there
