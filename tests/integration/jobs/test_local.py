"""A job's pods on a real container engine: what they see, how they end, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from ci.core.containers import LABEL, create
from ci.core.errors import CommandError, MissingInputError
from ci.core.interrupts import INTERRUPTS, raised
from ci.jobs.here import Here, MissingSecretError, conditions_of, url_of
from ci.jobs.job import Fetch, Job
from ci.jobs.kinds import CONTRACTS
from ci.jobs.local import PodEnd, local, run_here
from ci.jobs.spec import Kind

from .conftest import USER, MakeJob

STORE = {"store": {"volume": "results"}}
TOKEN = "t0ps3cr3t"


@pytest.fixture
def interrupts() -> Iterator[None]:
    """What hears them as it was: after the first, `raised` ignores those that follow."""
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    with raised():
        yield
    for number, was in before.items():
        signal.signal(number, was)


def ran(job: Job, here: Here, *, grace_s: float = 1) -> tuple[list[PodEnd], int, list[str]]:
    lines: list[str] = []
    ends, code = run_here(job, here, echo=lines.append, grace_s=grace_s)
    return ends, code, lines


def test_each_index_is_a_container_with_the_same_mounts_and_environment(
    make_job: MakeJob, here: Here
) -> None:
    script = (
        'echo "$PARAM_BITS $JOB_COMPLETION_INDEX $SPYRE_CI_JOB_RUN $(id -u):$(id -g)"; '
        'cat "$1/a.yaml"; touch "$1/new" 2>/dev/null || echo kept; '
        'touch /scratch/here; echo "$JOB_COMPLETION_INDEX" > /results/$JOB_COMPLETION_INDEX'
    )
    job = make_job(
        script,
        pods=2,
        files={"a.yaml": b"a: 1\n"},
        spec={
            **STORE,
            "parameters": {"BITS": 8},
            "evaluation": {"command": ["/bin/sh", "-c", script, "sh", "{configs}"]},
        },
    )
    ends, code, lines = ran(job, here)
    assert (ends, code) == ([PodEnd(index=0, code=0, pods=1), PodEnd(index=1, code=0, pods=1)], 0)
    for index in (0, 1):
        said = [line for line in lines if line.startswith(f"[{index}] ")]
        assert said == [f"[{index}] 8 {index} 2026-07-01-a {USER}:0", f"[{index}] a: 1", f"[{index}] kept"]
        assert (here.results / str(index)).read_text() == f"{index}\n"
    assert list(here.work.iterdir()) == []


def test_a_pod_that_is_incomplete_is_replaced_and_one_whose_test_failed_is_not(
    make_job: MakeJob, here: Here
) -> None:
    script = (
        "case $JOB_COMPLETION_INDEX in 0) exit 1;; 1) exit 2;; "
        "2) [ -e /results/once ] && exit 0; touch /results/once; exit 3;; 3) kill -9 $$;; esac; exit 3"
    )
    ends, code, lines = ran(make_job(script, pods=5, spec={**STORE, "retries": 1}), here)
    assert [(one.code, one.pods) for one in ends] == [(1, 1), (2, 1), (0, 2), (3, 2), (3, 2)]
    assert code == 2
    assert "[2] ended with code 3: another pod takes it up, 1 of 1" in lines


def test_a_pod_killed_by_a_signal_is_incomplete_and_a_scratch_disk_is_new_each_time(
    make_job: MakeJob, here: Here
) -> None:
    job = make_job("ls /scratch; touch /scratch/old; sh -c 'kill -9 $$'", spec={"retries": 1})
    ends, code, lines = ran(job, here)
    assert ([(one.code, one.pods) for one in ends], code) == ([(137, 2)], 3)
    assert [line for line in lines if "old" in line] == []


def test_secrets_come_from_the_callers_environment_and_are_shown_nowhere(
    make_job: MakeJob, here: Here
) -> None:
    secret = {"secret": "models", "key": "token"}
    job = make_job(
        'echo "it is $PARAM_TOKEN"; echo "${#PARAM_TOKEN}"', spec={"parameters": {"TOKEN": secret}}
    )
    with pytest.raises(MissingSecretError, match=r"not set: PARAM_TOKEN \(token of models\)"):
        ran(job, here)
    _, code, lines = ran(job, replace(here, environ={**here.environ, "PARAM_TOKEN": TOKEN}))
    assert (code, lines) == (0, ["[0] it is ***", f"[0] {len(TOKEN)}"])


def test_how_each_pod_ended_is_said_and_where_its_results_are(make_job: MakeJob, here: Here) -> None:
    lines: list[str] = []
    script = "[ $JOB_COMPLETION_INDEX = 0 ] || exit 3"
    job = make_job(script, pods=2, spec={**STORE, "retries": 1})
    assert local(job, here, echo=lines.append) == 3
    assert lines[-3:] == [
        "pod 0: done",
        "pod 1: ended with code 3 after 2 pods",
        f"what they left is in {here.results}",
    ]


def test_several_pods_run_at_a_time(make_job: MakeJob, here: Here) -> None:
    script = (
        "touch /results/$JOB_COMPLETION_INDEX; n=0; "
        "until [ -e /results/0 ] && [ -e /results/1 ]; do "
        "sleep 0.1; n=$((n+1)); [ $n -lt 300 ] || exit 1; done"
    )
    _, code, _ = ran(make_job(script, pods=2, spec=STORE), replace(here, parallel=2))
    assert code == 0


def test_a_job_ends_at_its_deadline(make_job: MakeJob, here: Here) -> None:
    ends, code, lines = ran(make_job("sleep 100", pods=2, deadline_s=2), here)
    assert ([(one.code, one.pods) for one in ends], code) == ([(3, 1), (3, 1)], 3)
    assert lines == ["[0] ended: its time is over"]


def test_devices_that_are_given_take_the_emulated_cards_place(make_job: MakeJob, here: Here) -> None:
    job = make_job('echo "${SPYRE_CI_EMULATE-real}"; ls /dev/full0', spec={"resources": {"cards": 1}})
    ends, _, lines = ran(job, replace(here, devices=["/dev/full"]))
    assert "[0] real" in lines  # what it says on its two streams has no order
    assert [one.code for one in ends] == [2]
    gone = replace(here, devices=["/dev/no-such-card"])
    with pytest.raises(CommandError, match=r"the container engine refuses: .*no-such-card"):
        ran(job, gone)


def test_what_is_fetched_first_is_there_and_a_failed_fetch_is_tried_again(
    make_job: MakeJob, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def command(self: Fetch) -> tuple[str, ...]:
        asked.append(self.name)
        # It is read twice for a container: to be shown, and to be run.
        return ("/bin/sh", "-c", f"[ {len(asked)} -gt 2 ] && echo m > {self.to}/model")

    monkeypatch.setattr("ci.jobs.job.Fetch.command", property(command))
    spec = {**STORE, "source": {"bucket": "s3://models/small"}}
    ends, code, lines = ran(make_job("cat /scratch/inputs/model", spec=spec), here)
    assert ([(one.code, one.pods) for one in ends], code) == ([(0, 2)], 0)
    assert "[0] fetch-source ended with code 1" in lines
    assert lines[-1] == "[0] m"


def test_an_image_that_is_nowhere_is_told_before_anything_runs(make_job: MakeJob, here: Here) -> None:
    name = f"{os.environ['TEST_REGISTRY']}/nothing:1"
    with pytest.raises(MissingInputError, match="there is no image"):
        ran(make_job("true", image=name), here)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_a_job_that_cannot_run_ends_the_others(make_job: MakeJob, here: Here) -> None:
    began = time.monotonic()
    job = make_job("[ $JOB_COMPLETION_INDEX = 1 ] && echo x; sleep 50", pods=3)

    def refuse(line: str) -> None:
        if "[1]" in line:
            raise CommandError("no more")

    with pytest.raises(CommandError, match="no more"):
        run_here(job, replace(here, parallel=3), echo=refuse, grace_s=0.5)
    assert time.monotonic() - began < 40


@pytest.mark.usefixtures("interrupts")
def test_interrupted_it_lets_pods_end_and_leaves_nothing(
    make_job: MakeJob, here: Here, client: docker.DockerClient
) -> None:
    script = (
        'trap "echo bye; touch /results/bye$JOB_COMPLETION_INDEX; exit 3" TERM; '
        "touch /results/up$JOB_COMPLETION_INDEX; while :; do sleep 0.1; done"
    )
    job = make_job(script, pods=3, spec=STORE)

    def interrupt() -> None:
        while len(list(here.results.glob("up*"))) < 2:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    lines: list[str] = []
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_here(job, replace(here, parallel=2), echo=lines.append, grace_s=20)
    assert sorted(path.name for path in here.results.glob("bye*")) == ["bye0", "bye1"]
    assert "[0] bye" in lines
    assert client.api.containers(all=True, filters={"label": f"{LABEL}.job={job.name}"}) == []
    assert list(here.work.iterdir()) == []


@pytest.mark.usefixtures("interrupts")
def test_interrupted_it_ends_pods_that_do_not_want_to(make_job: MakeJob, here: Here) -> None:
    job = make_job('trap "" TERM; echo up; while :; do sleep 0.1; done')

    def heard(_: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_here(job, here, echo=heard, grace_s=0.5)
    assert time.monotonic() - began < 30


SERVER = (
    'use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => $ARGV[0], '
    'Listen => 5, ReuseAddr => 1) or die; while (my $c = $s->accept) { <$c>; open(my $f, "<", $ARGV[1]); '
    'my $t = <$f>; print $c "HTTP/1.0 200 OK\\r\\n\\r\\n$t"; close $c }'
)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("kind", ["notebook", "serve"])
def test_a_notebook_and_a_server_answer_at_the_url_that_is_said(
    make_job: MakeJob, here: Here, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    port = free_port()
    monkeypatch.setitem(CONTRACTS, kind, replace(CONTRACTS[kind], port=port))
    monkeypatch.setattr(
        "ci.jobs.job.Fetch.command",
        property(lambda self: ("/bin/sh", "-c", f"echo good > {self.to}/weights")),
    )
    at = {"notebook": "/scratch/inputs", "serve": "/model"}[kind]
    section = {"command": ["perl", "-e", SERVER, str(port), f"{at}/weights"]}
    spec = {"kind": kind, kind: section, "evaluation": None, "source": {"bucket": "s3://models/small"}}
    job, lines, answers = make_job("", spec=spec), list[str](), list[bytes]()

    def ask() -> None:
        url = f"http://127.0.0.1:{port}"
        while not any(url in line for line in lines):
            time.sleep(0.1)
        for _ in range(200):
            with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                answers.append(answer.read())
                break
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=ask, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_here(job, here, echo=lines.append, grace_s=0.5)
    assert answers == [b"good\n"], lines


def test_a_port_is_published_on_loopback_alone(
    make_job: MakeJob, here: Here, client: docker.DockerClient, tmp_path: Path
) -> None:
    spec = {"kind": "notebook", "evaluation": None, "notebook": {"command": ["true"]}}
    given = replace(here, network="bridge", port=18888)
    job = make_job("", spec=spec)
    assert url_of(job, given) == "http://127.0.0.1:18888"
    conditions = conditions_of(job, 0, given, scratch=tmp_path, configs=tmp_path)
    made = create(client, job.image, (), conditions)
    try:
        bound = made.attrs["HostConfig"]["PortBindings"]
    finally:
        made.remove()
    assert bound == {"8888/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18888"}]}
