"""What a pod is told, what it runs and ends with, and how what it leaves reaches a bucket."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ci.cli.app import run as cli
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_USAGE,
    BadFileError,
    MissingInputError,
    PlanMismatchError,
    SettingsError,
)
from ci.core.locks import run_lock
from ci.core.object_store import Bucket
from ci.jobs.plan_chunks import PodPlan, chunks_of, pack_plan, read_chunks, unpack_plan
from ci.jobs.pod import (
    LOCK_S,
    StillInUseError,
    command_of,
    environment_of,
    exit_code_of,
    only_cards_failed,
    place_of,
    refuse_another_image,
    wait_for_lock,
)
from ci.jobs.uploader import BYTES_A_SECOND, Uploader, look_s, main_alive, main_is_over, restore
from ci.record import events
from ci.record.journal import Journal, JournalWriter, journal_path
from ci.runner.retries import NO_OTHER_CARD
from test_selection.ci_jobs import CiJob
from test_selection.durations import Durations, read_durations, write_durations
from test_selection.files import read_json, write_json
from test_selection.plan import Group, Plan, Shard, fingerprint, read_plan, write_plan
from test_selection.selection import Expectation, Selection, read_selection, write_selection
from tests.fake_bucket import FakeBucket
from tests.journal_rows import Row, events_from

TOLD = {
    "JOB_COMPLETION_INDEX": "7", "SPYRE_CI_JOB_RUN": "a-run", "SPYRE_CI_JOB_INPUT": "/etc/spyre-ci/job",
    "SPYRE_CI_JOB_STORE": "/results/", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root",
}  # fmt: skip
OWN = PodPlan(run="a-run", shards=(0, 1, 5), cards=2, pods=9)


def test_a_pods_run_folder_is_in_the_volume_or_on_its_own_disk() -> None:
    scratch = Path("/scratch")
    assert place_of(TOLD).folder(scratch) == Path("/results/a-run/pods/7")
    bucket = TOLD | {"SPYRE_CI_JOB_STORE": "s3://bucket/some"}
    assert place_of(bucket).folder(scratch) == Path("/scratch/a-run/pods/7")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("JOB_COMPLETION_INDEX", "-1", "cannot be '-1'"), ("JOB_COMPLETION_INDEX", None, "is not set"),
        ("SPYRE_CI_JOB_RUN", "../x", "cannot be '../x'"), ("SPYRE_CI_JOB_STORE", " ", "cannot be ' '"),
    ],
)  # fmt: skip
def test_what_a_pod_must_know_is_asked_for(variable: str, value: str | None, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        place_of({name: one for name, one in {**TOLD, variable: value}.items() if one is not None})
    assert caught.value.where == variable


def test_a_pod_runs_its_shards_or_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, own = Path("/f"), ["--shard", "0-1,5", "--cards", "2"]
    monkeypatch.chdir(tmp_path)  # whatever Python packages lie there, as in a back end's checkout
    words = command_of(OWN, folder, resumes=False)
    assert words[1:] == ["-P", "-m", "ci.cli", "run", "--run-dir", "/f", *own]
    words = command_of(OWN, folder, resumes=True, source="/opt/pytorch")
    assert words[5:] == ["--resume", "/f", *own, "--pytorch-src", "/opt/pytorch"]


@pytest.mark.parametrize(("share", "claims"), [("", None), ("1", "/results/a-run/claims")])
def test_hud_hears_of_no_part_and_pods_that_share_claim_in_the_store(share: str, claims: str | None) -> None:
    environ = TOLD | {"SPYRE_CI_JOB_SHARE": share}
    found = environment_of(environ, place_of(environ))
    assert (found["HOME"], found["SPYRE_CI__REPORT__ENDPOINT"]) == ("/root", "none")
    assert found.get("SPYRE_CI__RUN__SHARE") == claims


@pytest.mark.parametrize(
    ("code", "interrupts", "ends_with"),
    [
        (0, [], 0), (1, [], 1), (2, [], 2), (3, [], 3), (70, [], 3), (-9, [], 3), (130, [], 3),
        (130, [signal.SIGTERM], 143), (130, [signal.SIGINT], 130), (-9, [signal.SIGTERM], 143),
        (1, [signal.SIGTERM], 1),
    ],
)  # fmt: skip
def test_what_a_pod_ends_with(code: int, interrupts: list[int], ends_with: int) -> None:
    assert exit_code_of(code, interrupts) == ends_with


SHARDS = tuple(
    Shard(
        index=index,
        expected_s=1.0,
        groups=(Group(file=f"{name}.py", ids=(f"{name}.py::1", f"{name}.py::2")),),
    )
    for index, name in enumerate("abcd")
)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=1.0, makespan_s=1.0, binds="balance", shards=SHARDS)
LEGS = (CiJob(shards=(0, 3), cards=2, expected_s=1), CiJob(shards=(1, 2), cards=2, expected_s=1))
EXPECTED = {"a.py::1": Expectation(mode="xfail", reason="known"), "c.py::2": Expectation(mode="skip")}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "the-run"
    write_plan(folder / "plan.json", PLAN)
    write_selection(
        folder / "selection.json", Selection(stage=2, percent=25, ids=PLAN.ids, expectations=EXPECTED)
    )
    ids = PLAN.ids
    write_durations(
        folder / "durations.json.gz",
        Durations(tests=dict.fromkeys(ids, 0.5), files={"a.py": 2.0, "c.py": 3.0}, spread={"a.py::1": 0.7}),
    )
    write_json(folder / "run.json", "run", {"run": "the-run", "run_id": 3})
    write_json(folder / "source.json", "source", {"where": None, "sha": "c0ffee"})
    return folder


def unpacked(run: Path, pod: int = 0, packed: bytes = b"") -> PodPlan:
    return unpack_plan(packed or pack_plan(run, LEGS), pod, run.parent / f"pod-{pod}", where="here")


def test_a_pod_has_the_plan_its_shards_the_outcomes_and_the_seconds(run: Path) -> None:
    assert pack_plan(run, LEGS) == pack_plan(run, LEGS)
    assert unpacked(run, 1) == PodPlan(run="the-run", shards=(1, 2), cards=2, pods=2)
    into = run.parent / "pod-1"
    assert read_plan(into / "plan.json") == PLAN
    selection = read_selection(into / "selection.json")
    assert (selection.stage, selection.percent, selection.ids) == (2, 25.0, PLAN.ids)
    assert selection.expectations == EXPECTED
    assert read_durations(into / "durations.json.gz") == read_durations(run / "durations.json.gz")
    # What the planner's own torch is, is nothing a pod has to be like.
    assert read_json(into / "run.json", "run") == read_json(run / "run.json", "run") | {"pytorch_version": ""}
    assert read_json(into / "source.json", "source") == read_json(run / "source.json", "source") | {"sha": ""}


def test_chunks_are_put_together_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.jobs.plan_chunks.CHUNK_BYTES", 100)
    packed = pack_plan(run, LEGS)
    chunks = chunks_of(packed)
    assert len(chunks) == -(-len(packed) // 100)
    for name, content in chunks.items():
        (run / name).write_bytes(content)
    assert read_chunks(run) == packed
    with pytest.raises(MissingInputError, match="there is no job plan"):
        read_chunks(run.parent)


def test_a_branch_is_handed_on_as_the_commit_it_was_planned_at(run: Path) -> None:
    sha, where = "c0ffee" + "0" * 34, "git+ssh://git@example.com/pytorch/pytorch"
    write_json(run / "source.json", "source", {"where": f"{where}@main", "sha": sha})
    unpacked(run)
    found = read_json(run.parent / "pod-0" / "source.json", "source")
    assert (found["where"], found["sha"]) == (f"{where}@{sha}", sha)


def test_a_bare_plan_with_its_identity_is_enough(run: Path) -> None:
    for name in ("selection.json", "durations.json.gz", "source.json"):
        (run / name).unlink()
    unpacked(run)
    assert not (run.parent / "pod-0" / "source.json").exists()
    assert read_selection(run.parent / "pod-0" / "selection.json").expectations == {}


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"schema": "other"}, "is not a spyre-ci/job-plan/1"), ({"pods": [[9], [1]]}, "cannot be used by pod 0"),
    ({"pods": [[]]}, "are not in its plan"), ({"pods": []}, "cannot be used by pod 0"),
    ({"run": 3}, "cannot be used"), ({"cards": None}, "cannot be used"),
    ({"selection": {}}, "of the wrong kind"),
    ({"durations": {"tests": [-1]}}, "cannot be used"), ({"plan": {"shards": []}}, "of the wrong kind"),
]  # fmt: skip
UNREADABLE = [b"no gzip", gzip.compress(b"no json", mtime=0), gzip.compress(b"{}" * 99, mtime=0)[:20]]


def test_a_plan_that_was_changed_cannot_be_read_or_is_too_large_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = json.loads(gzip.decompress(pack_plan(run, LEGS)))
    changed = [(gzip.compress(json.dumps(sound | more).encode()), said) for more, said in CHANGED]
    for packed, said in [*changed, *((data, "cannot be read") for data in UNREADABLE)]:
        with pytest.raises(BadFileError, match=said):
            unpacked(run, 0, packed)
    monkeypatch.setattr("ci.jobs.plan_chunks.MOST_BYTES", 100)
    with pytest.raises(BadFileError, match="is not a spyre-ci/job-plan/1 of at most"):
        unpacked(run)


@pytest.fixture
def bucket(run: Path) -> FakeBucket:
    return FakeBucket({"r/inputs/plan.json.gz": pack_plan(run, LEGS)})


@pytest.fixture
def folder(bucket: FakeBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's run folder as it was restored, whose uploader looks all the time."""
    monkeypatch.setattr("ci.jobs.uploader.LOOK_S", 0.01)
    monkeypatch.setattr("ci.core.interrupts.noted", lambda: contextlib.nullcontext([]))
    restore(cast("Bucket", bucket), "r", 0, tmp_path / "pod", print)
    bucket.put_names.clear()
    return tmp_path / "pod"


