"""The example that trains continuously, on this machine: a lane, three jobs on a real engine, a bucket."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
import yaml
from mlflow.tracking import MlflowClient

from tests.s3_server import s3_server

ROOT = Path(__file__).parent.parent.parent
WORDS = ["the", "card", "runs", "a", "test", "and", "tells", "the", "page", "what", "broke", "why"]
KEYS = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_DEFAULT_REGION": "us-east-1"}


def samples(path: Path, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  # words are no secret
    rows = [{"text": " ".join(rng.choices(WORDS, k=8)), "other": number} for number in range(600)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def settings(folder: Path, volume: Path) -> None:
    """The example's lane with its steps on this machine."""
    text = yaml.safe_load((ROOT / "examples" / "lanes-training.yaml").read_text(encoding="utf-8"))
    lane = text["lanes"]["training"]
    lane["run"]["command"] += ["--local", "--network", "host", "--store", str(volume)]
    lane["secrets"] = sorted([*KEYS, "MLFLOW_TRACKING_URI"])
    lane["retries"] = {"most": 0}
    (folder / "spyre-ci.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")


@pytest.mark.nightly
def test_data_training_and_evaluation_run_one_after_another_and_again(
    op_suite_image: str, mlflow_server: str, tmp_path: Path
) -> None:
    volume, steps = tmp_path / "volume", tmp_path / "training"
    (volume / "samples").mkdir(parents=True)
    for number in range(2):
        samples(volume / "samples" / f"{number}.jsonl", number)
    shutil.copytree(ROOT / "examples" / "training", steps)
    with s3_server() as address:
        for spec in steps.glob("*.yaml"):
            text = spec.read_text(encoding="utf-8")
            text = text.replace("registry.example.com/spyre/training:2.13", op_suite_image)
            text = text.replace("https://mlflow.example.com", mlflow_server)
            spec.write_text(text.replace("https://s3.example.com", address), encoding="utf-8")
        settings(tmp_path, volume)
        bucket = boto3.client(
            "s3",
            endpoint_url=address,
            aws_access_key_id="user",
            aws_secret_access_key="hush-hush",
            region_name="us-east-1",
        )
        for name in ("models", "datasets"):
            bucket.create_bucket(Bucket=name)
        bucket.put_object(Bucket="models", Key="base/README", Body=b"no model yet")
        program = tmp_path / "bin" / "spyre-ci"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ci.cli "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        environ = {
            **os.environ,
            **KEYS,
            "MLFLOW_TRACKING_URI": mlflow_server,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
        }
        said = []
        for _ in range(2):
            call = [str(program), "lanes", "run", "--once", "--lane", "training", "--now"]
            done = subprocess.run(
                call, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=1200
            )
            logs = sorted((tmp_path / ".spyre-ci" / "lanes" / "training").glob("*/output.log"))
            said.append(logs[-1].read_text(encoding="utf-8"))
            assert done.returncode == 0, done.stdout + done.stderr + said[-1][-3000:]
        keys = {one["Key"] for one in bucket.list_objects_v2(Bucket="datasets")["Contents"]}
    assert {"dialogues/test.jsonl", "dialogues/train-00000.jsonl"} <= keys
    assert ["begins anew" in said[0], "goes on from /results/model" in said[1]] == [True, True]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in volume.rglob("metrics.json")]
    first, second = sorted((one["perplexity"] for one in found), reverse=True)
    assert second < first < 256, "it learns, and goes on learning"
    runs = MlflowClient(mlflow_server).search_runs(["1"], order_by=["attributes.start_time"])
    assert [run.data.tags["spyre-ci.job"].split("-")[0] for run in runs] == 2 * ["train", "evaluation"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert "hush-hush" not in "".join(said)
    print(said[1])  # noqa: T201  # what people are to see of it
