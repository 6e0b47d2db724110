"""What verbs of jobs find: specs, a stand-in cluster, a bucket, what pods left."""

from __future__ import annotations

import shutil
from pathlib import Path

from ci.jobs import cli as job_cli
from ci.jobs.cluster import open_cluster
from ci.jobs.plan_chunks import chunks_of, pack_plan
from ci.jobs.prepare import run_of
from ci.jobs.record import JobRecord, write_record
from ci.jobs.submit import submit
from ci.record.identity import read_identity
from test_selection.ci_jobs import CiJob
from test_selection.plan import read_plan
from tests.kubernetes_api import KubernetesApi
from tests.kubernetes_cluster import CardCluster
from tests.kubernetes_jobs import hasty, manifests_of

from . import cards, hubs
from .world import ROOT, World

NAME = "tests-calm-otter-1f2e3"
IMAGE = f"registry.example.com/spyre/runtime@sha256:{'a' * 64}"


def specs(world: World) -> None:
    """The examples of this repository, in a project under Git."""
    shutil.copytree(ROOT / "examples", world.folder / "examples")
    cards.repository(world)


def cluster(world: World) -> None:
    """A cluster with cards, which a kubeconfig leads to."""
    api: KubernetesApi = world.request.getfixturevalue("kubernetes")
    # What the examples name.
    api.put({"kind": "PriorityClass", "metadata": {"name": "nightly"}, "value": 100})
    api.put({"kind": "ServiceAccount", "metadata": {"name": "spyre-ci"}})
    world.patch.setenv("KUBECONFIG", str(api.kubeconfig(world.base)))
    world.patch.setenv("CI", "1")


def ended_job(world: World) -> None:
    """A job that is done."""
    api: KubernetesApi = world.request.getfixturevalue("kubernetes")
    submit(api.cluster(world.base, effects=hasty()), manifests_of())
    for index in range(3):
        pod = api.world.pod(index)
        pod.run()
        pod.log("hello")
        pod.succeed()


def card_cluster(world: World) -> None:
    """A cluster as a stage wants it, whose pods run at once."""
    api: KubernetesApi = world.request.getfixturevalue("kubernetes")
    made = CardCluster(api, nodes=16)
    put = api.put
    put({"kind": "PersistentVolumeClaim", "metadata": {"name": "runs"},
         "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}})  # fmt: skip
    put({"kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {"clusterID": "0123-abcd"},
         "status": {"desired": {"version": "4.20.1"}}})  # fmt: skip
    world.patch.setattr(
        job_cli,
        "open_cluster",
        lambda environ, **more: open_cluster(environ, effects=made.effects(), **more),
    )


def bucket(world: World) -> None:
    """A bucket with a small model, and a folder to put there."""
    client = hubs.s3_client(world)
    client.create_bucket(Bucket="models")
    client.put_object(Bucket="models", Key="small/config.json", Body=b"{}")
    world.write("results/metrics.json", {"accuracy": 1})


def job_run(world: World) -> Path:
    """The run, as a job whose pods have it in chunks; the folder of its inputs."""
    run = world.folder / "runs" / "nightly"
    for name in ("journal", "junit", "logs"):
        shutil.rmtree(run / name)
    for name in ("results.jsonl.gz", "summary.json", "report.html", "summary.md", "hud.json"):
        (run / name).unlink()
    plan = read_plan(run / "plan.json")
    of_run = run_of(read_identity(run))
    legs = tuple(CiJob(shards=(one.index,), cards=1, expected_s=1) for one in plan.shards)
    inputs = world.base / "inputs"
    inputs.mkdir()
    for name, data in chunks_of(pack_plan(run, legs)).items():
        (inputs / name).write_bytes(data)
    write_record(
        run,
        JobRecord(
            name=NAME, namespace="cards", kind="tests", run=of_run, image="",
            fingerprint=plan.fingerprint, store="", shards=tuple(leg.shards for leg in legs),
        ),
    )  # fmt: skip
    return inputs


def inside_a_pod(world: World) -> None:
    """The environment and the mounts of the first pod of a job."""
    inputs = job_run(world)
    told = {
        "JOB_COMPLETION_INDEX": "0",
        "SPYRE_CI_JOB_RUN": run_of(read_identity(world.folder / "runs" / "nightly")),
        "SPYRE_CI_JOB_STORE": str(world.base / "store"),
        "SPYRE_CI_JOB_INPUT": str(inputs),
    }
    for name, value in told.items():
        world.patch.setenv(name, value)


def pod_journals(world: World) -> None:
    """What the pods of a job left in its store."""
    left = world.base / "left"
    run = world.folder / "runs" / "nightly"
    shutil.copytree(run / "journal", left)
    job_run(world)
    of_run = run_of(read_identity(run))
    for index in (0, 1):
        journal = world.folder / "results" / of_run / "pods" / str(index) / "journal"
        journal.mkdir(parents=True)
        shutil.copy(left / f"{index}-1.jsonl", journal)
