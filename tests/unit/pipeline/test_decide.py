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


def model(**content: Any) -> SettingsModel:
    return SettingsModel.model_validate(content)


def change(*files: str) -> Touched:
    return Touched(files=files, why="compared with its base")


def request(*labels: str, fork: bool = False) -> Event:
    return Event(name="pull_request", labels=labels, fork=fork)


def running(decision: Decision) -> set[str]:
    return {name for name, one in decision.jobs.items() if one.runs}


def decided(event: Event, files: Touched, **content: Any) -> Decision:
    content = {"package": {"tests": {"emulated": True}}} | content
    return decide(event, files, model(**content), never_docs=(SETTINGS,))


def test_a_pull_request_runs_all_but_pytorchs_tests() -> None:
    found = decided(request(), change("torch_spyre/ops.py"))
    assert running(found) == set(JOBS) - {"pytorch"}
    assert found.jobs["unit"].why == "torch_spyre/ops.py"
    assert found.jobs["pytorch"].why == "no stage for a pull_request, and no label asks for one"


def test_tests_on_the_emulated_device_are_for_who_asks_for_them() -> None:
    found = decided(request(), change("a.py"), package={"tests": {"emulated": False}})
    assert running(found) == set(JOBS) - {"pytorch", "emulated"}
    assert found.jobs["emulated"].why == "package.tests.emulated does not ask for them"


def test_only_documents_turn_the_tests_of_code_off() -> None:
    found = decided(request(), change("docs/a/b.svg", "README.md", "deep/notes.md", "LICENSE"))
    assert running(found) == {"lint"}
    assert found.jobs["package"].why == "only documents change (4)"


@pytest.mark.parametrize(
    "name",
    [
        "docs.py",
        "docs/conftest.py",
        "docs/build.sh",
        "LICENSE_x.py",
        "LICENSES/x.json",
        "src/README.md.py",
        "Docs/a.py",
        SETTINGS,
        "docs/spyre-ci.yaml",
        "a\nREADME.mdx",
        " docs/x",
    ],
)
def test_one_file_that_is_no_document_is_enough(name: str) -> None:
    assert set(CODE_JOBS) < running(decided(request(), change("README.md", name)))


def test_no_glob_makes_a_document_of_the_settings_it_stands_in() -> None:
    assert "unit" in running(decided(request(), change(SETTINGS), pipeline={"docs": ["**"]}))
    assert "unit" not in running(decided(request(), change("ci/a.c"), pipeline={"docs": ["**"]}))


def test_what_is_not_known_runs_everything() -> None:
    found = decided(request(), Touched(files=None, why="this clone is shallow"))
    assert running(found) == set(JOBS) - {"pytorch"}
    assert found.jobs["unit"].why == "what changed is not known: this clone is shallow"


@pytest.mark.parametrize(
    ("labels", "stage"),
    [
        (("ciflow/spyre",), 1),
        (("ciflow/spyre-stage-3",), 3),
        (("ciflow/spyre", "ciflow/spyre-stage-2"), 2),
        (("documentation", "ciflow/spyre-stage-2", "ciflow/spyre-stage-4"), 4),
    ],
)
def test_a_label_asks_for_pytorchs_tests(labels: tuple[str, ...], stage: int) -> None:
    found = decided(request(*labels), change("a.py"))
    assert "pytorch" in running(found)
    assert found.stage == stage


@pytest.mark.parametrize(
    "label",
    [
        "ciflow/spyre-stage-",
        "ciflow/spyre-stage-x",
        "xciflow/spyre",
        "ciflow/spyre2",
        "ciflow/spyre-stage--1",
    ],
)
def test_another_label_asks_for_nothing(label: str) -> None:
    found = decided(request(label), change("a.py"))
    assert "pytorch" not in running(found)
    assert found.stage == 1


def test_a_label_of_a_stage_there_is_not_is_told() -> None:
    found = decided(request("ciflow/spyre-stage-9"), change("a.py"))
    assert "pytorch" not in running(found)
    assert found.remarks == ["label ciflow/spyre-stage-9: there is no stage 9"]


def test_a_label_asks_even_where_only_documents_change() -> None:
    assert running(decided(request("ciflow/spyre"), change("README.md"))) == {"lint", "pytorch"}


@pytest.mark.parametrize("label", ["ciflow/spyre-stage-0", "ciflow/spyre-stage-1", "ciflow/spyre"])
def test_a_label_asks_for_more_and_never_for_less(label: str) -> None:
    found = decided(request(label), change("a.py"), pipeline={"pull_request_stage": 2})
    assert "pytorch" in running(found)
    assert found.stage == 2
    assert found.blocking["pytorch"]


