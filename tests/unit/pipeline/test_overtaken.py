"""Whose a status is where two builds of a job set it."""

from __future__ import annotations

import pytest

from ci.pipeline.cli import overtaken

JOB = "https://jenkins.example/job/pr/"


@pytest.mark.parametrize(
    ("number", "newer"), [("6", True), ("5", False), ("9" * 18, True), ("9" * 5000, False)]
)
def test_a_page_of_a_newer_build_is_one_whose_number_a_build_can_have(number: str, newer: bool) -> None:
    page = f"{JOB}{number}/"
    found = overtaken(f"{JOB}5/", "ci", [{"context": "ci", "target_url": page}])
    assert found == (page if newer else "")
