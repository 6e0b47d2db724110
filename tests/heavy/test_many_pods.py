"""2,048 pods with 200,000 results: collected and reported in bounded memory, each result by its id."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ci.jobs.plan_chunks import chunks_of, pack_plan
from ci.jobs.render import render
from ci.report.results import read_results, read_summary
from test_selection.ci_jobs import CiJob
from tests.benchmarks.bench_jobs import collect
from tests.job_specs import job_of, spec_of
from tests.manifests import RELEASES, broken_rules, check_strictly
from tests.many_pods import RUN, STORED, ManyPods, make_folder, make_plan, make_store
from tests.s3_server import s3_server

PODS, TESTS = 2048, 200_000
MOST_MIB = 350
# It takes 17 s of a CPU; a machine that is busy takes longer.
MOST_S = 300
MOST_CPU_S = 40


def check(folder: Path, made: ManyPods) -> None:
    """Every planned test has the verdict its journal gives it, once (law 1)."""
    found = {one.id: one.verdict.value for one in read_results(folder / "results.jsonl.gz")}
    assert found == made.verdicts
    summary = read_summary(folder / "summary.json")
    assert {verdict: count for verdict, count in summary.verdicts.items() if count} == Counter(made.counts)
    assert summary.planned == len(made.verdicts)


def test_2048_pods_with_200000_results_are_collected_in_350_mebibytes(tmp_path: Path) -> None:
    plan = make_plan(PODS, TESTS)
    folder = tmp_path / "runs" / RUN
    make_folder(folder, plan)
    made = make_store(tmp_path / "store", plan)
    assert len(made.absent) > 1
    assert {"passed", "failed", "skipped", "xfailed", "infrastructure", "not_run"} == set(made.counts)
    took = collect(tmp_path / "runs", str(tmp_path / "store"), tmp_path / "out.json")
    print(took["seconds"], took["cpu_s"], took["mib"])  # noqa: T201  # for whoever runs it with -s
    assert took["code"] == 3
    check(folder, made)
    assert took["mib"] < MOST_MIB
    assert took["cpu_s"] < MOST_CPU_S
    assert took["seconds"] < MOST_S


def test_the_plan_of_200000_tests_on_2048_pods_is_a_few_objects_below_the_limits(tmp_path: Path) -> None:
    plan = make_plan(2048, 200_000)
    make_folder(tmp_path / RUN, plan)
    legs = [CiJob(shards=(one.index,), cards=1, expected_s=1) for one in plan.shards]
    packed = pack_plan(tmp_path / RUN, legs)
    assert pack_plan(tmp_path / RUN, legs) == packed
    manifests = render(job_of(spec_of("tests"), pods=2048, files=chunks_of(packed)))
    check_strictly(manifests, [RELEASES[0], RELEASES[-1]])
    assert broken_rules(manifests) == []
    sizes = [len(json.dumps(one)) for one in manifests]
    print(f"{len(packed):,} bytes packed; objects of {sizes} bytes")  # noqa: T201  # for whoever runs it with -s
    assert [one["kind"] for one in manifests] == [*["ConfigMap"] * (len(sizes) - 1), "Job"]
    assert len(sizes) <= 5
    # What etcd takes of one request.
    assert max(sizes) < 1.5 * (1 << 20)
    assert sizes[-1] < 10_000


def test_pods_of_a_bucket_are_collected_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3")
    plan = make_plan(200, 6_000)
    folder = tmp_path / "runs" / RUN
    make_folder(folder, plan)
    made = make_store(tmp_path / "store", plan, seed=6)
    with s3_server() as address:
        keys = {
            "AWS_ENDPOINT_URL_S3": address, "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        }  # fmt: skip
        for variable, value in keys.items():
            monkeypatch.setenv(variable, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="results")
        for path in sorted((tmp_path / "store").glob(f"{STORED}/pods/*/journal/*")):
            name = path.relative_to(tmp_path / "store")
            client.put_object(Bucket="results", Key=f"some/{name}", Body=path.read_bytes())
        took = collect(tmp_path / "runs", "s3://results/some", tmp_path / "out.json")
        assert took["code"] == 3
        check(folder, made)
