from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.pipeline import payload as module
from ci.pipeline.payload import at, event_payload, number_at, read_payload, text_at


def test_the_event_s_payload_is_read(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"a": {"b": 1}}')
    environ = {"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(path)}
    assert event_payload(environ, "pull_request", "push") == {"a": {"b": 1}}
    with pytest.raises(UsageError, match="the event is 'push', not merge_group or pull_request"):
        event_payload(environ, "merge_group", "pull_request")
    with pytest.raises(UsageError, match="there is no event"):
        event_payload({}, "push")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"a": ' + "[" * 200_000])
def test_a_payload_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "event.json"
    path.write_text(text)
    with pytest.raises(BadFileError, match="no JSON"):
        read_payload(path)


def test_a_payload_that_is_too_big_or_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingInputError, match="cannot be read"):
        read_payload(tmp_path / "event.json")
    monkeypatch.setattr(module, "MAX_BYTES", 3)
    (tmp_path / "event.json").write_text("{    }")
    with pytest.raises(BadFileError, match="more than 3 bytes"):
        read_payload(tmp_path / "event.json")


@pytest.mark.parametrize(
    "content", [None, [], "x", {"a": None}, {"a": []}, {"a": {"b": None}}, {"a": {"b": []}}]
)
def test_what_is_of_another_kind_counts_as_not_said(content: Any) -> None:
    assert text_at(content, "a", "b") == ""
    assert number_at(content, "a", "b") == 0


def test_numbers_are_whole_and_above_nothing() -> None:
    assert [number_at({"n": one}, "n") for one in (5, 0, -1, True, 1.5, "5")] == [5, 0, 0, 0, 0, 0]
    assert at({"a": {"b": [1]}}, "a", "b") == [1]
