"""The role that the documentation gives is enough, and the stand-in refuses what is not in it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml

from ci.jobs.board import Board
from ci.jobs.cancel import cancel, left_of
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError
from ci.jobs.listing import jobs_of
from ci.jobs.log_files import into_one
from ci.jobs.logs import Wanted, find_sources, write_logs
from ci.jobs.paths import path_of
from ci.jobs.render import render
from ci.jobs.spec import KINDS
from ci.jobs.standing import standing_of
from ci.jobs.submit import submit
from ci.jobs.watch import find_job, watch_job
from ci.jobs.watch_view import Lines
from ci.jobs.watcher import Watcher
from tests.job_specs import job_of, spec_of
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_jobs import NAME, manifests_of

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _as_documented(api: KubernetesApi) -> None:
    docs = "".join(path.read_text() for path in sorted((ROOT / "docs").glob("jobs*.md")))
    blocks = re.findall(r"```yaml\n(.*?)```", docs, flags=re.DOTALL)
    (role,) = [one for one in map(yaml.safe_load, blocks) if one.get("kind") == "Role"]
    api.allowed = {
        (verb, plural) for rule in role["rules"] for verb in rule["verbs"] for plural in rule["resources"]
    }


def test_a_job_is_submitted_watched_read_listed_and_cancelled(api: KubernetesApi, cluster: Cluster) -> None:
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).run()
        api.world.pod(index).log("hello")
    lines: list[str] = []
    with into_one(lines.append) as into:
        write_logs(cluster, find_sources(cluster, NAME, index=None, follow=False), Wanted(), into, print)
    assert lines == ["[0] hello", "[1] hello", "[2] hello"]
    for index in range(3):
        api.world.pod(index).succeed()
    path, job = find_job(cluster, NAME)
    watcher = Watcher(Board(standing_of(job), time.monotonic()), Lines(say=print), time.monotonic)
    assert watch_job(cluster, NAME, watcher, path=path).exit_code == 0
    assert [row.state for row in jobs_of(cluster, now_s=0)] == ["complete"]
    cancel(cluster, NAME, timeout_s=5, say=print)
    assert left_of(cluster, NAME) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_rendered_is_taken_for_every_kind(api: KubernetesApi, cluster: Cluster, kind: str) -> None:
    job = job_of(spec_of(kind))
    api.put({"kind": "Namespace", "metadata": {"name": job.namespace}})
    manifests = render(job)
    done = submit(cluster, manifests)
    assert len(done.made) == len(manifests)
    assert submit(cluster, manifests).made == []
    found = cluster.get(path_of(done.kind, job.namespace, done.name))
    assert found is not None
    assert found["spec"]["suspend" if done.kind == "Job" else "paused"] is False


def test_what_is_not_in_it_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ForbiddenError):
        cluster.items(path_of("Secret", NAMESPACE))
