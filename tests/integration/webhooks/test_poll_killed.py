"""Pollers as processes of their own: killed at the worst moment, two at once, stopped by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.calls import until
from tests.github_api import pull
from tests.integration.webhooks.desk import JOB, Desk, environment
from tests.jenkins_api import JenkinsApi

pytestmark = pytest.mark.nightly
# Pollers as real processes, each some seconds long; what they decide is shown in test_poll.py too.
pytestmark = pytest.mark.nightly
A, B = "a" * 40, "b" * 40
START_S = 40.0
END_S = 60.0


@pytest.fixture
def poller(desk: Desk, jenkins: JenkinsApi) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts pollers; what is left of them in the end is killed."""
    made: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        one = subprocess.Popen(
            [sys.executable, "-c", "from ci.cli import main; main()", "webhooks", "poll", *words],
            cwd=desk.folder, env=environment(desk, jenkins), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        made.append(one)
        return one

    yield start
    for one in made:
        if one.poll() is None:
            one.kill()
        one.communicate(timeout=END_S)


def kill_once(one: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    until(holds)
    one.send_signal(signal.SIGKILL)
    one.wait(END_S)


def test_a_poller_that_is_killed_after_jenkins_took_a_start_starts_it_once(
    desk: Desk, jenkins: JenkinsApi, poller: Callable[..., subprocess.Popen[str]]
) -> None:
    desk.polls(jenkins)
    desk.api.repositories["o/r"].pulls[1] = pull(1, sha=A)
    # Jenkins has it, and its answer is on the way for so long that the state cannot have been written.
    jenkins.fail("hang", path="buildWithParameters", taken=True, seconds=30)
    kill_once(poller("--all"), lambda: bool(jenkins.jobs[JOB].starts))
    assert desk.known() == {A: "starting"}
    said = desk.call("poll")
    assert said.code == 0
    assert "had been started before" in said.out
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{A}"]


def test_a_poller_that_is_killed_before_jenkins_heard_of_it_loses_nothing(
    desk: Desk, jenkins: JenkinsApi, poller: Callable[..., subprocess.Popen[str]]
) -> None:
    desk.polls(jenkins)
    desk.api.repositories["o/r"].pulls[1] = pull(1, sha=A)
    jenkins.fail("hang", path="crumbIssuer", seconds=30)
    kill_once(poller("--all"), lambda: bool(jenkins.asked("crumbIssuer")))
    assert desk.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{A}"]


def test_of_two_pollers_at_once_one_works_and_the_other_says_so(
    desk: Desk, jenkins: JenkinsApi, poller: Callable[..., subprocess.Popen[str]]
) -> None:
    desk.polls(jenkins)
    desk.api.repositories["o/r"].pulls[1] = pull(1, sha=A)
    jenkins.fail("hang", path="crumbIssuer", seconds=60)
    first = poller("--all")
    until(lambda: bool(jenkins.asked("crumbIssuer")))
    second = poller("--all")
    _, said = second.communicate(timeout=END_S)
    assert second.returncode == 3
    assert "another poller is at work with this state" in said
    # The kernel lets go of the lock of who is killed.
    first.kill()
    first.wait(END_S)
    assert desk.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{A}"]


def test_passes_go_on_until_a_signal(
    desk: Desk, jenkins: JenkinsApi, poller: Callable[..., subprocess.Popen[str]]
) -> None:
    desk.polls(jenkins)
    pulls = desk.api.repositories["o/r"].pulls
    pulls[1] = pull(1, sha=A)
    one = poller("--every", "1")
    until(lambda: len(desk.api.asked("GET", "/pulls$")) > 1)
    pulls[1]["head"]["sha"] = B
    until(lambda: bool(jenkins.jobs[JOB].starts))
    one.send_signal(signal.SIGTERM)
    out, said = one.communicate(timeout=END_S)
    assert one.returncode == 130
    assert "interrupted" in said
    # It may come before the pass with the new head has ended.
    assert "0 started; next pass in 1 s" in out
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{B}"]
    assert desk.known() == {A: "seen", B: "started"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_jenkins_is_asked_waits_for_its_answer_to_be_noted(
    desk: Desk, jenkins: JenkinsApi, poller: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    desk.polls(jenkins)
    desk.api.repositories["o/r"].pulls.update({1: pull(1, sha=A), 2: pull(2, sha=B)})
    jenkins.fail("slow", path="buildWithParameters", seconds=2)
    one = poller("--all")
    until(lambda: bool(jenkins.asked("buildWithParameters")))
    one.send_signal(number)
    _, said = one.communicate(timeout=END_S)
    assert (one.returncode, "interrupted" in said) == (130, True)
    assert desk.known() == {A: "started"}
    assert desk.call("poll").code == 0
    assert jenkins.jobs[JOB].keys() == [f"here:o/r#{A}", f"here:o/r#{B}"]
