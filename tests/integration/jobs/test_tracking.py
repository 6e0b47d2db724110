"""A job's run in MLflow, whose server is away, fails in the middle, or is there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.jobs.tracking import Tracker
from tests.mlflow_api import MlflowApi
from tests.tracked import SECRET, SPEC, Tracked, bounded, check_told_from_begin_to_end, job_of, told

VERDICTS = {"failed": 1}
# Without files of the job's own.
ONLY = {"tracking": {"experiment": "granite/nightly"}}


def begun_and_ended(tracked: Tracked, store: object = None, **more: Any) -> None:
    tracked.tracker.begin(job_of(**more), "eval.yaml", SPEC)
    tracked.tracker.end("FINISHED", VERDICTS, None if store is None else str(store))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowApi]:
    with MlflowApi() as server:
        bounded(monkeypatch, server.url)
        yield server


def test_a_job_is_told_from_its_begin_to_its_end_and_once(tmp_path: Path, api: MlflowApi) -> None:
    check_told_from_begin_to_end(api.url, tmp_path)
    assert len(api.runs) == 1


def test_what_was_told_is_not_told_again(tmp_path: Path, api: MlflowApi) -> None:
    tracked = Tracked(tmp_path)
    begun_and_ended(tracked, **ONLY)
    asked = len(api.seen)
    begun_and_ended(tracked, **ONLY)
    assert not tracked.tracker.tell_rest(None)
    assert (len(api.seen), tracked.lines) == (asked, [])


def test_a_job_that_tracks_nothing_tells_nobody(tmp_path: Path, api: MlflowApi) -> None:
    tracked = Tracked(tmp_path)
    begun_and_ended(tracked, tracking=None)
    assert (api.seen, tracked.lines, list(tmp_path.iterdir())) == ([], [], [])


def test_a_server_that_is_away_fails_no_job_and_is_told_later(
    tmp_path: Path, api: MlflowApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = Tracked(tmp_path / "run")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://mary:{SECRET}@127.0.0.1:9")
    tracked.tracker.begin(job_of(**ONLY), "eval.yaml", SPEC)
    tracked.tracker.end("FAILED", VERDICTS, None)
    assert len(tracked.lines) == 2
    for line in tracked.lines:
        assert line.startswith("the job was not reported to MLflow: ")
        assert line.endswith(
            f"; the report is kept in {tmp_path}/run/tracking and sent by the next `spyre-ci job collect`"
        )
        assert "127.0.0.1" in line
        assert SECRET not in line
        assert "mary" not in line
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", api.url)
    tracked.tracker.end("FAILED", VERDICTS, None)
    run, files = told(api.url, tmp_path / "told")
    assert (run.info.status, run.info.start_time) == ("FAILED", 1_800_000_000_000)
    assert run.data.metrics == {"verdict.failed": 1.0, "seconds": 1.0}
    assert "job/spec.yaml" in files
    assert len(tracked.lines) == 2


@pytest.mark.parametrize(
    "at", ["runs/search", "runs/create", "log-batch", "artifacts/job/spec", "runs/update"]
)
def test_a_server_that_fails_in_the_middle_is_told_the_rest_and_has_one_run(
    tmp_path: Path, api: MlflowApi, at: str
) -> None:
    tracked = Tracked(tmp_path / "run")
    api.fail(at)
    begun_and_ended(tracked, **ONLY)
    assert tracked.lines[0].startswith("the job was not reported to MLflow: ")
    tracked.tracker.end("FINISHED", VERDICTS, None)
    run, files = told(api.url, tmp_path / "told")
    assert (run.info.status, len(tracked.lines), len(api.runs)) == ("FINISHED", 1, 1)
    assert len(files) == 2


@pytest.mark.parametrize("uri", ["", "mlruns", "file:///tmp/mlruns", "sqlite:///mlflow.db"])
def test_an_address_that_is_no_server_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    bounded(monkeypatch, uri)
    tracked = Tracked(tmp_path)
    tracked.tracker.begin(job_of(), "eval.yaml", SPEC)
    assert "MLFLOW_TRACKING_URI is not an address" in tracked.lines[0]


@pytest.mark.usefixtures("api")
def test_without_mlflow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    tracked = Tracked(tmp_path)
    tracked.tracker.begin(job_of(), "eval.yaml", SPEC)
    assert "tracking needs a library that is not installed: mlflow" in tracked.lines[0]
    assert "spyre-ci[mlflow]" in tracked.lines[0]


def test_an_output_that_leads_out_of_the_store_is_not_logged(tmp_path: Path, api: MlflowApi) -> None:
    (tmp_path / "secret").write_text(SECRET)
    output = tmp_path / "store" / job_of().run / "output"
    output.mkdir(parents=True)
    (output / "scores").symlink_to(tmp_path / "secret")
    tracked = Tracked(tmp_path / "run")
    begun_and_ended(tracked, tmp_path / "store")
    assert "'scores' is not a file of this folder" in tracked.lines[0]
    run, files = told(api.url, tmp_path / "told")
    # How it ended is told all the same.
    assert run.info.status == "FINISHED"
    assert SECRET.encode() not in files.values()


def test_the_output_of_a_store_that_is_a_bucket_is_logged(tmp_path: Path, api: MlflowApi, store: Any) -> None:
    store.put_object(Bucket="box", Key=f"jobs/{job_of().run}/output/a/b", Body=b"scores")
    tracked = Tracked(tmp_path / "run")
    begun_and_ended(tracked, "s3://box/jobs/")
    assert tracked.lines == []
    _, files = told(api.url, tmp_path / "told")
    assert files["output/a/b"] == b"scores"
    assert ".spyre-ci-fetch" not in "".join(files)
    assert {path.name for path in (tmp_path / "run" / "tracking").iterdir()} == {"job", "state.json"}


def test_an_account_that_was_damaged_fails_no_job(tmp_path: Path, api: MlflowApi) -> None:
    tracked = Tracked(tmp_path)
    (tmp_path / "tracking").mkdir()
    for content in ("{", "[]", json.dumps({"schema": "spyre-ci/tracking/1", "other": 1})):
        (tmp_path / "tracking" / "state.json").write_text(content)
        tracked.tracker.end("FINISHED", VERDICTS, None)
    assert len(tracked.lines) == 3
    assert api.seen == []


def test_the_client_is_bounded_and_silent_where_nobody_set_how(
    tmp_path: Path, api: MlflowApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_RETRIES", "TIMEOUT", "BACKOFF_FACTOR"):
        monkeypatch.delenv(f"MLFLOW_HTTP_REQUEST_{name}")
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY")
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT")
    Tracked(tmp_path).tracker.begin(job_of(), "eval.yaml", SPEC)
    set_now = {name: value for name, value in os.environ.items() if name.startswith("MLFLOW_")}
    assert set_now["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "20"
    assert set_now["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "2"
    assert set_now["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert len(api.runs) == 1


def test_an_interrupt_is_not_swallowed(tmp_path: Path) -> None:
    def interrupted() -> float:
        raise KeyboardInterrupt

    tracker = Tracker(folder=tmp_path, environ={}, clock=interrupted, warn=print)
    with pytest.raises(KeyboardInterrupt):
        tracker.begin(job_of(), "eval.yaml", SPEC)
