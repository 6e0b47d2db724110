"""The role that the documentation gives is enough, and the stand-in refuses what is not in it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from ci.core.findings import PASSED
from ci.jobs.cli_submit import manifests_of as submitted_manifests
from ci.jobs.cluster import Cluster, path_of
from ci.jobs.errors import ForbiddenError
from ci.jobs.logs import LogReader, find_sources, sink
from ci.jobs.render import render
from ci.jobs.spec import KINDS
from ci.jobs.submit import cancel, submit
from ci.jobs.trial import try_cards
from ci.jobs.validate import RIGHTS
from ci.jobs.validate import Wanted as Validated
from ci.jobs.watch import View, watch_job
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


def view() -> View:
    return View(console=Console(quiet=True), environ=os.environ)


def whole_life(api: KubernetesApi, cluster: Cluster) -> None:
    """A job from its submit to its end, of which nothing is left."""
    submit(cluster, manifests_of())
    for index in range(3):
        api.world.pod(index).run()
        api.world.pod(index).log("hello")
    lines: list[str] = []
    sources = find_sources(cluster, NAME, index=None, follow=False)
    LogReader(cluster=cluster, query={}, say=print).write_all(sources, sink(None, lines.append))
    assert lines == ["[0] hello", "[1] hello", "[2] hello"]
    for index in range(3):
        api.world.pod(index).succeed()
    assert watch_job(cluster, NAME, view())[0].exit_code == 0
    cancel(cluster, NAME, timeout_s=5, say=print)


def others(api: KubernetesApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job of tests has no need of: a server, a notebook with its secret, a job that gets no pods."""
    for kind in ("serve", "notebook"):
        name = job_of(spec_of(kind)).name
        more = {"notebook": {"token": f"{name}-token"}} if kind == "notebook" else {}
        job = job_of(spec_of(kind, **more), namespace=NAMESPACE)
        made = submit(cluster, submitted_manifests(job)).made
        assert (f"Secret {name}-token" in made) == (kind == "notebook")
        cancel(cluster, job.name, timeout_s=5, say=print)
    monkeypatch.setattr("ci.jobs.watch.WINDOW_S", 1)
    api.world.refuse_pods = "exceeded quota"
    submit(cluster, manifests_of(queue="cards"))
    submit(cluster, manifests_of())
    cluster.patch(path_of("Job", NAMESPACE, NAME), {"spec": {"suspend": False}})
    assert "exceeded quota" in watch_job(cluster, NAME, view(), pending_limit_s=0.1)[0].why


def tried(api: KubernetesApi, folder: Path) -> None:
    """A job checks the cards of a node."""
    made = CardCluster(api, nodes=1)
    cluster = api.cluster(folder, effects=made.effects())
    wanted = Validated(cluster=cluster, stage=0, cards=8, image="registry.example.com/a:1")
    vars(wanted)["nodes"] = [made.node("node-1")]  # which the Role does not list
    (found,) = try_cards(wanted, timeout_s=60, card_s=1)
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
