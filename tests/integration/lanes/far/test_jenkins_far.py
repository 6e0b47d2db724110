"""A lane's runs on a Jenkins that stands in, over real HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.config.lanes_model import JenkinsJob
from ci.errors import SettingsError, SpyreCiError
from ci.jenkins import calls
from ci.jenkins.access import connect
from ci.jenkins.errors import JenkinsAwayError, JenkinsDeniedError, JenkinsMissingError
from ci.lanes import budget
from ci.lanes.jenkins import JenkinsFar
from ci.lanes.order import Order, Standing
from ci.lanes.remote import Remote
from ci.lanes.remote_errors import MovedError, NotFindableError, UnsettledError
from ci.report.history import export_durations
from tests.jenkins_api import TOKEN, USER, JenkinsApi, Job, Started
from tests.pipeline_runs import report_folder
from tests.stand_in import Answer

JOB = "spyre/nightly"
Make = Callable[..., Remote]


@pytest.fixture
def clock() -> list[float]:
    return [1_772_366_400.0]


@pytest.fixture
def make(jenkins: JenkinsApi, tmp_path: Path, clock: list[float]) -> Make:
    """An executor of the lane; each call is a worker that began anew."""
    environ = {
        "SPYRE_CI_JENKINS_USER": USER,
        "SPYRE_CI_JENKINS_TOKEN": TOKEN,
        "SPYRE_CI_TRUSTED_HOSTS": jenkins.host,
    }

    def made(*, wants_results: bool = False, timeout_s: float = 5, **given: str) -> Remote:
        to = JenkinsJob(url=jenkins.url, job=JOB, parameters=given or {"STAGE": "1"})
        far = JenkinsFar(
            to, environ, open_jenkins=lambda known, url: connect(known, url, timeout_s=timeout_s)
        )
        return Remote(
            far=far, clock=lambda: clock[0], wants_results=wants_results, history=tmp_path / "history.sqlite"
        )

    return made


@pytest.fixture
def job(jenkins: JenkinsApi) -> Job:
    return jenkins.jobs[JOB]


def archived(folder: Path, outcomes: dict[str, str]) -> dict[str, bytes]:
    made = report_folder(folder, outcomes)
    files = [one for one in made.rglob("*") if one.is_file()]
    return {f"toolkit/runs/ci/{one.relative_to(made)}": one.read_bytes() for one in files}


def test_a_run_waits_builds_and_brings_its_results_into_the_history(
    make: Make, order: Order, job: Job, tmp_path: Path
) -> None:
    executor = make(wants_results=True)
    assert executor.find(order) is None
    reference = executor.start(order)
    assert reference == "item 1"
    assert job.queued == [{"STAGE": "1", "IDEMPOTENCY_KEY": "nightly-1772366400-1"}]
    seen = executor.look(order, reference)
    assert (seen.standing, seen.said) == (Standing.STARTING, "Waiting for next available executor")
    job.begin()
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code, seen.url.rpartition("/job/")[2]) == (
        Standing.RUNNING, None, "nightly/1/",
    )  # fmt: skip
    job.end("FAILURE", archived(tmp_path / "far", {"test_0.py::T::a": "passed", "test_1.py::T::b": "failed"}))
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code, seen.said) == (Standing.FAILED, 1, "the build failed")
    executor.fetch(order, reference)
    assert (order.folder / "results" / "0" / "summary.json").is_file()
    durations = export_durations(tmp_path / "history.sqlite")
    assert durations.tests == {"test_0.py::T::a": 0.5}


def test_what_came_back_is_brought_once(make: Make, order: Order, job: Job, jenkins: JenkinsApi) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    job.end()
    assert executor.look(order, reference).exit_code == 0
    asked = len(jenkins.asked("/1/api/json"))
    executor.fetch(order, reference)
    assert len(jenkins.asked("/1/api/json")) == asked


@pytest.mark.parametrize(
    ("result", "standing", "code"),
    [
        ("SUCCESS", Standing.PASSED, 0),
        ("UNSTABLE", Standing.FAILED, 1),
        ("FAILURE", Standing.FAILED, 1),
        ("ABORTED", Standing.CANCELLED, 130),
        ("NOT_BUILT", Standing.INCOMPLETE, 3),
        ("SOMETHING", Standing.INCOMPLETE, 3),
    ],
)
def test_every_result_is_an_end(
    make: Make, order: Order, job: Job, *, result: str, standing: Standing, code: int
) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    job.end(result)
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (standing, code)


def test_tests_that_failed_without_results_came_to_no_answer(make: Make, order: Order, job: Job) -> None:
    executor = make(wants_results=True)
    reference = executor.start(order)
    job.begin()
    job.end("FAILURE")
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.INCOMPLETE, 3)
    assert seen.said == "the build failed, and no results of it came back"


def test_a_start_whose_answer_is_lost_is_found_and_not_repeated(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, clock: list[float]
) -> None:
    jenkins.fail("drop", method="POST", path="buildWithParameters", taken=True)
    with pytest.raises(JenkinsAwayError, match="gives no whole answer to POST"):
        make().start(order)
    assert make().find(order) == "item 1"
    assert make().start(order) == "item 1"
    job.begin()
    clock[0] += 3600
    assert make().start(order) == "build 1"
    assert len(job.starts) == 1


def test_a_start_that_does_not_say_where_it_waits_is_looked_for(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi
) -> None:
    jenkins.fail(method="POST", path="buildWithParameters", status=201, text="", taken=True)
    assert make().start(order) == "item 1"
    job.queued.clear()
    (order.folder / "asked.json").unlink()
    jenkins.fail(method="POST", path="buildWithParameters", status=201, text="")
    with pytest.raises(JenkinsAwayError, match="took the start and does not say where it waits"):
        make().start(order)


def test_a_start_that_was_not_taken_is_made_again_but_not_at_once(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, clock: list[float]
) -> None:
    jenkins.fail("cut", method="POST", path="buildWithParameters")
    with pytest.raises(JenkinsAwayError):
        make().start(order)
    clock[0] += 5
    with pytest.raises(UnsettledError, match="5 s ago, and what became of it is not seen yet") as caught:
        make().start(order)
    assert caught.value.exit_code == 3
    clock[0] += 120
    assert make().start(order) == "item 1"
    assert job.keys() == [order.id]


def test_attempts_and_lanes_are_not_taken_for_each_other(
    make: Make, make_order: Callable[..., Order], job: Job
) -> None:
    assert make().start(make_order(attempt=10)) == "item 1"
    assert make().find(make_order(attempt=1)) is None
    assert make().start(make_order(attempt=1)) == "item 2"
    assert job.keys() == ["nightly-1772366400-10", "nightly-1772366400-1"]


def test_an_item_that_jenkins_forgot_is_found_as_a_build(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi
) -> None:
    reference = make().start(order)
    job.begin()
    jenkins.forgotten.add(1)
    assert make().look(order, reference).standing is Standing.RUNNING
    # More builds than are looked at, begun while no worker was there, change nothing.
    job.queued = []
    job.builds += [type(job.builds[0])({}) for _ in range(120)]
    assert make().look(order, reference).standing is Standing.RUNNING


@pytest.mark.parametrize("begun", [True, False])
def test_what_was_deleted_while_it_ran_or_waited_is_gone(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, *, begun: bool
) -> None:
    executor = make()
    reference = executor.start(order)
    if begun:
        job.begin()
        assert executor.look(order, reference).standing is Standing.RUNNING
        job.discarded.add(1)
    else:
        job.queued.clear()
        jenkins.forgotten.add(1)
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.GONE, 3)
    assert seen.said


@pytest.mark.parametrize("seen_before", [True, False])
def test_somebodys_build_of_a_job_that_was_made_anew_is_not_taken_for_ours(
    make: Make, order: Order, jenkins: JenkinsApi, tmp_path: Path, *, seen_before: bool
) -> None:
    executor = make()
    reference = executor.start(order)
    if seen_before:
        jenkins.jobs[JOB].begin()
        executor.look(order, reference)
    else:
        jenkins.forgotten.add(1)
    # Its numbers begin anew, as those of the queue do after a set-up.
    job = jenkins.jobs[JOB] = Job(parameters=("STAGE", "IDEMPOTENCY_KEY"))
    other = Started({"STAGE": "1", "IDEMPOTENCY_KEY": "nightly-1-1"})
    other.item = 1
    job.queued.append(other)
    jenkins.forgotten.clear()
    job.begin()
    executor.cancel(order, reference)
    assert other.building
    job.end("SUCCESS", archived(tmp_path / "far", {"test_0.py::T::a": "passed"}))
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.GONE, 3)
    said = "build 1 is of another start" if seen_before else "neither in Jenkins' queue nor among"
    assert said in seen.said
    executor.fetch(order, reference)
    assert not (order.folder / "results").exists()


def test_another_job_in_the_settings_is_another_place(
    make: Make, order: Order, jenkins: JenkinsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = make().start(order)
    jenkins.jobs[JOB].begin()
    jenkins.jobs["spyre/other"] = Job(parameters=("STAGE", "IDEMPOTENCY_KEY"))
    monkeypatch.setattr(f"{__name__}.JOB", "spyre/other")
    with pytest.raises(MovedError, match=r"job spyre/nightly, and its lane is .* now: .* job spyre/other"):
        make().look(order, reference)


def test_a_job_that_is_hidden_from_the_user_is_not_taken_for_a_deleted_build(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi
) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    executor.look(order, reference)
    del jenkins.jobs[JOB]
    with pytest.raises(JenkinsMissingError, match="Jenkins answers 404"):
        executor.look(order, reference)


def test_a_cancel_takes_it_out_of_the_queue(make: Make, order: Order, job: Job) -> None:
    executor = make()
    reference = executor.start(order)
    executor.cancel(order, reference)
    assert job.queued == []
    seen = executor.look(order, reference)
    assert (seen.standing, seen.said) == (Standing.CANCELLED, "somebody took it out of Jenkins' queue")
    executor.cancel(order, reference)


def test_a_cancel_stops_a_build_and_one_that_ended_is_no_error(make: Make, order: Order, job: Job) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    executor.cancel(order, reference)
    assert job.builds[0].result == "ABORTED"
    executor.cancel(order, reference)
    assert executor.look(order, reference).exit_code == 130


def test_a_cancel_of_what_becomes_a_build_meanwhile_stops_the_build(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make()
    reference = executor.start(order)

    def begins(number: int) -> Answer:
        assert number == 1
        job.begin()
        return Answer(status=204)

    monkeypatch.setattr(jenkins, "_taken_out", begins)
    executor.cancel(order, reference)
    assert job.builds[0].result == "ABORTED"


def test_a_job_without_the_parameter_of_the_id_is_refused(
    make: Make, order: Order, jenkins: JenkinsApi
) -> None:
    jenkins.jobs[JOB] = Job(parameters=("STAGE",))
    with pytest.raises(NotFindableError, match="declares no parameter IDEMPOTENCY_KEY") as caught:
        make().start(order)
    assert "give the job a string parameter IDEMPOTENCY_KEY" in str(caught.value)
    assert jenkins.jobs[JOB].starts == []


def test_a_parameter_that_jenkins_would_drop_is_refused(make: Make, order: Order, job: Job) -> None:
    with pytest.raises(SpyreCiError, match="declares no parameter OTHER, which Jenkins would drop"):
        make(OTHER="1", STAGE="2").start(order)
    assert job.starts == []


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, JenkinsDeniedError, 2),
        (403, JenkinsDeniedError, 2),
        (404, JenkinsMissingError, 2),
        (409, JenkinsAwayError, 3),
        (422, SpyreCiError, 2),
        (429, JenkinsAwayError, 3),
        (500, JenkinsAwayError, 3),
        (503, JenkinsAwayError, 3),
    ],
)
def test_what_is_refused_is_told_and_says_whether_another_time_may_do(
    make: Make, order: Order, jenkins: JenkinsApi, *, status: int, kind: type[SpyreCiError], code: int
) -> None:
    jenkins.fail(method="POST", path="buildWithParameters", status=status, text="no")
    with pytest.raises(kind, match=f"Jenkins answers {status}: no") as caught:
        make().start(order)
    assert caught.value.exit_code == code
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("kind", ["hang", "cut", "drop"])
def test_a_look_that_is_cut_is_another_time(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, kind: Any
) -> None:
    executor = make(timeout_s=0.5)
    reference = executor.start(order)
    job.begin()
    jenkins.fail(kind, path="/queue/item/", seconds=2)
    with pytest.raises(JenkinsAwayError) as caught:
        executor.look(order, reference)
    assert caught.value.exit_code == 3
    assert executor.look(order, reference).standing is Standing.RUNNING


def test_an_answer_that_is_no_json_is_another_time(make: Make, order: Order, jenkins: JenkinsApi) -> None:
    executor = make()
    reference = executor.start(order)
    jenkins.fail(path="/queue/item/", status=200, text="<html>Log in</html>")
    with pytest.raises(JenkinsAwayError, match="its answer is no JSON"):
        executor.look(order, reference)


@pytest.mark.parametrize("kind", ["status", "cut", "drop"])
def test_results_that_do_not_come_now_come_later(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, tmp_path: Path, *, kind: Any
) -> None:
    executor = make(wants_results=True)
    reference = executor.start(order)
    job.begin()
    job.end("FAILURE", archived(tmp_path / "far", {"test_0.py::T::a": "failed"}))
    jenkins.fail(kind, path="/artifact/", times=2)
    assert executor.look(order, reference).standing is Standing.INCOMPLETE
    with pytest.raises(JenkinsAwayError):
        executor.fetch(order, reference)
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.FAILED, 1)


def test_results_that_are_broken_or_too_big_are_told_and_not_used(
    make: Make, order: Order, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    files = archived(tmp_path / "far", {"test_0.py::T::a": "passed"})
    broken = {name.replace("runs/ci", "runs/other"): b"{" for name in files}
    job.end("SUCCESS", files | broken)
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code) == (Standing.INCOMPLETE, 3)
    assert "results of toolkit/runs/other/ cannot be used: is not what it has to be" in seen.said
    monkeypatch.setattr("ci.lanes.jenkins.limit_of", lambda path: 10 if path == "summary.json" else None)
    (order.folder / "brought.json").unlink()
    shutil.rmtree(order.folder / "results")
    assert "summary.json has more than 10 bytes" in executor.look(order, reference).said


def test_what_came_before_an_interrupt_is_not_brought_again(
    make: Make, order: Order, job: Job, jenkins: JenkinsApi, tmp_path: Path
) -> None:
    executor = make(wants_results=True)
    reference = executor.start(order)
    job.begin()
    job.end("FAILURE", archived(tmp_path / "far", {"test_0.py::T::a": "failed"}))
    stop = "_stop"
    setattr(executor.far, stop, lambda: len(jenkins.asked("/artifact/")) > 1)
    with pytest.raises(JenkinsAwayError, match="it is left for another time"):
        executor.fetch(order, reference)
    setattr(executor.far, stop, lambda: False)
    executor.fetch(order, reference)
    paths = [one.path for one in jenkins.asked("/artifact/")]
    assert len(paths) == len(set(paths)) + 1
    assert executor.look(order, reference).exit_code == 1


def test_a_file_that_drips_for_too_long_is_another_time(
    make: Make, order: Order, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    job.end("SUCCESS", archived(tmp_path / "far", {"test_0.py::T::a": "passed"}))
    monkeypatch.setattr(calls, "FILE_S", -1.0)
    with pytest.raises(JenkinsAwayError, match="the answer takes too long"):
        executor.fetch(order, reference)


def test_what_is_too_much_in_all_is_told_and_not_used(
    make: Make, order: Order, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MOST_BYTES", 100)
    executor = make()
    reference = executor.start(order)
    job.begin()
    job.end("SUCCESS", archived(tmp_path / "far", {"test_0.py::T::a": "passed"}))
    assert "with it what the run left has more than 100 bytes" in executor.look(order, reference).said


def test_a_green_build_with_red_results_is_red(make: Make, order: Order, job: Job, tmp_path: Path) -> None:
    executor = make()
    reference = executor.start(order)
    job.begin()
    job.end("SUCCESS", archived(tmp_path / "far", {"test_0.py::T::a": "hardware"}))
    seen = executor.look(order, reference)
    assert (seen.standing, seen.exit_code, seen.said) == (Standing.INCOMPLETE, 3, "its results say so")


def test_a_token_is_not_sent_to_a_host_that_only_the_settings_name(jenkins: JenkinsApi) -> None:
    to = JenkinsJob(url=jenkins.url, job=JOB)
    known = {"SPYRE_CI_JENKINS_USER": USER, "SPYRE_CI_JENKINS_TOKEN": TOKEN}
    with pytest.raises(SettingsError, match="token for Jenkins is not sent to"):
        JenkinsFar(to, known)
    with pytest.raises(SettingsError, match="there is no user for Jenkins"):
        JenkinsFar(to, {"SPYRE_CI_TRUSTED_HOSTS": jenkins.host})
    assert jenkins.seen == []
