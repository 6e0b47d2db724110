from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, UsageError
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError
from ci.jobs.logs import LogReader, Source, find_sources, missing, sink
from ci.jobs.submit import submit
from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def lines(api: KubernetesApi, cluster: Cluster) -> list[str]:
    """Three pods that have said something; takes lines."""
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).run()
        api.world.pod(index).log(f"one of {index}", f"two of {index}")
    return []


def read(
    cluster: Cluster,
    write: Callable[[str], object] | Path,
    said: list[str],
    index: int | None = None,
    *,
    sources: list[Source] | None = None,
    **query: object,
) -> int:
    found = sources or find_sources(cluster, NAME, index=index, follow=bool(query.get("follow")))
    reader = LogReader(cluster=cluster, query=query, say=said.append)
    to, echo = (write, print) if isinstance(write, Path) else (None, write)
    return reader.write_all(found, sink(to, echo))


def test_a_window_reaches_back_from_now(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(0).log("of yesterday", age_s=90_000)
    read(cluster, lines.append, said, index=0, sinceSeconds=86_400)
    assert lines == ["[0] one of 0", "[0] two of 0"]
    assert api.asked("GET", "/log$")[-1].query["sinceSeconds"] == "86400"


def test_what_pods_say_commands_no_terminal_and_no_ci(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(0).log("\x1b[2J::error::gotcha", "##[add-mask]x", "50%\r", "\udcff")
    read(cluster, lines.append, said, index=0)
    assert lines[2:] == ["[0] ::error::gotcha", "[0] # #[add-mask]x", "[0] 50%", "[0] \ufffd"]


def test_a_log_that_is_not_there_yet_is_said(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(1).wait()
    assert read(cluster, lines.append, said) == EXIT_OK
    name = api.world.pod(1).name
    assert said == [
        f'no log of pod 1 ({name}): container "main" in pod "{name}" is waiting to start: ContainerCreating'
    ]


def test_no_log_at_all_is_incomplete(cluster: Cluster, lines: list[str], said: list[str]) -> None:
    assert read(cluster, lines.append, said, previous=True) == EXIT_INCOMPLETE
    assert all("previous terminated container" in line for line in said)
    assert lines == []


def test_a_container_that_is_not_there_is_said(cluster: Cluster, lines: list[str], said: list[str]) -> None:
    assert read(cluster, lines.append, said, container="other") == EXIT_INCOMPLETE
    assert "container other is not valid for pod" in said[0]


def test_pods_that_are_gone_are_said(api: KubernetesApi, cluster: Cluster, lines: list[str]) -> None:
    assert lines == []
    api.world.refuse_pods = "no"
    for index in (0, 2):
        api.world.pod(index).vanish()
    sources = find_sources(cluster, NAME, index=None, follow=False)
    assert missing(sources, 3, None) == "no log of pods 0,2: they are gone or not created yet"
    assert missing(sources, 3, 1) == ""
    assert "pods 2" in missing(find_sources(cluster, NAME, index=2, follow=False), 3, 2)


def test_the_pods_of_an_index_are_told_apart(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    first = api.world.pod(0).name.rpartition("-")[2]
    api.world.pod(0).fail(3)
    second = api.world.pod(0).name.rpartition("-")[2]
    api.world.pod(0).run()
    api.world.pod(0).log("again")
    read(cluster, lines.append, said, index=0)
    assert set(lines) == {f"[0 {first}] one of 0", f"[0 {first}] two of 0", f"[0 {second}] again"}


@pytest.mark.parametrize("cut", range(5))
def test_lines_of_one_time_are_followed_through_a_cut(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str], cut: int
) -> None:
    pod = api.world.pod(0)
    # A runtime gives all lines that it reads at once the same time.
    written = api.world.logs[pod.name, "main"]
    written[:] = [(written[0][0], f"line {number}".encode()) for number in range(5)]
    pod.succeed()
    api.world.cut_log_after = cut
    assert read(cluster, lines.append, said, index=0, follow=True) == EXIT_OK
    assert lines == [f"[0] line {number}" for number in range(5)]


NO_ROUTE = 'Get "https://10.0.0.7:10250/containerLogs/": dial tcp 10.0.0.7:10250: connect: no route to host'


def test_other_pods_of_a_node_that_does_not_answer_are_asked_for_once(
    api: KubernetesApi, cluster: Cluster, said: list[str]
) -> None:
    submit(cluster, manifests_of(pods=6))
    for index in range(6):
        api.world.pod(index).run("node-1" if index < 5 else "node-2")
    api.world.pod(5).log("well")
    for index in range(5):
        api.fail(path=f"{api.world.pod(index).name}/log$", message=NO_ROUTE, times=99)
    found: list[str] = []
    assert read(cluster, found.append, said) == EXIT_INCOMPLETE
    assert found == ["[5] well"]
    asked = [len(api.asked("GET", f"{api.world.pod(index).name}/log$")) for index in range(5)]
    assert asked[0] > 1
    assert asked[1:] == [1] * 4


def test_a_cluster_that_does_not_answer_is_not_asked_for_every_log(
    api: KubernetesApi, cluster: Cluster, said: list[str]
) -> None:
    submit(cluster, manifests_of(pods=6))
    for index in range(6):
        api.world.pod(index).run(f"node-{index}")
        api.world.pod(index).log("well")
    for index in range(1, 6):
        api.fail(path=f"{api.world.pod(index).name}/log$", message=NO_ROUTE, times=99)
    found: list[str] = []
    assert read(cluster, found.append, said) == EXIT_INCOMPLETE
    assert found == ["[0] well"]
    assert [line.partition(" (")[0] for line in said[:3]] == [f"no log of pod {one}" for one in (1, 2, 3)]
    assert said[3:] == ["the cluster does not answer: skipping the logs of pods 4-5"]


def test_a_followed_log_that_is_cut_again_and_again_is_given_up(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.fail("cut", path="/log$", times=99)
    assert read(cluster, lines.append, said, index=0, follow=True) == EXIT_INCOMPLETE
    assert "is incomplete" in said[0]


def test_a_line_longer_than_is_held_is_followed_whole(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(0).log("x" * 150_000 + " end")
    api.world.pod(0).succeed()
    read(cluster, lines.append, said, index=0, follow=True)
    assert "".join(line.removeprefix("[0] ") for line in lines[2:]) == "x" * 150_000 + " end"


def test_logs_come_behind_their_pods_index_all_or_of_one(
    cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    assert read(cluster, lines.append, said) == EXIT_OK
    every = [f"[{index}] {word} of {index}" for index in range(3) for word in ("one", "two")]
    assert lines == every
    assert read(cluster, lines.append, said, index=1) == EXIT_OK
    assert lines[6:] == every[2:4]
    assert said == []


def test_a_pod_that_goes_or_a_log_that_is_cut_meanwhile_is_said(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.cut_log_after = 1
    assert read(cluster, lines.append, said, index=0) == EXIT_INCOMPLETE
    assert lines == ["[0] one of 0"]
    assert "is incomplete" in said[0]
    sources = find_sources(cluster, NAME, index=0, follow=False)
    name = api.world.pod(0).name
    api.world.pod(0).vanish()
    assert read(cluster, lines.append, said, sources=sources) == EXIT_INCOMPLETE
    assert said[1:] == [f'no log of pod 0 ({name}): pods "{name}" not found']


def test_a_log_is_followed_to_its_end_through_a_cut(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.cut_log_after = 1

    def go_on() -> None:
        time.sleep(0.3)
        api.world.pod(1).log("three")
        api.world.pod(1).succeed()

    mover = threading.Thread(target=go_on)
    mover.start()
    assert read(cluster, lines.append, said, index=1, follow=True) == EXIT_OK
    mover.join()
    assert lines == ["[1] one of 1", "[1] two of 1", "[1] three"]


@pytest.mark.usefixtures("lines")
def test_several_pods_are_not_followed(cluster: Cluster, said: list[str]) -> None:
    with pytest.raises(UsageError, match="cannot follow 3 pods at once") as caught:
        read(cluster, print, said, follow=True)
    assert "--index" in str(caught.value)


def test_a_node_that_does_not_answer_takes_no_others_logs_with_it(
    api: KubernetesApi, cluster: Cluster, said: list[str]
) -> None:
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).log("one line")
        api.world.pod(index).succeed()
    name = api.world.pod(1).name
    api.fail(path=f"{name}/log$", message=NO_ROUTE, times=99)
    began = cluster.effects.monotonic()
    found: list[str] = []
    assert read(cluster, found.append, said) == EXIT_INCOMPLETE
    assert said == [f"no log of pod 1 ({name}): {NO_ROUTE}"]
    assert cluster.effects.monotonic() - began < 30
    assert found == ["[0] one line", "[2] one line"]


def test_a_followed_log_that_does_not_come_back_keeps_what_came(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    name = api.world.pod(0).name
    api.world.cut_log_after = 1

    def write(line: str) -> None:
        lines.append(line)
        api.fail(path=f"{name}/log$", message=NO_ROUTE, times=99)

    assert read(cluster, write, said, index=0, follow=True) == EXIT_INCOMPLETE
    assert lines == ["[0] one of 0"]
    assert said[0].startswith(f"the log of pod 0 ({name}) is incomplete: ")


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.usefixtures("lines")
def test_who_may_not_read_logs_is_told_so(
    api: KubernetesApi, cluster: Cluster, said: list[str], follow: bool
) -> None:
    api.denied.add(("get", "pods/log"))
    with pytest.raises(ForbiddenError, match="pods/log"):
        read(cluster, print, said, index=0, follow=follow)


@pytest.mark.usefixtures("lines")
def test_a_folder_has_a_file_for_each_pod_that_has_a_log(
    api: KubernetesApi, cluster: Cluster, said: list[str], tmp_path: Path
) -> None:
    api.world.pod(2).wait()
    assert read(cluster, tmp_path / "logs", said) == EXIT_OK
    names = [api.world.pod(index).name for index in range(2)]
    assert sorted(one.name for one in (tmp_path / "logs").iterdir()) == [f"{name}.log" for name in names]
    assert (tmp_path / "logs" / f"{names[0]}.log").read_text() == "[0] one of 0\n[0] two of 0\n"
