"""What a stand-in of a cluster tells bit by bit: watches, and logs of pods."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.kubernetes_checks import Resource, refused, status
from tests.kubernetes_store import Change, Object, Store, selected
from tests.stand_in import Answer, BreakOffError

if TYPE_CHECKING:
    from tests.kubernetes_world import World

STEP_S = 0.02


def watch_of(
    store: Store,
    resource: Resource,
    namespace: str,
    query: Mapping[str, str],
    stop: threading.Event,
    *,
    cut: int | None,
    bookmark_s: float,
) -> Iterator[bytes]:
    """The events of a watch until its time is over, or until it is cut after so many."""
    seen = int(query.get("resourceVersion") or store.version)
    end = time.monotonic() + float(query.get("timeoutSeconds", 1800))
    bookmarks = query.get("allowWatchBookmarks") == "true"
    sent, at, quiet = 0, 0, time.monotonic()
    while time.monotonic() < end and not stop.is_set():
        with store.changed:
            if seen < store.oldest:
                text = f"too old resource version: {seen} ({store.oldest})"
                yield _line("ERROR", status(410, "Expired", text))
                return
            if at == len(store.history):
                store.changed.wait(STEP_S)
            news, at, newest = store.history[at:], len(store.history), store.version
        for change in news:
            if change.version > seen and _is_asked(change, resource, namespace, query):
                _cut_after(cut, sent)
                seen, sent, quiet = change.version, sent + 1, time.monotonic()
                yield _line(change.kind, _whole(resource, change.object))
        _cut_after(cut, sent)
        if bookmarks and time.monotonic() - quiet > bookmark_s:
            quiet, seen = time.monotonic(), max(seen, newest)
            about = {"resourceVersion": str(newest), "creationTimestamp": None}
            yield _line("BOOKMARK", _whole(resource, {"metadata": about, "spec": {}, "status": {}}))


def _is_asked(change: Change, resource: Resource, namespace: str, query: Mapping[str, str]) -> bool:
    ours = namespace in {"", change.object["metadata"].get("namespace", "")}
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return change.plural == resource.plural and ours and selected(change.object, labels, fields)


def _cut_after(cut: int | None, sent: int) -> None:
    if cut is not None and sent >= cut:
        raise BreakOffError


def log_of(world: World, pod: Object, query: Mapping[str, str], stop: threading.Event) -> Answer:
    """A container's log, as far as it is asked for."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [one["name"] for one in (*spec.get("initContainers", ()), *spec["containers"])]
    asked = query.get("container", "")
    if not asked and len(containers) > 1:
        said = f"a container name must be specified for pod {name}, choose one of: {containers}"
        return refused(400, "BadRequest", said)
    asked = asked or containers[0]
    if asked not in containers:
        return refused(400, "BadRequest", f"container {asked} is not valid for pod {name}")
    known = {one["name"]: one for one in pod["status"].get("containerStatuses", ())}
    if query.get("previous") == "true":
        said = f'previous terminated container "{asked}" in pod "{name}" not found'
        return refused(400, "BadRequest", said)
    state = known.get(asked, {}).get("state", {"waiting": {"reason": "PodInitializing"}})
    if why := state.get("waiting"):
        said = f'container "{asked}" in pod "{name}" is waiting to start: {why["reason"]}'
        return refused(400, "BadRequest", said)
    pieces = _log_pieces(world, pod, asked, query, stop)
    return Answer(body=pieces, headers={"content-type": "text/plain"})


def _log_pieces(
    world: World, pod: Object, container: str, query: Mapping[str, str], stop: threading.Event
) -> Iterator[bytes]:
    lines = world.logs.setdefault((pod["metadata"]["name"], container), [])
    since = time.time() - float(query["sinceSeconds"]) if "sinceSeconds" in query else 0.0
    if "sinceTime" in query:
        # Between the API server and a kubelet whole seconds are left of it.
        since = float(int(datetime.fromisoformat(query["sinceTime"]).timestamp()))
    at = max(len(lines) - int(query["tailLines"]), 0) if "tailLines" in query else 0
    sent = 0
    while not stop.is_set():
        for when, line in lines[at:]:
            if when >= since:
                if world.cut_log_after is not None and sent >= world.cut_log_after:
                    world.cut_log_after = None
                    raise BreakOffError
                sent += 1
                shown = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ")
                yield (shown.encode() if query.get("timestamps") == "true" else b"") + line + b"\n"
            at += 1
        over = pod["status"].get("phase") in {"Succeeded", "Failed"}
        if query.get("follow") != "true" or (over and at == len(lines)):
            return
        stop.wait(STEP_S)


def _line(kind: str, told: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": told}).encode() + b"\n"


def _whole(resource: Resource, one: Mapping[str, Any]) -> Object:
    return {"kind": resource.kind, "apiVersion": resource.version, **one}
