"""The role that the documentation gives is enough, and the stand-in refuses what is not in it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml

from ci.core.findings import PASSED
from ci.jobs.board import Board
from ci.jobs.cancel import cancel, left_of
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError
from ci.jobs.labels import SPEC_ANNOTATION
from ci.jobs.listing import jobs_of
from ci.jobs.logs import Wanted, find_sources, into_one, write_logs
from ci.jobs.paths import path_of
from ci.jobs.render import render
from ci.jobs.spec import KINDS
from ci.jobs.standing import standing_of
from ci.jobs.submit import submit
from ci.jobs.token import secret_of, with_token
from ci.jobs.validate.facts import Asked, Facts, card_nodes
from ci.jobs.validate.probing import try_cards, try_image
from ci.jobs.validate.rights import RIGHTS
from ci.jobs.watch import Watcher, find_job, watch_job
from ci.jobs.watch_view import Lines
from tests.job_specs import job_of, spec_of
from tests.kubernetes_api import NAMESPACE, KubernetesApi
from tests.kubernetes_cluster import CardCluster
from tests.kubernetes_jobs import NAME, manifests_of

ROOT = Path(__file__).parents[4]


def role() -> set[tuple[str, str, str]]:
    """Verb, group and resource of all that the documentation grants."""
    docs = "".join(path.read_text() for path in sorted((ROOT / "docs").glob("jobs*.md")))
    blocks = re.findall(r"```yaml\n(.*?)```", docs, flags=re.DOTALL)
    (found,) = [one for one in map(yaml.safe_load, blocks) if one.get("kind") == "Role"]
    return {
        (verb, group, plural)
        for rule in found["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }


@pytest.fixture(autouse=True)
def _as_documented(api: KubernetesApi) -> None:
    api.allowed = {(verb, plural) for verb, _, plural in role()}


def test_the_role_is_what_validate_asks_for() -> None:
    rights = [(one.verb, one.group, one.resource + (f"/{one.part}" if one.part else "")) for one in RIGHTS]
    assert sorted(role()) == sorted(rights)


def whole_life(api: KubernetesApi, cluster: Cluster) -> None:
    """A job from its submit to its end, of which nothing is left."""
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


def others(api: KubernetesApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job of tests has no need of: a server, a notebook with its secret."""
    for kind in ("serve", "notebook"):
        job = with_token(job_of(spec_of(kind), namespace=NAMESPACE))
        manifests = render(job)
        secret = secret_of(job, "token", manifests[-1]["metadata"]["annotations"][SPEC_ANNOTATION])
        made = submit(cluster, [secret, *manifests] if secret else manifests).made
        assert (f"Secret {job.name}-token" in made) == (kind == "notebook")
        cancel(cluster, job.name, timeout_s=5, say=print)
    monkeypatch.setattr("ci.jobs.watch.WINDOW_S", 1)
    api.world.refuse_pods = "exceeded quota"
    submit(cluster, manifests_of())
    path, there = find_job(cluster, NAME)
    watcher = Watcher(Board(standing_of(there), time.monotonic()), Lines(say=print), time.monotonic)
    assert "exceeded quota" in watch_job(cluster, NAME, watcher, path=path, pending_limit_s=0.1).why


def tried(api: KubernetesApi, folder: Path) -> None:
    """A pod pulls the image and a job checks the cards of a node."""
    made = CardCluster(api, nodes=1)
    cluster = api.cluster(folder, effects=made.effects())
    asked = Asked(stage=0, cards=8, namespace=NAMESPACE, image="registry.example.com/a:1")
    assert try_image(cluster, asked, "validate-a", timeout_s=60).state == PASSED
    nodes = card_nodes(Facts(nodes=(made.node("node-1"),)), asked)
    (found,) = try_cards(cluster, asked, nodes, "b", timeout_s=60, card_s=1)
    assert found.state == PASSED


def test_nothing_is_granted_that_nobody_uses(
    api: KubernetesApi, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_life(api, cluster)
    tried(api, tmp_path)
    others(api, cluster, monkeypatch)
    assert api.allowed is not None
    assert sorted(api.allowed - api.used) == []


def test_what_is_not_in_it_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ForbiddenError):
        cluster.items(path_of("Secret", NAMESPACE))
