"""A run that was submitted is submitted again as it was, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import EXIT_USAGE, MissingInputError, PlanMismatchError
from ci.jobs.record import FILE, HERE, JobRecord, find_job_folder, refuse_another_deal, write_record

RECORD = JobRecord(
    name="tests-calm-otter-1f2e3", namespace="default", kind="tests", run="some-1-1", image="a@sha256:1",
    fingerprint="f", store="", shards=((0,), (1,)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(RECORD, image="b@sha256:2"), "its image was a@sha256:1, now b@sha256:2"),
        (replace(RECORD, shards=((0, 1),)), "its shards were split among 2 pods, now differently among 1"),
        (
            replace(RECORD, fingerprint="g", shards=((0, 1),)),
            "tests-calm-otter-1f2e3, and differs: its plan has changed",
        ),
    ],
)
def test_another_image_plan_or_deal_is_refused(tmp_path: Path, now: JobRecord, said: str) -> None:
    write_record(tmp_path, RECORD)
    with pytest.raises(PlanMismatchError, match=said) as caught:
        refuse_another_deal(tmp_path, now)
    assert caught.value.exit_code == EXIT_USAGE
    assert "plan a new run" in str(caught.value)


@pytest.mark.parametrize(
    "before",
    [
        RECORD,
        replace(RECORD, name="tests-other", store="s3://b"),
        replace(RECORD, run="some-0-1", image="x"),
        replace(RECORD, namespace=HERE, image="x"),
    ],
)
def test_the_same_again_another_run_and_a_trial_here_are_not(tmp_path: Path, before: JobRecord) -> None:
    write_record(tmp_path, before)
    refuse_another_deal(tmp_path, RECORD)


def test_what_has_no_journals_may_be_begun_again_in_another_image(tmp_path: Path) -> None:
    one = replace(RECORD, kind="evaluation", shards=())
    write_record(tmp_path, one)
    refuse_another_deal(tmp_path, replace(one, image="x"))


def test_a_record_that_is_none_or_broken_is_written_anew(tmp_path: Path) -> None:
    refuse_another_deal(tmp_path, RECORD)
    (tmp_path / FILE).write_text("{")
    refuse_another_deal(tmp_path, RECORD)


def test_a_record_that_is_broken_hides_no_other(tmp_path: Path) -> None:
    write_record(tmp_path / "a", RECORD)
    for name, content in (("b", "{"), ("c", '{"schema": "spyre-ci/job/1"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(content)
    assert find_job_folder(tmp_path, RECORD.name).path == tmp_path / "a"
    with pytest.raises(MissingInputError, match="there is no run 'another'"):
        find_job_folder(tmp_path, "another")
