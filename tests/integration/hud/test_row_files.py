"""`spyre-ci hud rows` on what real runners write, to a folder and to a real S3 endpoint."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ci.config import load_settings
from ci.core.errors import BadFileError, CommandError, MissingInputError, SettingsError, UsageError
from ci.hud.cli import app
from tests.s3_server import s3_server

TESTS = """
import unittest

class TestA(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.fail("not today")
    def test_breaks(self): raise RuntimeError
    @unittest.skip("no card")
    def test_skips(self): pass
    @unittest.expectedFailure
    def test_xfails(self): self.fail()
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number): self.assertNotEqual(number, 1)
"""
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml=out/j.xml", "test_some.py"]
RUNNERS = {
    "pytest": PYTEST,
    "xdist": [*PYTEST, "-n", "2"],
    "unittest-xml": ["-m", "xmlrunner", "-o", "out", "test_some"],
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def call(folder: Path, *arguments: str) -> Result:
    settings = load_settings(path=None, environ={}, flags={}, cwd=folder)
    return CliRunner().invoke(app, ["rows", *arguments], obj=settings)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.mark.parametrize("runner", RUNNERS)
def test_rows_of_what_a_real_runner_writes(tmp_path: Path, runner: str) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    subprocess.run(
        [sys.executable, *RUNNERS[runner]], cwd=tmp_path, check=False, timeout=120, capture_output=True
    )
    result = call(
        tmp_path, str(tmp_path / "out"), "--run-id", "70", "--attempt", "2", "--to", str(tmp_path / "s")
    )
    assert result.exit_code == 0, result.output
    rows = lines(tmp_path / "s" / "test_run" / "70" / "2")
    assert {(row["file"], row["invoking_file"]) for row in rows} == {("test_some.py", "test_some")}
    by_name = {row["name"]: row for row in rows}
    assert by_name["test_fails"]["failure"]["message"].endswith("not today")
    assert by_name["test_skips"]["skipped"]["message"].endswith("no card")
    assert "skipped" in by_name["test_xfails"] or not {"failure", "error"} & set(by_name["test_xfails"])
    assert {"failure", "error"} & set(by_name["test_breaks"])
    # pytest 9 tells of subtests in the test's own case, unittest-xml-reporting gives each a case.
    assert any("test_parts" in row["name"] and "failure" in row for row in rows)
    failed = lines(tmp_path / "s" / "failed_test_runs" / "70" / "2")
    assert failed == [row for row in rows if {"failure", "error", "rerun"} & set(row)]
    (summary,) = lines(tmp_path / "s" / "test_run_summary" / "70" / "2")
    assert (
        summary["tests"]
        == len(rows)
        == sum(summary[count] for count in ("errors", "failures", "skipped", "successes"))
    )


JUNIT = '<testsuite><testcase name="a" classname="b" time="1"/></testsuite>'


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


def test_rows_go_to_a_bucket_as_hud_reads_them(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    bucket = boto3.client("s3", endpoint_url=endpoint)
    bucket.create_bucket(Bucket="rows")
    (tmp_path / "j.xml").write_text(JUNIT)
    arguments = (str(tmp_path / "j.xml"), "--run-id", "7", "--check-run-id", "99", "--to", "s3://rows/top")
    result = call(tmp_path, *arguments, "--json")
    assert json.loads(result.output) == {
        "schema": "spyre-ci/hud-rows/1",
        "job": {"workflow_id": 7, "workflow_run_attempt": 1, "job_id": 99},
        "files": {
            "s3://rows/top/test_run/7/1": 1,
            "s3://rows/top/test_run_summary/7/1": 1,
            "s3://rows/top/failed_test_runs/7/1": 0,
        },
    }
    put = bucket.get_object(Bucket="rows", Key="top/test_run/7/1")
    assert (put["ContentType"], put["ContentEncoding"]) == ("application/json", "gzip")
    assert json.loads(gzip.decompress(put["Body"].read()))["job_id"] == 99


def test_a_bucket_that_is_not_there_is_told_of(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    (tmp_path / "j.xml").write_text(JUNIT)
    result = call(tmp_path, str(tmp_path / "j.xml"), "--run-id", "7", "--to", "s3://nowhere")
    assert isinstance(result.exception, CommandError)
    assert result.exception.where == "s3://nowhere/test_run/7/1"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (["j.xml", "--to", "out"], UsageError, "is unknown"),
        (["gone.xml", "--run-id", "1", "--to", "out"], MissingInputError, "there is no JUnit file"),
        (["empty.xml", "--run-id", "1", "--to", "out"], BadFileError, "contains no test case"),
        (["cut.xml", "--run-id", "1", "--to", "out"], BadFileError, "is incomplete XML"),
        (["j.xml", "--run-id", "1", "--to", "s3://"], SettingsError, "names no bucket"),
        (["j.xml", "--run-id", "1", "--to", "gs://b"], SettingsError, "names no bucket"),
    ],
)
def test_what_cannot_be_made_into_rows_is_told_of_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: type[Exception], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("j.xml").write_text(JUNIT)
    Path("empty.xml").write_text("<testsuite/>")
    Path("cut.xml").write_text('<testsuite><testcase name="a"/>')
    result = call(tmp_path, *arguments)
    assert isinstance(result.exception, error)
    assert said in str(result.exception)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("option", "most"), [("--run-id", 2**53 - 1), ("--attempt", 2**32 - 1)], ids=["run", "attempt"]
)
def test_numbers_the_server_cannot_take_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, most: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("j.xml").write_text(JUNIT)
    for number, bound in ((0, 1), (most + 1, most), (99999999999999999999, most)):
        result = call(tmp_path, "j.xml", "--run-id", "1", option, str(number), "--to", "out")
        assert result.exit_code == 2
        assert option in result.output
        assert str(bound) in result.output
        assert not Path("out").exists()
    assert call(tmp_path, "j.xml", "--run-id", "1", option, str(most), "--to", "out").exit_code == 0
