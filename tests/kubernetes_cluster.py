"""A cluster with cards on the stand-in of its API server: nodes, operator, and a kubelet that runs pods.

    with KubernetesApi() as api:
        made = CardCluster(api, nodes=3, cards=8)
        made.node("node-1")["status"]["allocatable"]["ibm.com/spyre_pf"] = "7"
        cluster = api.cluster(tmp_path, effects=made.effects())

The kubelet moves pods whenever the client waits, so that nothing takes time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ci.jobs.cluster import Effects
from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_checks import RESOURCES, Resource
from tests.kubernetes_pods import NO_ROOM, Pod
from tests.kubernetes_store import Object

PF = "ibm.com/spyre_pf"
POLICY = Resource(
    version="spyre.ibm.com/v1alpha1",
    kind="SpyreClusterPolicy",
    plural="spyreclusterpolicies",
    namespaced=False,
)
if POLICY not in RESOURCES:
    RESOURCES.append(POLICY)


class CardCluster:
    """A healthy cluster; a test spoils what it is about.

    Attributes:
        sick: what the check of a card says, by node and card's number; none: it passed.
        busy: nodes whose cards others hold, so that no pod comes there.
        silent: nodes whose pods run and never end.
        missing_image: the registry does not have it.
        emulated: pods were given no cards.
        says: what a pod prints before its cards' lines.
        now: the clock, which waiting moves.
    """

    def __init__(self, api: KubernetesApi, *, nodes: int = 3, cards: int = 8) -> None:
        self.api = api
        self.sick: dict[tuple[str, int], str] = {}
        self.busy: set[str] = set()
        self.silent: set[str] = set()
        self.missing_image = False
        self.emulated = False
        self.says: tuple[str, ...] = ()
        self.now = 0.0
        api.put(_node("control-1", 0, {"node-role.kubernetes.io/control-plane": ""}))
        for number in range(1, nodes + 1):
            api.put(_node(f"node-{number}", cards, _card_labels(cards)))
        about, status = {"name": "spyreclusterpolicy"}, {"state": "ready"}
        api.put({"kind": "SpyreClusterPolicy", "metadata": about, "spec": {}, "status": status})
        api.put({"kind": "ServiceAccount", "metadata": {"name": "default"}})

    def node(self, name: str) -> Object:
        """A node, to be spoiled."""
        return self.the("nodes", name)

    def the(self, plural: str, name: str) -> Object:
        """An object of any kind and namespace, to be spoiled."""
        found = [one for key, one in self.api.store.objects.items() if (key[0], key[2]) == (plural, name)]
        assert found, f"there is no {name} of {plural}"
        return found[0]

    def effects(self) -> Effects:
        """Time that only waiting moves, and pods with it."""
        return Effects(monotonic=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        taken = {one.content["spec"].get("nodeName") for one in self.api.world.pods()}
        for pod in self.api.world.pods():
            if pod.content.get("status", {}).get("phase", "Pending") == "Pending":
                pod.content.setdefault("status", {"phase": "Pending"})
                self._start(pod, taken)

    def _start(self, pod: Pod, taken: set[str | None]) -> None:
        if self.missing_image:
            pod.image_missing()
            return
        resources = pod.content["spec"]["containers"][0]["resources"]["limits"]
        cards = int(resources.get(PF, 0))
        if not cards:
            pod.run("control-1")
            pod.succeed()
            return
        node = next((one for one in _wanted(pod.content) if one not in taken | self.busy), None)
        if node is None:
            pod.pend(NO_ROOM)
            return
        taken.add(node)
        pod.run(node)
        if node not in self.silent:
            self._check_cards(pod, node, cards)

    def _check_cards(self, pod: Pod, node: str, cards: int) -> None:
        pod.log(*self.says)
        for number in range(cards):
            said = self.sick.get((node, number), "")
            line = {
                "card": f"0000:{number:02x}:00.0", "ok": not said, "seconds": 1.5, "message": said,
                "ras": "", "emulated": self.emulated,
            }  # fmt: skip
            pod.log(json.dumps(line))
        if any(one == node for one, _ in self.sick):
            pod.fail(3)
        else:
            pod.succeed()


def _wanted(pod: Mapping[str, Any]) -> list[str]:
    """The nodes a pod may go to, by their names."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        value
        for term in affinity["nodeSelectorTerms"]
        for field in term["matchFields"]
        for value in field["values"]
    ]


def _card_labels(cards: int) -> dict[str, str]:
    return {
        "ibm.com/spyre.present": "true", "ibm.com/spyre.product": "Spyre", "ibm.com/spyre.count": str(cards),
        "node-role.kubernetes.io/worker": "",
    }  # fmt: skip


def _node(name: str, cards: int, labels: dict[str, str]) -> Object:
    conditions = [{"type": "Ready", "status": "True"}]
    conditions += [
        {"type": kind, "status": "False"} for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    own = {PF: str(cards), f"{PF}_tier1": str(cards)} if cards else {}
    room = {"cpu": "64", "memory": "512Gi", "pods": "250", **own}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"conditions": conditions, "capacity": dict(room), "allocatable": dict(room)},
    }
