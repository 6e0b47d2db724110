"""Nodes of the stand-in cluster: each pod of a job of tests runs here as its container is told to."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_pods import Pod
from tests.oracle.conftest import TIMEOUT_S, Desk

INDEX = "batch.kubernetes.io/job-completion-index"
POLL_S = 0.05
# What may become of a pod before its container runs; the next pod of the index is well.
Fates = Mapping[int, Sequence[str]]


class Nodes:
    """Give every pod its life: mounts, environment and arguments are those of its manifest.

    Args:
        api: the cluster.
        desk: whose environment processes run in, and below whose folder they keep what they have.
        store: folder that stands for the volume of the job's store.
        fates: of the first pods of an index: `evicted` or `unpulled`; others run.
    """

    def __init__(self, api: KubernetesApi, desk: Desk, store: Path, fates: Fates | None = None) -> None:
        self._api, self._desk, self._store = api, desk, store
        self._fates = {index: list(names) for index, names in (fates or {}).items()}
        self._seen: set[str] = set()
        self._stop = threading.Event()
        self.trouble: list[BaseException] = []
        self.codes: dict[int, list[int]] = {}

    @contextlib.contextmanager
    def working(self) -> Iterator[Nodes]:
        """Within, pods live."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(TIMEOUT_S)
            assert not self.trouble, self.trouble

    def _work(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                for pod in self._api.world.pods():
                    if pod.content["metadata"]["uid"] not in self._seen:
                        self._seen.add(pod.content["metadata"]["uid"])
                        self._live(pod)
        except BaseException as error:  # noqa: BLE001  # told where the test can fail of it
            self.trouble.append(error)

    def _live(self, pod: Pod) -> None:
        index = int(pod.content["metadata"]["annotations"][INDEX])
        fates = self._fates.get(index, [])
        fate = fates.pop(0) if fates else ""
        if fate == "unpulled":
            pod.image_missing()
            return
        pod.run(f"node-{index}")
        if fate == "evicted":
            pod.evict()
            return
        done = self._run(pod, index)
        pod.log(*done.stdout.splitlines())
        self.codes.setdefault(index, []).append(done.returncode)
        if done.returncode:
            pod.fail(done.returncode)
        else:
            pod.succeed()

    def _run(self, pod: Pod, index: int) -> subprocess.CompletedProcess[str]:
        """Run what a pod's container is told to."""
        spec = pod.content["spec"]
        (container,) = spec["containers"]
        mounts = self._mounts(spec, container, pod.name)
        environ = {one["name"]: _below(one["value"], mounts) for one in container["env"] if "value" in one}
        words = [_below(one, mounts) for one in container.get("args", ())]
        assert words[0] == "spyre-ci"
        given = {
            "JOB_COMPLETION_INDEX": str(index),
            "SPYRE_CI__RUN__LEASES": str(self._desk.folder.parent / f"leases-{pod.name}"),
        }
        scratch = ("--scratch", mounts["/scratch"]) if "--scratch" not in words else ()
        with self._desk.start(*words[1:], *scratch, **(environ | given)) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        assert "Traceback" not in out + err, out + err
        return subprocess.CompletedProcess(words, process.returncode, out + err, "")

    def _mounts(self, spec: Mapping[str, Any], container: Mapping[str, Any], name: str) -> dict[str, str]:
        """A folder here for each path that the container has something mounted at."""
        volumes = {one["name"]: one for one in spec["volumes"]}
        found = {}
        for one in container["volumeMounts"]:
            volume = volumes[one["name"]]
            folder = self._desk.folder.parent / "mounts" / name / one["name"]
            if "persistentVolumeClaim" in volume:
                folder = self._store
            folder.mkdir(parents=True, exist_ok=True)
            for config in _config_maps(volume):
                self._write(config, folder)
            found[one["mountPath"]] = str(folder)
        return found

    def _write(self, name: str, folder: Path) -> None:
        """What a ConfigMap has, as files."""
        with self._api.store.changed:
            (found,) = (one for one in self._api.store.of("configmaps") if one["metadata"]["name"] == name)
        for key, value in found.get("data", {}).items():
            (folder / key).write_text(value, encoding="utf-8")
        for key, value in found.get("binaryData", {}).items():
            (folder / key).write_bytes(base64.b64decode(value))


def _config_maps(volume: Mapping[str, Any]) -> list[str]:
    """The names of the ConfigMaps a volume is of."""
    if "configMap" in volume:
        return [volume["configMap"]["name"]]
    sources = volume.get("projected", {}).get("sources", [])
    return [one["configMap"]["name"] for one in sources if "configMap" in one]


def _below(text: str, mounts: Mapping[str, str]) -> str:
    """A path in the container as it is here."""
    for path, folder in mounts.items():
        if text == path or text.startswith(f"{path}/"):
            return folder + text.removeprefix(path)
    return text
