"""What polling hands to Jenkins is what the jobs of jenkins/jobs declare."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ci.config.recipient import check_recipient
from ci.jenkins.client import KEY
from ci.webhooks.heads import Head
from ci.webhooks.model import Repository, read_webhooks
from ci.webhooks.starting import parameters

JENKINS = Path(__file__).parent.parent.parent.parent / "jenkins"
PULLS = (JENKINS / "jobs" / "pull_requests.groovy").read_text(encoding="utf-8")
COMPONENTS = {
    one["repository"]: one
    for one in json.loads((JENKINS / "resources" / "components.json").read_text(encoding="utf-8"))
}


def test_the_pollers_job_has_a_credential_for_every_secret_and_names_every_host() -> None:
    poller = json.loads((JENKINS / "resources" / "site.json").read_text(encoding="utf-8"))["poller"]
    found = read_webhooks(JENKINS / "webhooks.yaml")
    hosts = [found.host_of(one) for one in found.repositories if one.poll is not None]
    assert found.jenkins is not None
    # One that is not there ends the build, so none is named that nobody asks for.
    names = {found.jenkins.user, found.jenkins.token, *(one.token for one in hosts)}
    assert poller["secrets"].keys() == names
    assert all(re.fullmatch("spyre-ci-[a-z-]+", credential) for credential in poller["secrets"].values())
    for address in (found.jenkins.url, *(one.api for one in hosts)):
        check_recipient({"SPYRE_CI_TRUSTED_HOSTS": poller["trusted_hosts"]}, address, "token")


def test_a_job_declares_every_parameter_it_is_started_with() -> None:
    # Jenkins drops in silence what a job does not declare; without the key it could be started twice.
    handed = parameters(Repository(repository="o/r"), Head(sha="a" * 40, branch="main", number=1), "k")
    assert KEY in handed
    assert set(handed) <= set(re.findall(r"stringParam\('(\w+)'", PULLS))


def test_every_pull_request_that_is_polled_has_a_job() -> None:
    polled = [one for one in read_webhooks(JENKINS / "webhooks.yaml").repositories if one.poll is not None]
    assert polled
    for one in polled:
        rule = one.poll.pull_requests if one.poll is not None else None
        component = COMPONENTS[one.repository]
        assert rule is not None
        assert (rule.job, rule.bases) == (f"spyre/pr-{component['component']}", (component["branch"],))
        assert 'pipelineJob("spyre/pr-${one.component}")' in PULLS
