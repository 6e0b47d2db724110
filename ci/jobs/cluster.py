"""A cluster: every call of its API goes through here.

One request by itself is in `ci.jobs.transport`, second tries in `ci.jobs.transport`, what an answer means in
`ci.jobs.answers`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from ci.jobs.access import configuration_of
from ci.jobs.answers import events_of
from ci.jobs.errors import ConflictError, CutError, GoneError, MissingError
from ci.jobs.paths import VERSION, log_path
from ci.jobs.transport import READ_TIMEOUT_S, Asking, Effects, Wire, all_pages

__all__ = ["Cluster", "Effects", "open_cluster", "same_spec"]

SPEC_ANNOTATION = "spyre-ci.io/spec"
PATIENCE_S = 90.0
# How often a list is begun anew whose version was dropped under way.
RELISTS = 3
# A log that is followed may be silent for long; a server that went away is noticed in the end.
FOLLOW_SILENCE_S = 3600.0


class Cluster:
    """A cluster's API, as whoever asks sees it; paths are those of `ci.jobs.paths`.

    Every call raises what `ci.jobs.errors` has, after second tries where those help.

    Args:
        wire: the way to it.
        namespace: where jobs are put where nothing else is said.
        effects: time and chance.
        patience_s: how long one call may wait in all.
    """

    def __init__(
        self, wire: Wire, namespace: str, *, effects: Effects | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        self.namespace = namespace
        self.effects = effects or Effects()
        self._asking = Asking(wire, self.effects, patience_s)

    def version(self) -> dict[str, Any]:
        """What the cluster says it is."""
        return self._asking.answer("GET", VERSION)

    def get(self, path: str) -> dict[str, Any] | None:
        """An object; None where there is none."""
        try:
            return self._asking.answer("GET", path)
        except MissingError:
            return None

    def items(self, path: str, *, labels: str = "", fields: str = "") -> tuple[list[dict[str, Any]], str]:
        """A list, page by page, and the version a watch goes on from.

        Raises:
            MissingError: the cluster does not serve this kind.
        """
        for _ in range(RELISTS):
            try:
                return all_pages(self._asking, path, _narrowed(labels, fields))
            except GoneError as error:
                # The version the first page was of is kept for some minutes only.
                gone = error
        raise gone

    def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Make an object, or have it checked only; a field that the cluster does not know is refused.

        Where an answer never came it is sent again, since its name keeps it from being made twice.

        Raises:
            ConflictError: what has its name is not it, by our hash of its spec.
        """
        name = body.get("metadata", {}).get("name", "")
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        try:
            return self._asking.answer("POST", path, query, body, again=bool(name) or dry_run)
        except ConflictError:
            there = self.get(f"{path}/{name}")
            if there is None or not same_spec(there, body):
                raise
            return there

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change an object by a merge patch (RFC 7386)."""
        return self._asking.answer("PATCH", path, None, body)

    def delete(self, path: str, *, propagation: str = "Background") -> bool:
        """Delete an object; False where there is none."""
        try:
            self._asking.answer("DELETE", path, None, _options(propagation))
        except MissingError:
            return False
        return True

    def delete_all(self, path: str, labels: str) -> None:
        """Delete everything of a kind that has these labels, with what it owns.

        Args:
            path: of the kind's list.
            labels: a selector; an empty one would mean everything there is.
        """
        assert labels  # noqa: S101  # nobody's mistake but ours, and a namespace is lost by it
        self._asking.answer("DELETE", path, {"labelSelector": labels}, _options("Background"))

    def watch(
        self, path: str, *, labels: str, resource_version: str, timeout_s: int
    ) -> Generator[dict[str, Any], None, None]:
        """What happens to a kind's objects from a version on, bookmarks included, until the server ends it.

        It ends as well where the connection is cut: whoever watches goes on from the last version seen.

        Raises:
            GoneError: that version is no longer kept; list again.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        } | _narrowed(labels, "")
        # A server that says nothing beyond the time it was given is no longer there.
        pieces = self._asking.pieces(path, query, read_s=timeout_s + 10)
        with contextlib.suppress(CutError):
            yield from events_of(pieces, f"GET {path}")

    def log(
        self,
        pod: str,
        *,
        container: str = "",
        since_s: int | None = None,
        since_time: str = "",
        tail: int | None = None,
        follow: bool = False,
        timestamps: bool = False,
        previous: bool = False,
        patience_s: float | None = None,
    ) -> Iterator[bytes]:
        """A log as it comes, in pieces that end anywhere.

        Args:
            pod: its name.
            container: of the pod; empty where it has but one.
            since_s: the last so many seconds of it.
            since_time: from this time on, as a line of it tells; not beside `since_s`.
            tail: the last so many lines of it.
            follow: whether to wait for more until the container ends.
            timestamps: whether each line begins with its time.
            previous: that of the container before its last restart.
            patience_s: how long it may wait in all to begin; None: as every call.

        Raises:
            ClusterAwayError: it does not begin, as where the pod's node does not answer.
            CutError: the connection was cut, so that more may be there.
        """
        numbers = {"sinceSeconds": since_s, "tailLines": tail}
        flags = {"follow": follow, "timestamps": timestamps, "previous": previous}
        query = {name: str(number) for name, number in numbers.items() if number is not None}
        query |= {name: "true" for name, on in flags.items() if on}
        query |= {name: text for name, text in (("container", container), ("sinceTime", since_time)) if text}
        read_s = FOLLOW_SILENCE_S if follow else READ_TIMEOUT_S
        path = log_path(self.namespace, pod)
        yield from self._asking.pieces(path, query, read_s=read_s, patience_s=patience_s)


def open_cluster(
    environ: Mapping[str, str],
    *,
    namespace: str | None = None,
    context: str | None = None,
    effects: Effects | None = None,
    patience_s: float = PATIENCE_S,
) -> Cluster:
    """The cluster that is meant: by kubeconfig, or the one this pod is in. Nothing is asked of it yet.

    Args:
        environ: the environment.
        namespace: of jobs; None: that of the context or pod.
        context: of the kubeconfig; None: its current one.
        effects: time and chance.
        patience_s: how long one call may wait in all.

    Raises:
        CredentialsError: there is none, or what there is cannot be used.
    """
    configuration, usual = configuration_of(environ, context=context)
    return Cluster(Wire(configuration), namespace or usual, effects=effects, patience_s=patience_s)


def same_spec(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an object is what was wanted, by the hash of the spec that both were made of."""
    known, asked = _spec_hash(there), _spec_hash(wanted)
    return bool(asked) and known == asked


def _spec_hash(body: Mapping[str, Any]) -> str:
    return str((body.get("metadata", {}).get("annotations") or {}).get(SPEC_ANNOTATION, ""))


def _narrowed(labels: str, fields: str) -> dict[str, str]:
    return {name: one for name, one in (("labelSelector", labels), ("fieldSelector", fields)) if one}


def _options(propagation: str) -> dict[str, str]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
