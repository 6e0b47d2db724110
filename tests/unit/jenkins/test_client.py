from __future__ import annotations

import pytest

from ci.core.http import Answer
from ci.jenkins.client import job_path, refusal
from ci.jenkins.errors import JenkinsAwayError, JenkinsDeniedError, JenkinsMissingError, JenkinsRefusedError


def answer(status: int, text: str = "", **headers: str) -> Answer:
    return Answer(status=status, headers=headers, text=text)


@pytest.mark.parametrize(
    ("given", "kind", "code"),
    [
        (answer(401), JenkinsDeniedError, 2),
        (answer(403), JenkinsDeniedError, 2),
        (answer(302, location="https://j.example.com/login?from=x"), JenkinsDeniedError, 2),
        (answer(302, location="https://j.example.com/job/x"), JenkinsRefusedError, 2),
        (answer(400), JenkinsRefusedError, 2),
        (answer(404), JenkinsMissingError, 2),
        (answer(409), JenkinsAwayError, 3),
        (answer(429), JenkinsAwayError, 3),
        (answer(500), JenkinsAwayError, 3),
        (answer(503), JenkinsAwayError, 3),
    ],
)
def test_what_an_answer_means(given: Answer, kind: type[Exception], code: int) -> None:
    error = refusal(given, "job a/b")
    assert type(error) is kind
    assert (error.exit_code, error.where) == (code, "job a/b")
    assert error.remedy


def test_of_a_page_its_words_are_told_and_nothing_that_commands() -> None:
    page = "<html><title>Error</title>\n::error::\x1b[2J see https://u:pw@h/x?token=abc</html>"
    assert (
        refusal(answer(404, page), "x").what
        == "Jenkins answers 404: Error ::error::\\x1b[2J see https://h/x?***"
    )


def test_a_job_is_found_below_its_folders() -> None:
    assert job_path("spyre/pr torch") == "/job/spyre/job/pr%20torch/"
