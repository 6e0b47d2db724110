from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.pipeline.github_runs import Artifact, Run, run_of
from ci.pipeline.reuse import (
    Group,
    Wanted,
    _token,
    doubt,
    doubt_of_parts,
    group_of,
    own_doubt,
    workflow_file,
)
from ci.report.reused import Reused, read_reused, write_reused

HEAD, BASE, SHA, TREE = "1" * 40, "2" * 40, "3" * 40, "4" * 40
FILE = ".github/workflows/pull-request.yml"
PARTS = {"tree": TREE, "image": "i", "tests": "f", "torch": "t", "back_end": "b", "settings": "s"}
WANTED = Wanted(sha=SHA, workflow=FILE, tree=TREE, parts=PARTS)
RUN = Run(
    id=5, attempt=1, name="pull request", path=FILE, event="pull_request", status="completed",
    conclusion="success", sha=SHA, branch="feature", repository="fork/r", url="",
)  # fmt: skip


def payload(**changed: object) -> dict[str, object]:
    group = {
        "head_sha": HEAD,
        "base_sha": BASE,
        "head_ref": f"refs/heads/gh-readonly-queue/main/pr-12-{BASE}",
    }
    return {"merge_group": group | changed}


def test_a_group_is_read_from_its_event() -> None:
    assert group_of(payload()) == Group(head=HEAD, base=BASE, number=12)
    deep = payload(head_ref=f"refs/heads/gh-readonly-queue/release/pr-1/pr-12-{BASE}")
    assert group_of(deep) == Group(head=HEAD, base=BASE, number=12)


@pytest.mark.parametrize(
    "changed",
    [
        {"head_sha": "--all"},
        {"base_sha": None},
        {"head_ref": "refs/heads/main"},
        {"head_ref": f"refs/heads/gh-readonly-queue/main/pr-x-{BASE}"},
        {"head_ref": f"refs/heads/gh-readonly-queue/main/pr-12-{BASE}\n"},
        {"head_ref": 7},
    ],
)
def test_an_event_that_does_not_say_all_names_no_group(changed: dict[str, object]) -> None:
    assert group_of(payload(**changed)) is None
    assert group_of({}) is None


@pytest.mark.parametrize(
    ("ref", "file"),
    [
        (f"o/r/{FILE}@refs/heads/main", FILE),
        (f"O/R/{FILE}@refs/heads/a@b", FILE),
        (f"other/r/{FILE}@refs/heads/main", ""),
        ("", ""),
    ],
)
def test_only_a_file_of_this_repository_is_its_workflow(ref: str, file: str) -> None:
    assert workflow_file(ref, "o/r") == file


def test_a_run_that_fits_in_all_is_doubted_in_nothing() -> None:
    assert own_doubt(WANTED, TREE, TREE) == doubt(RUN, WANTED) == doubt_of_parts(dict(PARTS), WANTED) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"event": "workflow_dispatch"}, "was started by workflow_dispatch"),
        ({"path": "x.yml"}, "is of another workflow, x.yml"),
        ({"sha": HEAD}, "is of another commit"),
        ({"status": "queued"}, "has not ended"),
        ({"conclusion": "cancelled"}, "ended as cancelled"),
        ({"conclusion": ""}, "ended as unknown"),
    ],
)
def test_each_thing_that_does_not_fit_is_named(changed: dict[str, str], said: str) -> None:
    assert doubt(replace(RUN, **changed), WANTED).startswith(said)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tree", "tested another tree"),
        ("image", "ran in another image"),
        ("tests", "planned other tests"),
        ("torch", "had another PyTorch"),
        ("back_end", "had another back end"),
        ("settings", "had other settings"),
    ],
)
def test_a_part_that_is_missing_unknown_or_another_is_no_match(name: str, said: str) -> None:
    less = {key: value for key, value in PARTS.items() if key != name}
    assert doubt_of_parts(less, WANTED)
    assert said in doubt_of_parts(PARTS | {name: "x"}, WANTED)
    assert doubt_of_parts(PARTS | {name: ["x"]}, WANTED)
    assert name in own_doubt(replace(WANTED, parts=less), TREE, TREE)
    assert own_doubt(replace(WANTED, parts=PARTS | {name: ""}), TREE, TREE).endswith(name)


@pytest.mark.parametrize("parts", [None, [], "x", {}, {**PARTS, "later": "x"}])
def test_parts_of_another_kind_or_with_more_are_no_match(parts: object) -> None:
    assert doubt_of_parts(parts, WANTED)


def test_parts_that_a_later_version_adds_have_to_be_the_same() -> None:
    wanted = replace(WANTED, parts=PARTS | {"later": "x"})
    assert doubt_of_parts(PARTS | {"later": "x"}, wanted) == ""
    assert doubt_of_parts(PARTS | {"later": "y"}, wanted) == "records other details of it"


def test_a_merge_that_gives_another_tree_is_doubted() -> None:
    assert "gives another tree" in own_doubt(WANTED, TREE, "5" * 40)
    assert "of another tree than" in own_doubt(replace(WANTED, parts=PARTS | {"tree": "5" * 40}), TREE, TREE)
    assert "workflow's file" in own_doubt(replace(WANTED, workflow=""), TREE, TREE)
    assert "checked out" in own_doubt(WANTED, "5" * 40, TREE)


def test_the_token_is_for_its_own_server_and_never_over_plain_http() -> None:
    told = _token({"GITHUB_TOKEN": "t", "GITHUB_SERVER_URL": "https://github.com/"})
    assert told["GIT_CONFIG_KEY_1"] == "http.https://github.com/.extraHeader"
    assert _token({"GITHUB_TOKEN": "t", "GITHUB_SERVER_URL": "http://github.com"}) == {}
    assert _token({"GITHUB_SERVER_URL": "https://github.com"}) == {}


def test_a_note_of_reuse_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = Reused(
        repository="o/r", run_id=5, attempt=2, sha=SHA, pull_request=12, url="https://github.com/x", tree=TREE
    )
    assert read_reused(tmp_path) is None
    write_reused(tmp_path, note)
    assert read_reused(tmp_path) == note
    assert "run 5, attempt 2, of pull request 12 (https://github.com/x)" in note.said()


ROW: dict[str, Any] = {
    "id": 50,
    "run_attempt": 2,
    "name": "pull request",
    "path": ".github/workflows/a.yml@refs/heads/main",
    "event": "pull_request",
    "status": "completed",
    "conclusion": None,
    "head_sha": SHA,
    "head_branch": "feature",
    "head_repository": None,
}


def test_a_run_is_read_with_what_may_be_missing() -> None:
    run = run_of(ROW)
    assert run is not None
    assert (run.path, run.conclusion, run.repository, run.attempt) == (".github/workflows/a.yml", "", "", 2)


@pytest.mark.parametrize(
    "row", [None, {}, ROW | {"id": "50"}, ROW | {"head_sha": "main"}, ROW | {"head_sha": None}]
)
def test_what_is_no_run_is_none(row: Any) -> None:
    assert run_of(row) is None


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("results", "results"),
        ("device.12", "device"),
        ("results-x.1", "results-x"),
        ("results-2", "results-2"),
    ],
)
def test_the_attempt_behind_an_artifact_s_name_is_not_its_name(name: str, group: str) -> None:
    assert Artifact(id=1, name=name).group == group
