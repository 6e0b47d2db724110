"""Pods of a job as they run: each with the plan, into a store that outlives it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from ci.jobs.uploader import CUT_OFF
from ci.record.events import ShardStart
from ci.record.journal_line import event_of, line_of
from ci.record.verdict import Verdict

from .pod_site import FILES, NAMES, RUN, STORED, WHOLE, Pod, Site, children_of, end, id_of, wait_for

# Each is several runs, in processes that are killed and begun again.
pytestmark = pytest.mark.nightly

NOT_RUN = (Verdict.NOT_RUN,) * 5


class Box:
    """A bucket with the plan of a run in it."""

    def __init__(self, tree: Path, url: str) -> None:
        self.name, key = f"results-{time.time_ns()}", "testing"
        self.client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=key,
        )
        self.client.create_bucket(Bucket=self.name)
        keys = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": key}
        keys |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": url}
        self.site = Site(tree, f"s3://{self.name}/jobs", **keys)
        plan = f"jobs/{STORED}/inputs/plan.json.gz"
        self.client.put_object(Bucket=self.name, Key=plan, Body=self.site.packed)


@pytest.fixture(params=["volume", "bucket"])
def site(tree: Path, request: pytest.FixtureRequest) -> Site:
    return Site(tree) if request.param == "volume" else Box(tree, request.getfixturevalue("endpoint")).site


def verdicts(site: Site, file: str) -> tuple[Verdict, ...]:
    found = site.results
    return tuple(found[id_of(file, name)].verdict for name in NAMES)


def end_all(site: Site, *pods: Pod) -> str:
    """Await pods, some of whose tests fail, and collect them; returns what all of them said."""
    said = []
    for code, out, err in [*(pod.end() for pod in pods), site.collect()]:
        assert (code, err) == (1, ""), out
        said.append(out)
    return "".join(said)


def waiting(site: Site, index: int, file: str, **environ: str) -> Pod:
    """A pod whose third test waits."""
    process = site.start_pod(index, **environ)
    wait_for(lambda: site.ran(file, "c_waits") > 0 or process.over)
    return process


def test_two_pods_give_what_the_plain_run_gives(site: Site) -> None:
    site.release()
    end_all(site, site.start_pod(0), site.start_pod(1))
    found = {name: (one.verdict, one.attempts) for name, one in site.results.items()}
    before = {path.name: path.read_bytes() for path in (site.run_dir / "journal").iterdir()}
    assert sorted(before) == ["0-1.jsonl", "1-1.jsonl", "2-1.jsonl"]
    assert all(site.ran(file, name) == 1 for file in FILES for name in NAMES[:4])
    assert " from pods, 0 new bytes" in end_all(site)
    assert {path.name: path.read_bytes() for path in (site.run_dir / "journal").iterdir()} == before
    assert found == site.plain()


def test_a_pod_that_is_killed_loses_the_running_test_and_the_next_of_its_index_goes_on(site: Site) -> None:
    process = waiting(site, 0, "One")
    time.sleep(2)  # the store of a job of two pods is at most half a second behind
    process.kill()
    code, out, _ = site.collect()
    assert code == 3
    assert verdicts(site, "One") == (*WHOLE[:2], Verdict.INFRASTRUCTURE, *NOT_RUN[:2])
    assert verdicts(site, "Two") == NOT_RUN
    assert "no journal for 2 shards" in out
    site.release()
    said = end_all(site, site.start_pod(0), site.start_pod(1))
    assert said.count("resuming an earlier pod's work") == 1
    assert [verdicts(site, file) for file in FILES] == [WHOLE] * 3
    found = site.results
    assert site.ran("One", "a_passes") == 1
    assert site.ran("One", "c_waits") == 2
    assert found[id_of("One", "c_waits")].attempts == 2
    # What a volume has is all there was; of a bucket's last second nobody knows.
    doubted = {name for name in NAMES if CUT_OFF in found[id_of("One", name)].message}
    assert doubted == ({"d_passes", "e_skips"} if site.store.startswith("s3://") else set())
    assert not list((site.run_dir / "journal").glob("*-0.jsonl"))


def test_a_test_that_takes_its_pod_down_costs_no_other_its_turn(site: Site) -> None:
    process = waiting(site, 1, "Two")
    time.sleep(2)
    process.kill()
    # As if it took the second down as well; all others have run by then.
    process = site.start_pod(1)
    wait_for(lambda: site.ran("Two", "c_waits") > 1 or process.over)
    assert site.ran("Two", "d_passes") == 1
    time.sleep(2)
    process.kill()
    code, out, err = site.pod(1)
    assert (code, err) == (1, ""), out
    assert "1 test not run again: each crashed 2 pods" in out
    assert site.collect()[0] == 3  # of the other index nothing ran
    found = site.results
    assert verdicts(site, "Two") == (*WHOLE[:2], Verdict.FAILED, *WHOLE[3:])
    assert site.ran("Two", "c_waits") == 2
    assert "its container ended with all its processes 2 times" in found[id_of("Two", "c_waits")].message


def test_a_pod_whose_bucket_was_away_until_it_was_lost_is_not_forgotten(tree: Path, endpoint: str) -> None:
    box = Box(tree, endpoint)
    site, client, bucket = box.site, box.client, box.name
    process = waiting(site, 1, "Two")
    process.kill()
    below = f"jobs/{STORED}/pods/1/"
    held = [row["Key"] for row in client.list_objects_v2(Bucket=bucket, Prefix=below)["Contents"]]
    assert f"{below}begun" in held
    for key in held:
        if key != f"{below}begun":
            client.delete_object(Bucket=bucket, Key=key)
    site.release()
    end_all(site, site.start_pod(0), site.start_pod(1))
    doubted = {name for name, one in site.results.items() if CUT_OFF in one.message}
    assert doubted == {id_of("Two", name) for name in NAMES}
    assert "before its results reached the store" in CUT_OFF


def test_a_pod_that_is_evicted_writes_its_account(site: Site) -> None:
    process = waiting(site, 0, "One")
    for one in filter(None, (process.uploader, process.main)):
        one.send_signal(signal.SIGTERM)
    code, out, err = process.end()
    assert (code, err) == (128 + signal.SIGTERM, ""), out
    assert site.collect()[0] == 130
    found = site.results
    assert verdicts(site, "One") == (*WHOLE[:2], *NOT_RUN[:3])
    assert "interrupted" in found[id_of("One", "c_waits")].message
    site.release()
    end_all(site, site.start_pod(0), site.start_pod(1))
    # Its every line was in the store before it went, so nothing is in doubt.
    assert not [one for one in site.results.values() if "may have run before" in one.message]


def test_a_pod_that_is_the_first_process_of_its_container_hears_of_its_end(tree: Path) -> None:
    alone = ("unshare", "--pid", "--fork", "--mount-proc")
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("a process namespace of its own is not to be had")
    site = Site(tree, device="spyre")
    site.prefix = alone
    process = waiting(site, 1, "Two")
    first = next(pid for pid in children_of(process.main.pid) if is_first(pid))
    os.kill(first, signal.SIGTERM)
    code, out, err = process.end()
    assert (code, err) == (128 + signal.SIGTERM, ""), out
    assert '"status":"interrupted"' in (process.folder / "journal" / "1-1.jsonl").read_text()


def is_first(pid: int) -> bool:
    said = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return any(line.startswith("NSpid:") and line.split()[1:][1:] == ["1"] for line in said.splitlines())


def test_a_pod_that_never_came_is_told_of_until_it_comes(site: Site) -> None:
    site.release()
    assert site.pod(1)[0] == 1
    code, out, _ = site.collect()
    assert code == 3
    for file in ("One", "Three"):
        assert verdicts(site, file) == NOT_RUN
        told = [site.results[id_of(file, name)].message for name in NAMES]
        assert all("no journal of its pod was collected" in one for one in told)
    assert "no journal for 2 shards" in out
    end_all(site, site.start_pod(0))
    assert {name: (one.verdict, one.attempts) for name, one in site.results.items()} == site.plain()


def test_a_fault_of_a_card_is_tried_on_another_nodes_and_holds_no_more_pods_than_that(tree: Path) -> None:
    # As many are emulated as the plugin gave.
    given = {"PCIDEVICE_IBM_COM_SPYRE_PF": "0000:1a:00.0", "SPYRE_CI__RUN__RETRIES": "1"}
    site = Site(tree, device="spyre", **given)
    path = tree / "test" / "test_two.py"
    event = '{"name":"RAS::PCI::BusFence","severity":"ERROR"}'
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace('self.fail("as it should")', f"raise RuntimeError({event!r})"), encoding="utf-8"
    )
    site.release()
    code, out, err = site.pod(1)
    assert (code, err) == (3, ""), out
    assert "no other pod is needed" not in out
    for journal in (Path(site.store) / STORED / "pods" / "1" / "journal").iterdir():
        events = [
            found for line in journal.read_bytes().splitlines(keepends=True) if (found := event_of(line))
        ]
        for found in events:
            if isinstance(found, ShardStart):
                found.boot = "another"
        journal.write_bytes(b"".join(map(line_of, events)))
    code, out, err = site.pod(1, SPYRE_CI__RUN__LEASES=str(site.home / "another-node"))
    assert (code, err) == (1, ""), out
    assert "1 failed test still to be retried" in out
    assert "no other pod is needed: nothing is left to run; what is missing is due to failed cards" in out
    assert site.ran("Two", "b_fails") == 2
    assert site.collect()[0] == 3
    assert site.results[id_of("Two", "b_fails")].verdict is Verdict.HARDWARE


def test_pods_that_share_take_over_from_each_other(tree: Path) -> None:
    site = Site(tree, device="spyre")
    share = {"SPYRE_CI_JOB_SHARE": "1"}
    # The first has two shards and one card, and waits in the first of them.
    process = waiting(site, 0, "One", **share)
    other = site.start_pod(1, **share)
    wait_for(lambda: site.ran("Three", "c_waits") + site.ran("Two", "c_waits") > 0 or other.over)
    site.release()
    out = end_all(site, process, other)
    assert [verdicts(site, file) for file in FILES] == [WHOLE] * 3
    assert {site.ran(file, name) for file in FILES for name in NAMES[:4]} == {1}
    assert "other hosts" not in out


def test_a_bucket_that_goes_away_costs_the_run_nothing_and_is_told_of(tree: Path) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    site = Box(tree, f"http://{host}:{port}").site
    process = waiting(site, 1, "Two")
    server.stop()
    site.release()
    code, out, err = process.end()
    assert (code, err) == (3, ""), out
    assert "not everything was uploaded to the store" in out
    assert {site.ran("Two", name) for name in NAMES[:4]} == {1}
    # A store that is away from the beginning is for the next pod of the index.
    code, out, err = site.pod(1)
    assert code == 3
    assert "the bucket cannot be reached" in err


def test_what_cannot_be_collected_is_told_of(tree: Path) -> None:
    site = Site(tree)
    code, _, err = end(site.start("job", "collect", RUN))
    assert code == 2
    assert "where the pods put their results is not recorded" in err
    code, _, err = site.collect()
    assert code == 2
    assert f"no results of the pods of {RUN}" in err
    code, _, err = end(site.start("job", "pod"))
    assert code == 2
    assert "SPYRE_CI_JOB_STORE: is not set" in err
