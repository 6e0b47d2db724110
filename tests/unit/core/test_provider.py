from __future__ import annotations

from ci.core.provider import detect, in_log

NOW = 1_700_000_000.7


def test_the_container_that_a_workflow_asked_for_is_the_image_else_what_the_runner_says() -> None:
    mine, pods = (f"registry.example/spyre@sha256:{digit * 64}" for digit in "12")
    assert detect({"SPYRE_CI_CONTAINER": "", "SPYRE_CI_IMAGE": pods}, epoch_s=1).image == pods
    assert detect({"SPYRE_CI_CONTAINER": mine, "SPYRE_CI_IMAGE": pods}, epoch_s=1).image == mine


def test_a_run_of_a_lane_knows_its_lane_by_its_name() -> None:
    assert detect({"SPYRE_CI_LANE": "nightly-main"}, epoch_s=1).lane == "nightly-main"
    assert detect({}, epoch_s=1).lane == ""


def test_github_gives_id_attempt_and_page() -> None:
    provider = detect(
        {
            "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "42", "GITHUB_RUN_ATTEMPT": "3", "GITHUB_JOB": "spyre",
            "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b",
            "GITHUB_WORKFLOW": "nightly", "GITHUB_STEP_SUMMARY": "summary.md",
        },
        epoch_s=NOW,
    )  # fmt: skip
    assert (provider.name, provider.run_id, provider.run_attempt) == ("github", 42, 3)
    assert provider.url == "https://github.com/a/b/actions/runs/42"
    assert str(provider.step_summary) == "summary.md"


def test_jenkins_gives_build_number_and_page() -> None:
    provider = detect(
        {"JENKINS_URL": "j", "BUILD_NUMBER": "7", "JOB_NAME": "team/nightly", "BUILD_URL": "u"}, epoch_s=NOW
    )
    assert (provider.name, provider.run_id, provider.job_name, provider.url) == ("jenkins", 7, "nightly", "u")


def test_elsewhere_the_epoch_second_is_the_run_id() -> None:
    provider = detect({}, epoch_s=NOW)
    assert (provider.name, provider.run_id, provider.run_attempt) == ("none", 1_700_000_000, 1)


def test_a_run_id_is_always_a_whole_number_above_zero() -> None:
    for text in ("", "0", "-4", "abc", "1.5"):
        assert detect({"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": text}, epoch_s=NOW).run_id == int(NOW)


def test_what_a_ci_runs_ends_up_in_a_log() -> None:
    for environ in ({"CI": "true"}, {"CI": "1"}, {"JENKINS_URL": "j"}, {"GITHUB_ACTIONS": "true"}):
        assert in_log(environ)
    for environ in ({}, {"CI": ""}, {"CI": "false"}):
        assert not in_log(environ)
