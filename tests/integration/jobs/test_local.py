"""A job's pods on a real container engine: what they see, how they end, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from ci.core.containers import LABEL, create
from ci.core.errors import CommandError, MissingInputError, SettingsError
from ci.core.interrupts import INTERRUPTS, raised
from ci.jobs import job as job_module
from ci.jobs.job import PORTS, SCRATCH, Helper, Job
from ci.jobs.local import Here, containers_of, run_here
from ci.jobs.spec import Kind
from tests.calls import free_port, until

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


def ran(job: Job, here: Here, *, grace_s: int = 1) -> tuple[int, list[str]]:
    lines: list[str] = []
    return run_here(job, here, echo=lines.append, grace_s=grace_s), lines


def ends(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("pod ")]


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
            "evaluation": {"command": ["/bin/sh", "-c", script, "sh", "{configs}"], "configs": ["a.yaml"]},
        },
    )
    code, lines = ran(job, here)
    assert (code, ends(lines)) == (0, ["pod 0: done", "pod 1: done"])
    assert lines[-1] == f"results are in {here.results}"
    for index in (0, 1):
        said = [line for line in lines if line.startswith(f"[{index}] ")]
        assert said == [f"[{index}] 8 {index} 2026-07-01-a {USER}:0", f"[{index}] a: 1", f"[{index}] kept"]
        assert (here.results / str(index)).read_text() == f"{index}\n"
    assert list(here.work.iterdir()) == []


def test_secrets_come_from_the_callers_environment_and_are_shown_nowhere(
    make_job: MakeJob, here: Here
) -> None:
    secret = {"secret": "models", "key": "token"}
    job = make_job(
        'echo "it is $PARAM_TOKEN"; echo "${#PARAM_TOKEN}"', spec={"parameters": {"TOKEN": secret}}
    )
    with pytest.raises(SettingsError, match=r"not set: PARAM_TOKEN \(token of models\)"):
        ran(job, here)
    code, lines = ran(job, replace(here, environ={**here.environ, "PARAM_TOKEN": TOKEN}))
    assert (code, lines) == (0, ["[0] it is ***", f"[0] {len(TOKEN)}", "pod 0: done"])


def test_an_image_that_is_nowhere_is_told_before_anything_runs(make_job: MakeJob, here: Here) -> None:
    name = f"{os.environ['TEST_REGISTRY']}/nothing:1"
    with pytest.raises(MissingInputError, match="there is no image"):
        ran(make_job("true", image=name), here)


def test_the_worst_end_of_a_pod_is_the_jobs(make_job: MakeJob, here: Here) -> None:
    script = (
        "ls /scratch; touch /scratch/old; "
        "case $JOB_COMPLETION_INDEX in 0) exit 1;; 1) exit 2;; 2) sh -c 'kill -9 $$'; exit $?;; esac"
    )
    code, lines = ran(make_job(script, pods=4), here)
    assert code == 2
    assert ends(lines) == [
        "pod 0: ended with code 1", "pod 1: ended with code 2", "pod 2: ended with code 137", "pod 3: done",
    ]  # fmt: skip
    # Each has a disk of its own.
    assert [line for line in lines if line.endswith("] old")] == []
    assert ran(make_job("[ $JOB_COMPLETION_INDEX = 0 ] || exit 3", pods=2), here)[0] == 3


def test_a_job_ends_at_its_deadline(make_job: MakeJob, here: Here) -> None:
    code, lines = ran(make_job("sleep 100", pods=2, deadline_s=2), here)
    assert (code, lines[0]) == (3, "[0] stopped: its time limit is over")
    assert ends(lines) == ["pod 0: ended with code 3", "pod 1: ended with code 3"]


def test_devices_that_are_given_take_the_emulated_cards_place(make_job: MakeJob, here: Here) -> None:
    job = make_job('echo "${SPYRE_CI_EMULATE-real}"; ls /dev/full0', spec={"resources": {"cards": 1}})
    code, lines = ran(job, replace(here, devices=["/dev/full"]))
    assert code == 2
    assert "[0] real" in lines  # what it says on its two streams has no order
    gone = replace(here, devices=["/dev/no-such-card"])
    with pytest.raises(CommandError, match=r"the container engine reports: .*no-such-card") as refused:
        ran(job, gone)
    assert refused.value.remedy


def helped(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The source is fetched by a shell script that gets its folder."""
    real = job_module.helpers_of

    def helpers(job: Job) -> tuple[Helper, ...]:
        return tuple(replace(one, command=("/bin/sh", "-c", script, "sh", one.at)) for one in real(job))

    monkeypatch.setattr("ci.jobs.local.helpers_of", helpers)


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [('echo m > "$1/model"', 0, "[0] m"), ("exit 1", 3, "[0] fetch-source ended with code 1")],
)
def test_what_is_fetched_first_is_there_and_a_failed_fetch_is_no_verdict(
    make_job: MakeJob, here: Here, monkeypatch: pytest.MonkeyPatch, *, script: str, code: int, said: str
) -> None:
    helped(monkeypatch, script)
    job = make_job(f"cat {SCRATCH}/inputs/model", spec={"source": {"bucket": "s3://models/small"}})
    ended, lines = ran(job, here)
    assert ended == code
    assert said in lines


SAYS_BYE = 'trap "echo bye; touch /results/bye; exit 3" TERM'
UNTIL_ENDED = "touch /results/up; while :; do sleep 0.1; done"


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize(("trap", "said"), [(SAYS_BYE, True), ('trap "" TERM', False)])
def test_interrupted_it_lets_a_pod_end_for_a_while_and_leaves_nothing(
    make_job: MakeJob, here: Here, client: docker.DockerClient, *, trap: str, said: bool
) -> None:
    job = make_job(f"{trap}; {UNTIL_ENDED}", pods=3, spec=STORE)

    def interrupt() -> None:
        while not (here.results / "up").exists():
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    began = time.monotonic()
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_here(job, here, echo=print, grace_s=20 if said else 1)
    assert (here.results / "bye").exists() == said
    assert client.api.containers(all=True, filters={"label": f"{LABEL}.job={job.name}"}) == []
    assert list(here.work.iterdir()) == []
    assert time.monotonic() - began < 40


def test_a_pod_that_runs_before_the_engine_says_so_is_let_end_as_well(
    make_job: MakeJob, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Container.start

    def start(made: Container) -> None:
        real(made)
        until((here.results / "up").exists)
        raise KeyboardInterrupt

    monkeypatch.setattr(Container, "start", start)
    with pytest.raises(KeyboardInterrupt):
        run_here(make_job(f"{SAYS_BYE}; {UNTIL_ENDED}", spec=STORE), here, echo=print, grace_s=20)
    assert (here.results / "bye").exists()


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
    monkeypatch.setitem(PORTS, kind, port)
    helped(monkeypatch, 'echo good > "$1/weights"')
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
        run_here(job, here, echo=lines.append, grace_s=1)
    assert answers == [b"good\n"], lines


def test_a_port_is_published_on_loopback_alone(
    make_job: MakeJob, here: Here, client: docker.DockerClient, tmp_path: Path
) -> None:
    spec = {"kind": "notebook", "evaluation": None, "notebook": {"command": ["true"]}}
    given = replace(here, network="bridge", port=18888)
    job = make_job("", spec=spec)
    (own,) = containers_of(job, 0, given, scratch=tmp_path, configs=tmp_path)
    made = create(client, own.image, own.args, own.conditions)
    try:
        bound = made.attrs["HostConfig"]["PortBindings"]
    finally:
        made.remove()
    assert bound == {"8888/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18888"}]}