def uploader(bucket: FakeBucket, folder: Path, say: Callable[[str], object] = print) -> Uploader:
    return Uploader(bucket=cast("Bucket", bucket), below="r/pods/0", folder=folder, say=say)


def left(folder: Path, name: str, data: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def test_what_a_pod_leaves_is_uploaded_whole_as_it_grows(bucket: FakeBucket, folder: Path) -> None:
    names = {"run-settings.json", "journal/0-1.jsonl", "logs/pod-0-1.log", "control/journal/0-1.jsonl"}
    for name in names | {"not-ours.json"}:
        left(folder, name, b"one\n")
    # What a test may leave instead of a log: a pipe, and a link to a file of the uploader's container.
    os.mkfifo(folder / "logs" / "0-1.log")
    (folder / "logs" / "0-2.log").symlink_to(__file__)
    one = uploader(bucket, folder)
    for _ in range(2):
        assert one.upload()
        assert sorted(bucket.put_names) == sorted(f"r/pods/0/{name}" for name in names)
    left(folder, "journal/0-1.jsonl", b"one\ntwo\n")
    assert one.upload(final=True)
    assert bucket.held["r/pods/0/journal/0-1.jsonl"] == b"one\ntwo\n"


def test_a_large_file_waits_longer_until_the_end(bucket: FakeBucket, folder: Path) -> None:
    one = uploader(bucket, folder)
    for size, final, puts in ((0, False, 1), (1, False, 1), (1, True, 2)):
        left(folder, "journal/0-1.jsonl", bytes(BYTES_A_SECOND * 100 + size))
        one.upload(final=final)
        assert len(bucket.put_names) == puts


def test_an_uploader_ends_after_the_main_container_and_tells_what_is_not_there(
    bucket: FakeBucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    codes: list[int] = []
    one = uploader(bucket, folder, said.append)
    thread = threading.Thread(target=lambda: codes.append(one.run()))
    with main_alive(folder):
        thread.start()
        left(folder, "journal/0-1.jsonl", b"one\n")
        time.sleep(0.1)
        assert thread.is_alive()
        bucket.away = True
        left(folder, "journal/0-1.jsonl", b"one\ntwo\n")
        time.sleep(0.1)
        bucket.away = False
    thread.join(10)
    assert (codes, bucket.held["r/pods/0/journal/0-1.jsonl"]) == ([0], b"one\ntwo\n")
    assert "r/pods/0/whole" in bucket.held
    away, back = said
    assert (away.partition(":")[0], back) == (
        "cannot reach the store, retrying",
        "the store can be reached again",
    )
    monkeypatch.setattr("ci.jobs.uploader.FLUSH_S", 0.0)
    left(folder, "journal/0-1.jsonl", b"one\ntwo\nthree\n")
    bucket.away = True
    assert one.run() == 3
    assert said[-1].startswith("not everything was uploaded to the store")


def test_a_main_container_that_was_killed_is_over(tmp_path: Path) -> None:
    assert not main_is_over(tmp_path)
    with main_alive(tmp_path):
        assert not main_is_over(tmp_path, may_begin=False)
    assert main_is_over(tmp_path)


def test_a_main_container_that_died_before_it_began_holds_its_cards_for_no_more_than_some_minutes(
    bucket: FakeBucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.jobs.uploader.BEGIN_S", 0.05)
    assert uploader(bucket, folder).run() == 0


def test_a_pod_that_refuses_its_settings_ends_its_uploader_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (TOLD | {"SPYRE_CI_JOB_STORE": "s3://b", "SPYRE_CI__RUN__CARDS": "many"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert cli(["job", "pod", "--scratch", str(tmp_path)]) == EXIT_USAGE
    assert main_is_over(place_of(os.environ).folder(tmp_path))


@pytest.mark.parametrize(("there", "doubts"), [([], 0), (["begun"], 4), (["begun", "whole"], 0)])
def test_the_next_pod_of_an_index_has_what_earlier_ones_left_and_marks_what_is_in_doubt(
    bucket: FakeBucket, tmp_path: Path, there: list[str], doubts: int
) -> None:
    bucket.held |= {f"r/pods/0/{name}": b"" for name in there}
    bucket.held |= {"r/pods/0/journal/0-1.jsonl": b"", "r/pods/0/run-settings.json": b"{}", "r/pods/0/x": b""}
    said: list[str] = []
    own = restore(cast("Bucket", bucket), "r", 0, tmp_path / "pod", said.append)
    assert own.shards == (0, 3)
    for name in ("journal/0-1.jsonl", "run-settings.json", "plan.json"):
        assert (tmp_path / "pod" / name).is_file()
    assert not (tmp_path / "pod" / "x").exists()
    assert said == (
        [f"{doubts} tests may have run in an earlier pod that was lost before it reported"] if doubts else []
    )
    assert ("r/pods/0/begun" in bucket.held, "r/pods/0/whole" in bucket.held) == (True, False)


@pytest.mark.parametrize(("pods", "seconds"), [(1, 0.5), (256, 2.0), (2048, 5.0)])
def test_all_pods_together_look_so_often_a_second(pods: int, seconds: float) -> None:
    assert look_s(pods) == seconds


OLD, NEW = (f"registry.example.com/some@sha256:{letter * 64}" for letter in "ab")


def begun_in(folder: Path, image: str) -> None:
    with contextlib.closing(JournalWriter(journal_path(folder, 0, 1), lambda: 50.0)) as journal:
        journal.write(events.ShardStart(shard=0, attempt=1, fingerprint=PLAN.fingerprint, image=image))


def test_a_pod_does_not_go_on_with_what_was_begun_in_another_image(tmp_path: Path) -> None:
    begun_in(tmp_path, OLD)
    with pytest.raises(PlanMismatchError, match="was written in image ") as caught:
        refuse_another_image(tmp_path, NEW)
    assert "submit a new run" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (OLD, OLD),
        (OLD, OLD.replace("example.com", "example.com:5000")),
        ("", NEW),
        (OLD, ""),
        (OLD, "some:latest"),
    ],
)
def test_the_same_image_and_one_that_nobody_names_go_on(tmp_path: Path, before: str, now: str) -> None:
    refuse_another_image(tmp_path, now)
    begun_in(tmp_path, before)
    journal_path(tmp_path, 1, 1).write_bytes(b"torn")
    refuse_another_image(tmp_path, now)


CARD_SHARDS = (Shard(index=0, expected_s=1, groups=(Group(file="test_x.py", ids=("a", "b")),)),)
CARD_PLAN = Plan(
    fingerprint=fingerprint(CARD_SHARDS), bound_s=1, makespan_s=1, binds="balance", shards=CARD_SHARDS
)


def journal(*rows: tuple[str, str], number: int = 1) -> Journal:
    rows_: list[Row] = [
        {"e": "shard_start", "t": 0.0, "fingerprint": CARD_PLAN.fingerprint, "boot": f"boot {number}"}
    ]
    for name, outcome in rows:
        more = {"try": number} if number > 1 else {}
        rows_.append({"e": "start", "t": float(number), "id": name, **more})
        rows_.append({"e": "end", "t": float(number), "id": name, "outcome": outcome})
        if outcome == "hardware":
            rows_.append({"e": "no_retry", "ids": [name], "message": NO_OTHER_CARD})
    rows_.append({"e": "shard_end", "status": "done"})
    return Journal(path=Path(f"journal/0-{number}.jsonl"), shard=0, attempt=number, events=events_from(rows_))


BAD = journal(("a", "passed"), ("b", "hardware"))
AGAIN = journal(("b", "hardware"), number=2)


@pytest.mark.parametrize(
    ("journals", "ended"),
    [
        # Another node's card may do it.
        ([BAD], False),
        ([BAD, AGAIN], True),
        # It passed there, and says so of its first card for good.
        ([BAD, journal(("b", "passed"), number=2)], True),
        ([journal(("b", "hardware")), AGAIN], False),
        ([journal(("a", "passed"), ("b", "failed"))], False),
        ([], False),
    ],
)
def test_the_pod_ends_for_good_where_only_cards_failed(journals: list[Journal], ended: bool) -> None:
    assert only_cards_failed(CARD_PLAN, journals, 1) is ended


def test_without_second_tries_no_other_card_is_tried() -> None:
    assert only_cards_failed(CARD_PLAN, [BAD], 0)


@pytest.mark.parametrize("held", [False, True])
def test_a_lock_that_outlasts_its_pod_is_waited_for_and_then_the_next_pod_tries(
    tmp_path: Path, *, held: bool
) -> None:
    now = [0.0]
    with run_lock(tmp_path, alone=True) if held else contextlib.nullcontext():
        try:
            wait_for_lock(tmp_path, lambda: now[0], lambda _: now.__setitem__(0, now[0] + 60))
            error = None
        except StillInUseError as caught:
            error = caught
    if not held:
        assert (error, now) == (None, [0.0])
    else:
        assert error is not None
        assert error.exit_code == EXIT_INCOMPLETE
        assert error.what.startswith("another pod of this index still uses the folder")
        assert now[0] >= LOCK_S
