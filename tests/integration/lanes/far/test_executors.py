"""Executors as the worker has them: by kind, each lane with its own place and secrets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ci.config.load import Settings, load_settings
from ci.errors import CommandError, SettingsError, UsageError
from ci.lanes.executors import Places
from ci.lanes.order import Order, Standing
from tests.github_api import TOKEN as GITHUB_TOKEN
from tests.github_api import GitHubApi
from tests.jenkins_api import TOKEN, USER, JenkinsApi, Job

NIGHT = {"cadence": {"cron": "17 2 * * *"}, "run": {"pytorch": {"stage": 1}}}


@pytest.fixture
def settings(tmp_path: Path, jenkins: JenkinsApi, github: GitHubApi) -> Settings:
    lanes = {
        "here": NIGHT,
        "on-jenkins": NIGHT | {"where": {"jenkins": {"url": jenkins.url, "job": "spyre/nightly"}}},
        "other-job": NIGHT | {"where": {"jenkins": {"url": jenkins.url, "job": "spyre/other"}}},
        "on-github": NIGHT
        | {"where": {"github": {"repository": "o/r", "workflow": "nightly.yml", "api": github.url}}},
        "on-openshift": NIGHT | {"where": {"openshift": {"spec": "job.yaml"}}},
    }
    path = tmp_path / "spyre-ci.yaml"
    path.write_text(yaml.safe_dump({"lanes": lanes}))
    return load_settings(path=path, environ={}, flags={}, cwd=tmp_path)


@pytest.fixture
def secrets(jenkins: JenkinsApi, github: GitHubApi) -> dict[str, Mapping[str, str]]:
    hosts = {"SPYRE_CI_TRUSTED_HOSTS": f"{jenkins.host} {github.host}"}
    of_jenkins = hosts | {"SPYRE_CI_JENKINS_USER": USER, "SPYRE_CI_JENKINS_TOKEN": TOKEN}
    return {
        "on-jenkins": of_jenkins,
        "other-job": of_jenkins,
        "on-github": hosts | {"GITHUB_TOKEN": GITHUB_TOKEN},
        "on-openshift": {"KUBECONFIG": "/nonexistent/kubeconfig"},
    }


def order_of(lane: str, folder: Path) -> Order:
    made = folder / "lanes" / lane
    made.mkdir(parents=True, exist_ok=True)
    return Order(lane=lane, due=1_772_366_400, attempt=1, seed=0, folder=made)


def test_each_lane_runs_at_its_own_place(
    settings: Settings,
    secrets: dict[str, Mapping[str, str]],
    jenkins: JenkinsApi,
    github: GitHubApi,
    tmp_path: Path,
) -> None:
    jenkins.jobs["spyre/other"] = Job()
    found = Places(settings=settings, environ=secrets.__getitem__, clock=lambda: 1_772_366_400.0).executors()
    assert sorted(found) == ["github", "jenkins", "openshift"]
    assert (jenkins.seen, github.seen) == ([], [])
    for lane, kind in (("on-jenkins", "jenkins"), ("other-job", "jenkins"), ("on-github", "github")):
        order = order_of(lane, tmp_path)
        assert found[kind].find(order) is None
        reference = found[kind].start(order)
        assert found[kind].look(order, reference).standing is Standing.STARTING
        found[kind].cancel(order, reference)
        assert found[kind].look(order, reference).standing is Standing.CANCELLED
        found[kind].fetch(order, reference)
    left = [one["IDEMPOTENCY_KEY"] for one in jenkins.left]
    assert left == ["on-jenkins-1772366400-1", "other-job-1772366400-1"]


def test_a_lane_that_left_the_settings_is_told(settings: Settings, tmp_path: Path) -> None:
    found = Places(settings=settings, environ=lambda _: {}, clock=lambda: 0.0).executors()
    for lane in ("gone", "here"):
        with pytest.raises(UsageError, match=f"there is no lane {lane} far away any more"):
            found["jenkins"].look(order_of(lane, tmp_path), "item 1")


def test_only_what_the_lanes_that_begin_need_is_checked(
    settings: Settings,
    secrets: dict[str, Mapping[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    jenkins: JenkinsApi,
) -> None:
    def check(*names: str) -> None:
        Places(settings=settings, environ=lambda name: secrets.get(name, {}), clock=lambda: 0.0).check(names)

    check("here", "on-jenkins", "on-github")
    secrets.pop("other-job")
    check("on-jenkins")
    with pytest.raises(SettingsError, match="lane other-job: the token for Jenkins is not sent to"):
        check("other-job")
    secrets["other-job"] = {"SPYRE_CI_TRUSTED_HOSTS": jenkins.host}
    with pytest.raises(SettingsError, match="lane other-job: there is no user for Jenkins") as caught:
        check("other-job")
    assert "in the environment or in the file of secrets" in str(caught.value)
    monkeypatch.delitem(sys.modules, "ci.lanes.github")
    monkeypatch.setitem(sys.modules, "github", None)
    for name in [name for name in sys.modules if name.startswith(("ci.github.wire", "ci.github.client"))]:
        monkeypatch.delitem(sys.modules, name)
    check("on-jenkins")
    with pytest.raises(
        CommandError, match="the lane on-github wants a library that is not installed: github"
    ):
        check("on-github")
    assert jenkins.seen == []
