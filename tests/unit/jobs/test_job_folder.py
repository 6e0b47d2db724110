"""A job's run folder is found by the job's name, whatever else lies among the runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import MissingInputError
from ci.jobs.cli_collect import find_job_folder
from ci.jobs.record import FILE, JobRecord, write_record

RECORD = JobRecord(
    name="tests-calm-otter-1f2e3", namespace="default", kind="tests", run="some", image="", commit="",
    fingerprint="", store="", shards=((0,),),
)  # fmt: skip


def test_a_record_that_is_broken_hides_no_other(tmp_path: Path) -> None:
    write_record(tmp_path / "a", RECORD)
    for name, content in (("b", "{"), ("c", '{"schema": "spyre-ci/job/1"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(content)
    assert find_job_folder(tmp_path, RECORD.name).path == tmp_path / "a"
    with pytest.raises(MissingInputError, match="there is no run 'another'"):
        find_job_folder(tmp_path, "another")
