"""A pod's slice holds what the pod has to know, and what was changed or is another's is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError, MissingInputError
from ci.jobs.slices import Opened, make_slices, open_slice, slice_name
from test_selection.ci_jobs import CiJob
from test_selection.durations import Durations, read_durations, write_durations
from test_selection.files import read_json, write_json
from test_selection.plan import Group, Plan, Shard, fingerprint, read_plan, write_plan
from test_selection.selection import Expectation, Selection, read_selection, write_selection

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


@pytest.fixture
def inputs(run: Path) -> Path:
    folder = run.parent / "inputs"
    folder.mkdir()
    for name, data in make_slices(run, LEGS).items():
        (folder / name).write_bytes(data)
    return folder


def test_slices_are_named_by_pod_and_the_same_run_gives_the_same_bytes(run: Path) -> None:
    made = make_slices(run, LEGS)
    assert list(made) == ["slice-0000.json.gz", "slice-0001.json.gz"]
    assert make_slices(run, LEGS) == made


def test_a_pod_has_its_shards_its_outcomes_and_its_seconds_and_no_more(run: Path, inputs: Path) -> None:
    into = run.parent / "pod"
    opened = open_slice(inputs, 0, into, share=False)
    assert opened == Opened(run="the-run", shards=(0, 3), cards=2, pods=2)
    plan = read_plan(into / "plan.json")
    assert plan.fingerprint == PLAN.fingerprint
    assert [shard.index for shard in plan.shards if shard.groups] == [0, 3]
    selection = read_selection(into / "selection.json")
    assert (selection.stage, selection.percent, selection.ids) == (2, 25.0, plan.ids)
    assert selection.expectations == {"a.py::1": EXPECTED["a.py::1"]}
    durations = read_durations(into / "durations.json.gz")
    assert set(durations.tests) == set(plan.ids)
    assert (durations.files, durations.spread) == ({"a.py": 2.0}, {"a.py::1": 0.7})
    # What the planner's own torch is, is nothing a pod has to be like.
    assert read_json(into / "run.json", "run") == read_json(run / "run.json", "run") | {"pytorch_version": ""}
    assert read_json(into / "source.json", "source") == read_json(run / "source.json", "source") | {"sha": ""}


def test_pods_that_share_have_the_whole_plan(run: Path, inputs: Path) -> None:
    into = run.parent / "pod"
    opened = open_slice(inputs, 1, into, share=True)
    assert opened == Opened(run="the-run", shards=(1, 2), cards=2, pods=2)
    assert read_plan(into / "plan.json") == PLAN
    assert read_selection(into / "selection.json").expectations == EXPECTED
    assert read_durations(into / "durations.json.gz") == read_durations(run / "durations.json.gz")


def test_a_branch_is_handed_on_as_the_commit_it_was_planned_at(run: Path) -> None:
    sha = "c0ffee" + "0" * 34
    where = "git+ssh://git@example.com/pytorch/pytorch"
    write_json(run / "source.json", "source", {"where": f"{where}@main", "sha": sha})
    (run / "in").mkdir()
    for name, data in make_slices(run, LEGS).items():
        (run / "in" / name).write_bytes(data)
    open_slice(run / "in", 0, run / "pod", share=False)
    found = read_json(run / "pod" / "source.json", "source")
    assert (found["where"], found["sha"]) == (f"{where}@{sha}", sha)
    # Where the job's environment names the image's own tree, that is what is held on to.
    open_slice(run / "in", 0, run / "told", share=False, source="/opt/pytorch")
    found = read_json(run / "told" / "source.json", "source")
    assert (found["where"], found["sha"]) == ("/opt/pytorch", "")


def test_a_bare_plan_with_its_identity_is_enough(run: Path) -> None:
    for name in ("selection.json", "durations.json.gz", "source.json"):
        (run / name).unlink()
    (run / "in").mkdir()
    for name, data in make_slices(run, LEGS).items():
        (run / "in" / name).write_bytes(data)
    open_slice(run / "in", 0, run / "pod", share=False)
    assert not (run / "pod" / "source.json").exists()
    assert read_selection(run / "pod" / "selection.json").expectations == {}


def test_a_slice_that_is_not_there_is_told_of(inputs: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no slice for pod 7"):
        open_slice(inputs, 7, inputs / "pod", share=False)


def change(inputs: Path, **more: Any) -> None:
    path = inputs / slice_name(0)
    content = json.loads(gzip.decompress(path.read_bytes())) | more
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"pod": 1}, "is of pod 1, not of pod 0"), ({"pods": "2"}, "is of pod 0"),
        ({"schema": "other"}, "is no spyre-ci/job-slice/1"), ({"shards": [1]}, "are not in its plan"),
        ({"shards": []}, "are not in its plan"), ({"shards": "x"}, "of the wrong kind"),
        ({"run": 3}, "of the wrong kind"), ({"cards": None}, "of the wrong kind"),
        ({"selection": {}}, "of the wrong kind"), ({"durations": {"tests": {"a.py::1": -1}}}, "wrong kind"),
        ({"plan": {"shards": []}}, "of the wrong kind"),
    ],
)  # fmt: skip
def test_a_slice_that_was_changed_is_refused(inputs: Path, more: dict[str, Any], said: str) -> None:
    change(inputs, **more)
    with pytest.raises(BadFileError, match=said):
        open_slice(inputs, 0, inputs / "pod", share=False)


@pytest.mark.parametrize(
    "data",
    [b"no gzip", gzip.compress(b"no json", mtime=0), gzip.compress(b"{}" * 99, mtime=0)[:20]],
    ids=["no gzip", "no json", "cut"],
)
def test_a_slice_that_cannot_be_read_is_told_of(inputs: Path, data: bytes) -> None:
    (inputs / slice_name(0)).write_bytes(data)
    with pytest.raises(BadFileError, match="cannot be read"):
        open_slice(inputs, 0, inputs / "pod", share=False)


def test_what_unpacks_to_more_than_a_job_is_refused(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.jobs.slices.MOST_BYTES", 100)
    with pytest.raises(BadFileError, match="is no spyre-ci/job-slice/1 of at most"):
        open_slice(inputs, 0, inputs / "pod", share=False)
