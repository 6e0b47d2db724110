"""What GitHub and Jenkins say began a pipeline: what cannot be read is told, what is odd is not said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.pipeline import event
from ci.pipeline.event import Event, event_of, event_payload, number_at, read_event, text_at

HEAD, BASE = "a" * 40, "b" * 40
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pull_request", "head", "base", "repo", "id", "sha", "labels", "name", "after"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def request(**more: Any) -> dict[str, Any]:
    return {
        "pull_request": {
            "head": {"sha": HEAD, "repo": {"id": 1}},
            "base": {"sha": BASE, "repo": {"id": 1}},
            "labels": [{"name": "ciflow/spyre"}, {"name": "documentation"}],
            **more,
        }
    }


def test_a_pull_request_has_commits_labels_and_a_repository() -> None:
    labels = ("ciflow/spyre", "documentation")
    assert event_of("pull_request", request()) == Event(
        name="pull_request", head=HEAD, base=BASE, labels=labels
    )


@pytest.mark.parametrize(
    ("action", "label", "found"),
    [
        ("labeled", {"name": "ciflow/spyre"}, "ciflow/spyre"),
        ("synchronize", {"name": "ciflow/spyre"}, ""),
        ("labeled", None, ""),
        ("labeled", {"name": 7}, ""),
    ],
)
def test_the_label_that_was_just_set_is_told_from_those_that_are_there(
    action: str, label: object, found: str
) -> None:
    assert event_of("pull_request", {**request(), "action": action, "label": label}).labelled == found


@pytest.mark.parametrize(
    "head",
    [{"repo": {"id": 2}}, {"repo": None}, {}, {"repo": {"id": "1"}}, {"repo": {}}],
    ids=["another repository", "a deleted fork", "not said", "odd", "nameless"],
)
def test_what_is_not_known_to_be_the_same_repository_is_a_fork(head: dict[str, Any]) -> None:
    assert event_of("pull_request", request(head={"sha": HEAD, **head})).fork


def test_a_merge_group_and_a_push_name_what_was_before_them() -> None:
    group = event_of("merge_group", {"merge_group": {"head_sha": HEAD, "base_sha": BASE}})
    push = event_of("push", {"before": BASE, "after": HEAD})
    assert (group.head, group.base) == (push.head, push.base) == (HEAD, BASE)
    # A queue is judged by what it goes onto; on GitHub a pull request's workflow is its own anyway.
    assert (group.by_base, push.by_base, event_of("pull_request", request()).by_base) == (True, False, False)


@pytest.mark.parametrize("before", ["0" * 40, "main", "--output=/etc/passwd", "B" * 40, None, 7, HEAD[:39]])
def test_what_is_no_whole_name_of_a_commit_is_none(before: object) -> None:
    assert event_of("push", {"before": before}).base == ""


@given(name=st.sampled_from(["pull_request", "merge_group", "push", "schedule", ""]), payload=JSON)
def test_no_payload_is_a_bug(name: str, payload: Any) -> None:
    event = event_of(name, payload if isinstance(payload, dict) else {})
    assert all(isinstance(one, str) for one in (event.head, event.base, *event.labels))


def environ(path: Path | str, name: str = "pull_request") -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}


def test_the_event_is_read_from_the_file_github_names(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(request()), encoding="utf-8")
    assert read_event(environ(file)).base == BASE


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not valid JSON"),
        (b'{"pull_request":', "is not valid JSON"),
        (b'{"a": 1, "a": 2}', "a key occurs twice"),
        (b"[1]", "is not a JSON object"),
        (b"[" * 100_000, "is not valid JSON"),
        (b'{"a": "\xff"}', "is not valid JSON"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "more than 200,000 bytes"),
    ],
)
def test_a_damaged_event_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    monkeypatch.setattr(event, "MAX_BYTES", 200_000)
    file = tmp_path / "event.json"
    file.write_bytes(content)
    with pytest.raises(BadFileError, match=said) as caught:
        read_event(environ(file))
    assert (caught.value.exit_code, caught.value.where) == (2, str(file))


def test_an_event_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="cannot be read: No such file") as caught:
        read_event(environ(tmp_path / "gone.json"))
    assert caught.value.remedy


def test_jenkins_names_the_branch_a_change_is_for() -> None:
    told = {"JENKINS_URL": "https://j", "CHANGE_ID": "7", "CHANGE_TARGET": "main", "CHANGE_FORK": "somebody"}
    assert read_event(told) == Event(name="pull_request", branch="main", fork=True, by_base=True)
    told = {"JENKINS_URL": "https://j", "GIT_COMMIT": HEAD, "GIT_PREVIOUS_SUCCESSFUL_COMMIT": BASE}
    assert read_event(told) == Event(name="push", head=HEAD, base=BASE)
    assert read_event({}) == Event(name="local")


def test_the_payload_is_that_of_the_event_that_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"a": {"b": 1}}')
    told = {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(path)}
    assert event_payload(told, "push") == {"a": {"b": 1}}
    with pytest.raises(UsageError, match="the event is 'push', and a merge_group event is needed"):
        event_payload(told, "merge_group")
    with pytest.raises(UsageError, match="there is no GitHub event, and a"):
        event_payload({}, "push")
    with pytest.raises(UsageError, match="the path of the event's file is not set"):
        event_payload({"GITHUB_EVENT_NAME": "push"}, "push")


@pytest.mark.parametrize("content", [None, [], {"a": []}, {"a": {"b": None}}, {"a": {"b": []}}])
def test_what_is_of_another_kind_counts_as_not_said(content: Any) -> None:
    assert (text_at(content, "a", "b"), number_at(content, "a", "b")) == ("", 0)
    assert [number_at({"n": one}, "n") for one in (5, 0, -1, True, 1.5, "5")] == [5, 0, 0, 0, 0, 0]