def test_a_label_takes_back_nothing_that_has_to_be_green() -> None:
    required = {"pull_request_stage": 2}
    found = decided(request("ciflow/spyre-stage-5"), change("a.py"), pipeline=required)
    assert found.stage in {4, 5}
    assert found.blocking["pytorch"]
    alone = decided(request("ciflow/spyre-stage-5"), change("a.py"))
    assert not alone.blocking["pytorch"]
    # Where only documents change, nothing was required.
    documents = decided(request("ciflow/spyre-stage-5"), change("README.md"), pipeline=required)
    assert not documents.blocking["pytorch"]


def test_a_merge_queue_tests_all_that_is_merged() -> None:
    found = decided(Event(name="merge_group"), change("README.md"))
    assert set(CODE_JOBS) < running(found)
    assert found.jobs["unit"].why == "a merge queue tests all that is merged"


def test_labels_are_those_of_the_settings() -> None:
    assert "pytorch" in running(decided(request("run-it"), change("a.py"), pipeline={"labels": ["run-it"]}))
    assert "pytorch" not in running(decided(request("ciflow/spyre"), change("a.py"), pipeline={"labels": []}))


def test_stage_five_runs_on_every_pull_request_and_does_not_block() -> None:
    found = decided(request(), change("a.py"), stage=5)
    assert running(found) == set(JOBS)
    assert found.stage == 5
    assert found.blocking == {"pytorch": False, "device": True}


def test_device_tests_block_from_stage_one_on() -> None:
    assert decided(request(), change("a.py"), stage=0).blocking["device"] is False
    assert decided(request(), change("a.py"), stage=1).blocking["device"] is True
    assert "device" in running(decided(request(), change("a.py"), stage=0))


def test_a_stage_of_nothing_runs_no_pytorch_tests() -> None:
    for event in (Event(name="schedule"), request("ciflow/spyre"), Event(name="push")):
        assert "pytorch" not in running(decided(event, change("a.py"), stage=0))


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
    found = decided(Event(name=name), change("a.py"), pipeline=settings)
    assert ("pytorch" in running(found)) == (stage is not None)
    assert stage is None or found.stage == stage


def test_a_fork_reaches_cards_as_the_settings_say() -> None:
    def cards(forks: str, *labels: str) -> set[str]:
        found = decided(request(*labels, fork=True), change("a.py"), pipeline={"forks": forks}, stage=5)
        return running(found) & {"device", "pytorch"}

    assert cards("run") == {"device", "pytorch"}
    assert cards("label") == cards("never") == cards("never", "ciflow/spyre") == set()
    kept = decided(request(fork=True), change("a.py"), pipeline={"forks": "label"})
    assert kept.jobs["device"].why.startswith("it comes from a fork, which reaches no cards until a label")
    own = decided(request(), change("a.py"), pipeline={"forks": "never"})
    assert "device" in running(own)


def test_a_label_brings_a_fork_s_commit_to_cards_and_none_that_is_pushed_later() -> None:
    def cards(labelled: str, *labels: str, forks: str = "label") -> set[str]:
        event = Event(name="pull_request", labels=labels, labelled=labelled, fork=True)
        return running(decided(event, change("a.py"), pipeline={"forks": forks})) & {"device", "pytorch"}

    assert cards("ciflow/spyre", "ciflow/spyre") == {"device", "pytorch"}
    # Still there at the next push, or beside another that is set.
    assert cards("", "ciflow/spyre") == set()
    assert cards("documentation", "ciflow/spyre", "documentation") == set()
    assert cards("ciflow/spyre-stage-9", "ciflow/spyre", "ciflow/spyre-stage-9") == set()
    assert cards("ciflow/spyre", "ciflow/spyre", forks="never") == set()


@pytest.mark.parametrize("content", [{"stage": 9}, {"pipeline": {"pull_request_stage": 9}}])
def test_a_stage_the_roll_out_does_not_have_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="there is no stage 9") as caught:
        decided(request(), change("a.py"), **content)
    assert "the stages are 0, 1, 2, 3, 4, 5" in str(caught.value)


def test_the_outputs_have_the_names_that_workflows_read() -> None:
    settings = model(pipeline={"timeouts": {"lint": 7}, "runner": ["self-hosted", "x64"]})
    found = outputs_of(decide(request(), change("README.md"), settings), settings)
    assert list(found) == [
        *JOBS, "stage", "pytorch_blocking", "device_blocking", "timeouts", "runner", "device_runner",
        "environment", "device_tested",
    ]  # fmt: skip
    assert (found["lint"], found["unit"], found["stage"]) == (True, False, 1)
    assert found["timeouts"]["lint"] == 7
    assert set(JOBS) - {"pytorch"} < set(found["timeouts"])
    assert found["runner"] == ["self-hosted", "x64"]


NAMES = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5)


@given(NAMES)
def test_whatever_files_are_called_code_is_left_out_only_for_documents(names: list[str]) -> None:
    found = decided(request(), change(*names), pipeline={"docs": ["docs/**"]})
    documents = all(
        name.startswith("docs/")
        and name.split("/")[-1] != SETTINGS
        and PurePosixPath(name).suffix not in PROGRAMS
        for name in names
    )
    assert ("unit" in running(found)) is not documents
