"""Which jobs a change runs, which stage, and what of it blocks."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.model import SettingsModel
from ci.core.errors import UsageError
from ci.pipeline.decide import CODE_JOBS, JOBS, PROGRAMS, Decision, decide, outputs_of
from ci.pipeline.diff import Touched
from ci.pipeline.event import Event

SETTINGS = "spyre-ci.yaml"
ALL, CODE = set(JOBS), {"lint", *CODE_JOBS, "device"}
CARDS = {"device", "pytorch"}


def request(*labels: str, fork: bool = False) -> Event:
    return Event(name="pull_request", labels=labels, fork=fork)


def decided(event: Event, *files: str, **content: Any) -> Decision:
    content = {"package": {"tests": {"emulated": True}}} | content
    change = Touched(files=files, why="compared with its base")
    return decide(event, change, SettingsModel.model_validate(content), never_docs=(SETTINGS,))


def running(decision: Decision) -> set[str]:
    return {name for name, one in decision.jobs.items() if one.runs}


ROWS: dict[str, tuple[Event, tuple[str, ...], dict[str, Any], set[str], int, tuple[str, str]]] = {
    "code": (request(), ("torch_spyre/ops.py",), {}, CODE, 1, ("unit", "torch_spyre/ops.py")),
    "no stage": (
        request(), ("a.py",), {}, CODE, 1,
        ("pytorch", "no stage is set for a pull_request, and no label requests one"),
    ),
    "not emulated": (
        request(), ("a.py",), {"package": {"tests": {"emulated": False}}}, CODE - {"emulated"}, 1,
        ("emulated", "package.tests.emulated is false"),
    ),
    "documents": (
        request(), ("docs/a/b.svg", "README.md", "deep/notes.md", "LICENSE"), {}, {"lint"}, 1,
        ("package", "only documents change (4)"),
    ),
    "settings are no document": (request(), (SETTINGS,), {"pipeline": {"docs": ["**"]}}, CODE, 1, ("", "")),
    "any other file may be": (request(), ("ci/a.c",), {"pipeline": {"docs": ["**"]}}, {"lint"}, 1, ("", "")),
    "a merge queue tests all that is merged": (
        Event(name="merge_group"), ("README.md",), {}, CODE, 1,
        ("unit", "a merge queue tests all that is merged"),
    ),
    "stage 5 runs on every pull request": (request(), ("a.py",), {"stage": 5}, ALL, 5, ("", "")),
    # Labels ask for PyTorch's tests, also where only documents change; for more and never for less.
    "a label": (request("ciflow/spyre"), ("README.md",), {}, {"lint", "pytorch"}, 1, ("", "")),
    "a label with a stage": (request("ciflow/spyre-stage-3"), ("a.py",), {}, ALL, 3, ("", "")),
    "the greatest of several": (
        request("docs", "ciflow/spyre", "ciflow/spyre-stage-2", "ciflow/spyre-stage-4"), ("a.py",), {},
        ALL, 4, ("", ""),
    ),
    **{
        f"no less: {label}": (
            request(label), ("a.py",), {"pipeline": {"pull_request_stage": 2}}, ALL, 2, ("", ""),
        )
        for label in ("ciflow/spyre-stage-0", "ciflow/spyre-stage-1", "ciflow/spyre")
    },
    **{
        f"no label: {label}": (request(label), ("a.py",), {}, CODE, 1, ("", ""))
        for label in (
            "ciflow/spyre-stage-", "ciflow/spyre-stage-x", "xciflow/spyre", "ciflow/spyre2",
            "ciflow/spyre-stage--1", "ciflow/spyre-stage-9",
        )
    },
    "a label of the settings": (
        request("run-it"), ("a.py",), {"pipeline": {"labels": ["run-it"]}}, ALL, 1, ("", ""),
    ),
    "none of the settings": (
        request("ciflow/spyre"), ("a.py",), {"pipeline": {"labels": []}}, CODE, 1, ("", ""),
    ),
    **{
        f"a stage of nothing: {event.name}": (event, ("a.py",), {"stage": 0}, CODE, 0, ("", ""))
        for event in (Event(name="schedule"), request("ciflow/spyre"), Event(name="push"))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_what_runs_and_why(name: str) -> None:
    event, files, content, jobs, stage, (job, why) = ROWS[name]
    found = decided(event, *files, **content)
    assert (running(found), found.stage) == (jobs, stage)
    assert not job or found.jobs[job].why == why


@pytest.mark.parametrize(
    "name",
    ["docs.py", "docs/conftest.py", "docs/build.sh", "LICENSE_x.py", "LICENSES/x.json", "src/README.md.py",
     "Docs/a.py", SETTINGS, "docs/spyre-ci.yaml", "a\nREADME.mdx", " docs/x"],
)  # fmt: skip
def test_one_file_that_is_no_document_is_enough(name: str) -> None:
    assert set(CODE_JOBS) < running(decided(request(), "README.md", name))


def test_what_is_not_known_runs_everything() -> None:
    found = decide(request(), Touched(files=None, why="this clone is shallow"), SettingsModel())
    assert {"unit", "package", "device"} < running(found)
    assert found.jobs["unit"].why == "what changed is not known: this clone is shallow"


def test_a_label_of_a_stage_there_is_not_is_told() -> None:
    found = decided(request("ciflow/spyre-stage-9"), "a.py")
    assert found.remarks == ["label ciflow/spyre-stage-9: there is no stage 9"]


def test_a_label_takes_back_nothing_that_has_to_be_green() -> None:
    required = {"pull_request_stage": 2}
    found = decided(request("ciflow/spyre-stage-5"), "a.py", pipeline=required)
    assert found.stage in {4, 5}
    assert found.blocking["pytorch"]
    assert decided(request("ciflow/spyre"), "a.py", pipeline=required).blocking["pytorch"]
    assert not decided(request("ciflow/spyre-stage-5"), "a.py").blocking["pytorch"]
    # Where only documents change, nothing was required.
    assert not decided(request("ciflow/spyre-stage-5"), "README.md", pipeline=required).blocking["pytorch"]


@pytest.mark.parametrize(
    ("stage", "blocking"),
    [(0, {"device": False}), (1, {"device": True}), (5, {"pytorch": False, "device": True})],
)
def test_device_tests_block_from_stage_one_on(stage: int, blocking: dict[str, bool]) -> None:
    found = decided(request(), "a.py", stage=stage).blocking
    assert {name: found[name] for name in blocking} == blocking


@pytest.mark.parametrize(
    ("name", "settings", "stage"),
    [
        ("pull_request", {"pull_request_stage": 2}, 2),
        ("merge_group", {"pull_request_stage": 2}, 2),
        ("merge_group", {"pull_request_stage": 2, "merge_group_stage": 3}, 3),
        ("push", {"push_stage": 4}, 4),
        ("merge_group", {"push_stage": 4}, None),
        ("push", {"pull_request_stage": 5, "push_stage": 0}, None),
        ("schedule", {}, 1),
        ("workflow_dispatch", {"push_stage": 4}, 1),
        ("repository_dispatch", {}, 1),
    ],
)
def test_each_event_has_its_stage(name: str, settings: dict[str, int], stage: int | None) -> None:
    found = decided(Event(name=name), "a.py", pipeline=settings)
    assert ("pytorch" in running(found)) == (stage is not None)
    assert stage is None or found.stage == stage


@pytest.mark.parametrize(
    ("forks", "labelled", "labels", "cards"),
    [
        ("run", "", (), CARDS),
        ("never", "", ("ciflow/spyre",), set()),
        ("never", "ciflow/spyre", ("ciflow/spyre",), set()),
        ("label", "", (), set()),
        ("label", "ciflow/spyre", ("ciflow/spyre",), CARDS),
        # Still there at the next push, or beside another that is set.
        ("label", "", ("ciflow/spyre",), set()),
        ("label", "documentation", ("ciflow/spyre", "documentation"), set()),
        ("label", "ciflow/spyre-stage-9", ("ciflow/spyre", "ciflow/spyre-stage-9"), set()),
    ],
)
def test_a_fork_reaches_cards_as_the_settings_say_and_by_a_label_for_the_commit_it_is_set_on(
    forks: str, labelled: str, labels: tuple[str, ...], cards: set[str]
) -> None:
    event = Event(name="pull_request", labels=labels, labelled=labelled, fork=True)
    found = decided(event, "a.py", pipeline={"forks": forks}, stage=5)
    assert running(found) & CARDS == cards
    if forks == "label" and not cards:
        assert found.jobs["device"].why.startswith("it comes from a fork, which gets no cards until a lab")
    assert "device" in running(decided(request(), "a.py", pipeline={"forks": forks}))


@pytest.mark.parametrize("content", [{"stage": 9}, {"pipeline": {"pull_request_stage": 9}}])
def test_a_stage_the_roll_out_does_not_have_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="there is no stage 9") as caught:
        decided(request(), "a.py", **content)
    assert "the stages are 0, 1, 2, 3, 4, 5" in str(caught.value)


def test_the_outputs_have_the_names_that_workflows_read() -> None:
    given = {"timeouts": {"lint": 7}, "runner": ["self-hosted", "x64"]}
    found = outputs_of(decided(request(), "README.md"), SettingsModel.model_validate({"pipeline": given}))
    assert list(found) == [
        *JOBS, "stage", "pytorch_blocking", "device_blocking", "timeouts", "runner", "device_runner",
        "environment", "device_tested",
    ]  # fmt: skip
    assert (found["lint"], found["unit"], found["stage"]) == (True, False, 1)
    assert (found["timeouts"]["lint"], found["runner"]) == (7, ["self-hosted", "x64"])
    assert ALL - {"pytorch"} < set(found["timeouts"])


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5))
def test_whatever_files_are_called_code_is_left_out_only_for_documents(names: list[str]) -> None:
    documents = all(
        name.startswith("docs/")
        and name.split("/")[-1] != SETTINGS
        and PurePosixPath(name).suffix not in PROGRAMS
        for name in names
    )
    assert ("unit" in running(decided(request(), *names, pipeline={"docs": ["docs/**"]}))) is not documents
