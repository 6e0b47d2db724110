"""A handle on a pod of a stand-in cluster: it does what a test says, in a kubelet's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.kubernetes_store import Object, now

if TYPE_CHECKING:
    from tests.kubernetes_world import World

NO_ROOM = "0/6 nodes are available: 6 Insufficient ibm.com/spyre_pf. preemption: 0/6 nodes are available."


class Pod:
    """A pod of a job.

    Args:
        world: it is in.
        content: it is.
    """

    def __init__(self, world: World, content: Object) -> None:
        self._world = world
        self.content = content

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])

    def log(self, *lines: str, container: str = "main", age_s: float = 0) -> None:
        """Say something."""
        for line in lines:
            self._world.log(self.name, container, line, age_s)

    def pend(self, message: str = NO_ROOM, reason: str = "Unschedulable") -> None:
        """No node takes it."""
        why = {"reason": reason, "message": message}
        self._move(phase="Pending", conditions=[self._condition("PodScheduled", on=False, **why)])

    def wait(self, reason: str = "ContainerCreating", message: str = "") -> None:
        """It is on a node, and its container is not yet made."""
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        self._move(phase="Pending", conditions=[self._condition("PodScheduled", on=True)], state=state)

    def image_missing(self, reason: str = "ImagePullBackOff") -> None:
        """Its image is not found."""
        image = self.content["spec"]["containers"][0]["image"]
        self.wait(reason, f'Back-off pulling image "{image}": ErrImagePull: manifest unknown')

    def run(self, node: str = "node-1") -> None:
        """It is on a node and runs."""
        self.content["spec"]["nodeName"] = node
        both = [self._condition(one, on=True) for one in ("PodScheduled", "Ready")]
        self._move(phase="Running", conditions=both, state={"running": {"startedAt": now()}})

    def succeed(self) -> None:
        """Its container ended with 0."""
        self._end(0, "Completed", "Succeeded")

    def fail(self, exit_code: int, reason: str = "Error", message: str = "") -> None:
        """Its container ended with another code."""
        self._end(exit_code, reason, "Failed", message)

    def evict(self, message: str = "The node was low on resource: ephemeral-storage.") -> None:
        """The kubelet ended it."""
        gone = self._condition("DisruptionTarget", on=True, reason="TerminationByKubelet", message=message)
        self._move(phase="Failed", reason="Evicted", message=message, conditions=[gone])

    def lose_node(self) -> None:
        """Its node does not answer: the pod is to go, and stays as it was, since nobody can end it."""
        self.stick()
        said = "Taint manager: deleting due to NoExecute taint"
        why = {"reason": "DeletionByTaintManager", "message": said}
        self.content["metadata"]["deletionTimestamp"] = now()
        both = [self._condition("Ready", on=False), self._condition("DisruptionTarget", on=True, **why)]
        self._move(phase="Running", conditions=both, state={"running": {"startedAt": now()}})

    def delete_node(self) -> None:
        """Somebody deletes the node that does not answer; the pod is failed and taken away."""
        why = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
        self.content["metadata"].setdefault("deletionTimestamp", now())
        self._move(phase="Failed", conditions=[self._condition("DisruptionTarget", on=True, **why)])

    def delete(self) -> None:
        """Somebody deletes it."""
        with self._world.store.changed:
            self._world.delete_pod(self.content)
            self._world.sync()

    def vanish(self) -> None:
        """Somebody deletes it, by force and without a word."""
        with self._world.store.changed:
            self._world.store.remove("pods", self.content)
            self._world.sync()

    def stick(self) -> None:
        """It will not go when it is deleted, as on a node that does not answer."""
        self._world.store.stuck.add(self.content["metadata"]["uid"])

    def _end(self, code: int, reason: str, phase: str, message: str = "") -> None:
        ended: dict[str, Any] = {"exitCode": code, "reason": reason, "finishedAt": now(), "startedAt": now()}
        if message:
            ended["message"] = message
        self.content["spec"].setdefault("nodeName", "node-1")
        self._move(phase=phase, conditions=[], state={"terminated": ended})

    def _move(
        self,
        *,
        phase: str,
        conditions: list[dict[str, Any]],
        state: dict[str, Any] | None = None,
        reason: str = "",
        message: str = "",
    ) -> None:
        status: dict[str, Any] = {
            "phase": phase, "conditions": conditions, "startTime": self.content["status"].get("startTime"),
        }  # fmt: skip
        status |= {name: one for name, one in (("reason", reason), ("message", message)) if one}
        if state is not None:
            status["containerStatuses"] = [
                {
                    "name": one["name"], "image": one["image"], "imageID": "", "restartCount": 0,
                    "ready": "running" in state, "state": state, "lastState": {},
                }
                for one in self.content["spec"]["containers"]
            ]  # fmt: skip

        def move() -> None:
            self.content["status"] = status

        self._change(move)

    def _change(self, move: Callable[[], None]) -> None:
        with self._world.store.changed:
            move()
            self._world.store.tell("MODIFIED", "pods", self.content)
            self._world.sync()

    @staticmethod
    def _condition(kind: str, *, on: bool, reason: str = "", message: str = "") -> dict[str, Any]:
        told = {"type": kind, "status": "True" if on else "False", "lastTransitionTime": now()}
        return told | {name: one for name, one in (("reason", reason), ("message", message)) if one}
