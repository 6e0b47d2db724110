from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, UsageError
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError
from ci.jobs.logs import (
    MOST_FOLLOWED,
    Wanted,
    find_sources,
    into_file,
    into_folder,
    into_one,
    missing,
    write_logs,
)
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
    cluster: Cluster, lines: list[str], said: list[str], index: int | None = None, **wanted: object
) -> int:
    asked = Wanted(**wanted)  # type: ignore[arg-type]  # what a test gives
    sources = find_sources(cluster, NAME, index=index, follow=asked.follow)
    with into_one(lines.append) as into:
        return write_logs(cluster, sources, asked, into, said.append)


def test_all_logs_come_behind_their_pods_index(cluster: Cluster, lines: list[str], said: list[str]) -> None:
    assert read(cluster, lines, said) == EXIT_OK
    assert lines == [f"[{index}] {word} of {index}" for index in range(3) for word in ("one", "two")]
    assert said == []


def test_one_pod_alone_is_read(cluster: Cluster, lines: list[str], said: list[str]) -> None:
    assert read(cluster, lines, said, index=1) == EXIT_OK
    assert lines == ["[1] one of 1", "[1] two of 1"]


def test_a_window_reaches_back_from_now(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(0).log("of yesterday", age_s=90_000)
    read(cluster, lines, said, index=0, since_s=86_400)
    assert lines == ["[0] one of 0", "[0] two of 0"]
    assert api.asked("GET", "/log$")[-1].query["sinceSeconds"] == "86400"


def test_what_pods_say_commands_no_terminal_and_no_ci(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(0).log("\x1b[2J::error::gotcha", "##[add-mask]x", "50%\r", "\udcff")
    read(cluster, lines, said, index=0)
    assert lines[2:] == ["[0] ::error::gotcha", "[0] # #[add-mask]x", "[0] 50%", "[0] \ufffd"]


def test_a_log_that_is_not_there_yet_is_said(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(1).wait()
    assert read(cluster, lines, said) == EXIT_OK
    name = api.world.pod(1).name
    assert said == [
        f'no log of pod 1 ({name}): container "main" in pod "{name}" is waiting to start: ContainerCreating'
    ]


def test_no_log_at_all_is_incomplete(cluster: Cluster, lines: list[str], said: list[str]) -> None:
    assert read(cluster, lines, said, previous=True) == EXIT_INCOMPLETE
    assert all("previous terminated container" in line for line in said)
    assert lines == []


def test_a_container_that_is_not_there_is_said(cluster: Cluster, lines: list[str], said: list[str]) -> None:
    assert read(cluster, lines, said, container="other") == EXIT_INCOMPLETE
    assert "container other is not valid for pod" in said[0]


def test_pods_that_are_gone_are_said(api: KubernetesApi, cluster: Cluster, lines: list[str]) -> None:
    assert lines == []
    api.world.refuse_pods = "no"
    for index in (0, 2):
        api.world.pod(index).vanish()
    sources = find_sources(cluster, NAME, index=None, follow=False)
    assert missing(sources, 3, None) == "no log of pods 0,2: they are gone, or were not made yet"
    assert missing(sources, 3, 1) == ""
    assert "pods 2" in missing(find_sources(cluster, NAME, index=2, follow=False), 3, 2)


def test_a_pod_that_goes_meanwhile_is_said(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    sources = find_sources(cluster, NAME, index=0, follow=False)
    name = api.world.pod(0).name
    api.world.pod(0).vanish()
    with into_one(lines.append) as into:
        assert write_logs(cluster, sources, Wanted(), into, said.append) == EXIT_INCOMPLETE
    assert said == [f'no log of pod 0 ({name}): pods "{name}" not found']


def test_the_pods_of_an_index_are_told_apart(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    first = api.world.pod(0).name.rpartition("-")[2]
    api.world.pod(0).fail(3)
    second = api.world.pod(0).name.rpartition("-")[2]
    api.world.pod(0).run()
    api.world.pod(0).log("again")
    read(cluster, lines, said, index=0)
    assert set(lines) == {f"[0 {first}] one of 0", f"[0 {first}] two of 0", f"[0 {second}] again"}


def test_a_log_that_is_cut_is_told_and_what_came_is_kept(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.cut_log_after = 1
    assert read(cluster, lines, said, index=0) == EXIT_INCOMPLETE
    assert lines == ["[0] one of 0"]
    assert "is cut" in said[0]


def test_logs_are_followed_to_their_ends_through_a_cut(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.cut_log_after = 1

    def go_on() -> None:
        time.sleep(0.3)
        for index in range(3):
            api.world.pod(index).log("three")
            api.world.pod(index).succeed()

    mover = threading.Thread(target=go_on)
    mover.start()
    assert read(cluster, lines, said, follow=True) == EXIT_OK
    mover.join()
    assert sorted(lines) == sorted(
        [f"[{index}] {word} of {index}" for index in range(3) for word in ("one", "two")]
        + [f"[{index}] three" for index in range(3)]
    )


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
    assert read(cluster, lines, said, index=0, follow=True) == EXIT_OK
    assert lines == [f"[0] line {number}" for number in range(5)]


NO_ROUTE = 'Get "https://10.0.0.7:10250/containerLogs/": dial tcp 10.0.0.7:10250: connect: no route to host'


@pytest.mark.parametrize("follow", [False, True])
def test_a_node_that_does_not_answer_takes_no_others_logs_with_it(
    api: KubernetesApi, cluster: Cluster, said: list[str], tmp_path: Path, follow: bool
) -> None:
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).log("one line")
        api.world.pod(index).succeed()
    name = api.world.pod(1).name
    api.fail(path=f"{name}/log$", message=NO_ROUTE, times=99)
    sources = find_sources(cluster, NAME, index=None, follow=follow)
    began = cluster.effects.monotonic()
    with into_file(tmp_path / "all.log") as into:
        assert write_logs(cluster, sources, Wanted(follow=follow), into, said.append) == EXIT_INCOMPLETE
    assert said == [f"no log of pod 1 ({name}): {NO_ROUTE}"]
    assert cluster.effects.monotonic() - began < 30
    written = (tmp_path / "all.log").read_text().splitlines()
    assert sorted(written) == ["[0] one line", "[2] one line"]


def test_a_followed_log_that_does_not_come_back_keeps_what_came(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    name = api.world.pod(0).name
    api.world.cut_log_after = 1

    def write(line: str) -> None:
        lines.append(line)
        api.fail(path=f"{name}/log$", message=NO_ROUTE, times=99)

    sources = find_sources(cluster, NAME, index=0, follow=True)
    with into_one(write) as into:
        assert write_logs(cluster, sources, Wanted(follow=True), into, said.append) == EXIT_INCOMPLETE
    assert lines == ["[0] one of 0"]
    assert said[0].startswith(f"the log of pod 0 ({name}) is cut: ")


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
    assert read(cluster, found, said) == EXIT_INCOMPLETE
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
    assert read(cluster, found, said) == EXIT_INCOMPLETE
    assert found == ["[0] well"]
    assert [line.partition(" (")[0] for line in said[:3]] == [f"no log of pod {one}" for one in (1, 2, 3)]
    assert said[3:] == ["the cluster does not answer: the logs of pods 4-5 are not asked for"]


def test_a_followed_log_that_is_cut_again_and_again_is_given_up(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.fail("cut", path="/log$", times=99)
    assert read(cluster, lines, said, index=0, follow=True) == EXIT_INCOMPLETE
    assert "is cut" in said[0]


def test_what_a_followed_log_fails_with_is_told(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.denied.add(("get", "pods/log"))
    with pytest.raises(ForbiddenError, match="pods/log"):
        read(cluster, lines, said, follow=True)


def test_a_line_longer_than_is_held_is_followed_whole(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.world.pod(0).log("x" * 150_000 + " end")
    api.world.pod(0).succeed()
    read(cluster, lines, said, index=0, follow=True)
    assert "".join(line.removeprefix("[0] ") for line in lines[2:]) == "x" * 150_000 + " end"


def test_too_many_pods_are_not_followed(cluster: Cluster) -> None:
    submit(cluster, manifests_of(pods=MOST_FOLLOWED + 1))
    with pytest.raises(UsageError, match="33 pods are more than the 32") as caught:
        find_sources(cluster, NAME, index=None, follow=True)
    assert "--index" in str(caught.value)


def test_who_may_not_read_logs_is_told_so(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str]
) -> None:
    api.denied.add(("get", "pods/log"))
    with pytest.raises(ForbiddenError, match="pods/log"):
        read(cluster, lines, said)


def test_a_file_is_written_whole(cluster: Cluster, lines: list[str], said: list[str], tmp_path: Path) -> None:
    assert lines == []
    sources = find_sources(cluster, NAME, index=None, follow=False)
    with into_file(tmp_path / "all.log") as into:
        write_logs(cluster, sources, Wanted(), into, said.append)
        assert not (tmp_path / "all.log").exists()
    assert (tmp_path / "all.log").read_text().splitlines()[0] == "[0] one of 0"


def test_what_was_followed_until_ctrl_c_is_kept(tmp_path: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), into_file(tmp_path / "all.log") as into:
        with into(None) as write:  # type: ignore[arg-type]  # whose it is has no meaning here
            write("a line")
        raise KeyboardInterrupt
    assert (tmp_path / "all.log").read_text() == "a line\n"


def test_a_folder_has_a_file_a_pod_that_has_a_log(
    api: KubernetesApi, cluster: Cluster, lines: list[str], said: list[str], tmp_path: Path
) -> None:
    assert lines == []
    api.world.pod(2).wait()
    sources = find_sources(cluster, NAME, index=None, follow=False)
    with into_folder(tmp_path / "logs") as into:
        assert write_logs(cluster, sources, Wanted(), into, said.append) == EXIT_OK
    names = [api.world.pod(index).name for index in range(2)]
    assert sorted(one.name for one in (tmp_path / "logs").iterdir()) == [f"{name}.log" for name in names]
