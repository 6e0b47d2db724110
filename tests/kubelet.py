"""A stand-in of nodes: pods of a job of tests do what a test says, and write the journals that pods write."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ci.jobs.plan_chunks import FILE, PodPlan, read_chunks, unpack_plan
from ci.record import events
from ci.record.journal import JournalWriter, journal_path, next_attempt
from test_selection.plan import Plan, read_plan
from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_pods import Pod

POLL_S = 0.02
Life = Callable[["Host"], None]


class Host:
    """One pod at its node: its plan as it is mounted, and its run folder in the store.

    Attributes:
        pod: the handle of the stand-in cluster.
        number: how manieth pod of its index it is, from 0.
        opened: what it is to do.
        plan: with its shards.
        image: it runs in.
    """

    def __init__(self, pod: Pod, number: int, mounted: Path, folder: Path) -> None:
        self.pod, self.number, self._folder = pod, number, folder
        index = int(pod.content["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
        self.opened: PodPlan = unpack_plan(read_chunks(mounted), index, folder, where=str(mounted))
        self.plan: Plan = read_plan(folder / "plan.json")
        environment = pod.content["spec"]["containers"][0]["env"]
        self.image: str = next(one["value"] for one in environment if one["name"] == "SPYRE_CI_IMAGE")

    def test(self, *, upto: int | None = None, failing: Sequence[str] = (), cut: bool = False) -> None:
        """Run what no journal of the index has an end of.

        Args:
            upto: no more than so many tests, all shards together.
            failing: what test names end in that fail.
            cut: the last of them begins and does not end.
        """
        left = -1 if upto is None else upto
        for index in self.opened.shards:
            path = journal_path(self._folder, index, next_attempt(self._folder, index))
            done = self._done(index)
            with contextlib.closing(JournalWriter(path, time.time)) as journal:
                journal.write(
                    events.ShardStart(
                        shard=index,
                        attempt=int(path.stem.partition("-")[2]),
                        card="emulated:0",
                        host=self.pod.name,
                        boot=self.pod.name,
                        pid=1,
                        run=self.opened.run,
                        planned=len(self.plan.shards[index].ids),
                        fingerprint=self.plan.fingerprint,
                        back_end="emulated",
                        torch="2.13.0",
                        image=self.image,
                    )
                )
                for name in self.plan.shards[index].ids:
                    if name in done:
                        continue
                    if left == 0:
                        return
                    left -= 1
                    journal.write(events.Start(id=name, log=0))
                    if cut and left == 0:
                        return
                    bad = name.endswith(tuple(failing)) if failing else False
                    journal.write(events.End(id=name, outcome="failed" if bad else "passed", seconds=0.5))
                journal.write(events.ShardEnd(status="done"))

    def _done(self, index: int) -> set[str]:
        from ci.record.journal import read_journals  # noqa: PLC0415  # only where an earlier pod was

        if not (self._folder / "journal").is_dir():
            return set()
        journals = [one for one in read_journals(self._folder) if one.shard == index]
        return {event.id for one in journals for event in one.events if isinstance(event, events.End)}


class Kubelet:
    """Nodes that give every pod of a job its life.

    Args:
        api: the stand-in cluster.
        store: folder that stands for the volume of the job's store.
        mounts: folder below which pods find their ConfigMaps.
        lives: what the pods of an index do, in turn; the last of them again and again. Others do all.
    """

    def __init__(
        self, api: KubernetesApi, store: Path, mounts: Path, lives: Mapping[int, Sequence[Life]]
    ) -> None:
        self._api, self._store, self._mounts, self._lives = api, store, mounts, lives
        self._seen: dict[str, int] = {}
        self._counts: dict[int, int] = {}
        self._stop = threading.Event()
        self.trouble: list[BaseException] = []

    @contextlib.contextmanager
    def working(self) -> Iterator[Kubelet]:
        """Within, pods live."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(10)
            assert not self.trouble, self.trouble

    def wait_for_journals(self, number: int) -> None:
        """Wait until so many pods have begun to write."""
        for _ in range(1000):
            if len(list(self._store.glob("*/pods/*/journal/*.jsonl"))) >= number:
                return
            time.sleep(POLL_S)
        raise AssertionError(f"{number} pods did not come to write")

    def _work(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                for pod in self._api.world.pods():
                    uid = pod.content["metadata"]["uid"]
                    if uid not in self._seen:
                        self._seen[uid] = 1
                        self._live(pod)
        except BaseException as error:  # noqa: BLE001  # told where the test can fail of it
            self.trouble.append(error)

    def _live(self, pod: Pod) -> None:
        index = int(pod.content["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
        number = self._counts.get(index, 0)
        self._counts[index] = number + 1
        lives = self._lives.get(index, (all_is_well,))
        environment = pod.content["spec"]["containers"][0]["env"]
        run = next(one["value"] for one in environment if one["name"] == "SPYRE_CI_JOB_RUN")
        folder = self._store / run / "pods" / str(index)
        lives[min(number, len(lives) - 1)](Host(pod, number, self._mounted(index), folder))

    def _mounted(self, index: int) -> Path:
        """The plan's chunks as the job's ConfigMaps have them."""
        folder = self._mounts / str(index)
        folder.mkdir(parents=True, exist_ok=True)
        with self._api.store.changed:
            chunks = [one.get("binaryData", {}) for one in self._api.store.of("configmaps")]
        for name, content in ((name, content) for one in chunks for name, content in one.items()):
            if name.startswith(FILE):
                (folder / name).write_bytes(base64.b64decode(content))
        return folder


def all_is_well(host: Host) -> None:
    """Everything passes."""
    host.pod.run()
    host.test()
    host.pod.succeed()
