from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, MissingInputError
from ci.hud.checks import check
from ci.hud.dispatched import MAX_EVENT_BYTES, Dispatch, dispatch_of, kept, read_event
from ci.hud.payload import (
    JOB_KEYS,
    RunIdentity,
    Ways,
    begun_of,
    given_up_of,
    report_identity,
)
from test_selection.files import write_json

from .conftest import told_of

HEAD = "89abcdef0123456789abcdef0123456789abcdef"
CLIENT_PAYLOAD = {
    "event_type": "pull_request",
    "delivery_id": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "payload": {
        "action": "synchronize",
        "number": 161234,
        "pull_request": {"number": 161234, "head": {"sha": HEAD, "ref": "x"}, "title": "é \U0001f600"},
        "repository": {"full_name": "pytorch/pytorch", "id": 65600975},
    },
}
EVENT = {"action": "pull_request", "branch": "main", "client_payload": CLIENT_PAYLOAD}


def event(folder: Path, content: Any = EVENT) -> dict[str, str]:
    path = folder / "event.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"GITHUB_EVENT_NAME": "repository_dispatch", "GITHUB_EVENT_PATH": str(path)}


def dispatch(check_run_id: str = "", **begun: int) -> Dispatch:
    return Dispatch(client_payload=CLIENT_PAYLOAD, check_run_id=check_run_id, **begun)


def test_the_relays_event_is_read_from_github(tmp_path: Path) -> None:
    found = read_event(event(tmp_path), None)
    assert found == dispatch()
    assert found.delivery_id == CLIENT_PAYLOAD["delivery_id"]
    for name in ("pull_request", "push", ""):
        assert read_event({**event(tmp_path), "GITHUB_EVENT_NAME": name}, None) is None


@pytest.mark.parametrize(
    "content", [{"client_payload": {"image": "x"}}, {"client_payload": None}, [], None, 7, [CLIENT_PAYLOAD]]
)
def test_a_dispatch_that_is_not_the_relays_is_none(tmp_path: Path, content: Any) -> None:
    assert dispatch_of(content, where="x") is None
    assert read_event(event(tmp_path, content), None) is None
    # One that is given by hand has to be there.
    with pytest.raises(BadFileError, match="contains no dispatch of the relay") as caught:
        read_event({}, tmp_path / "event.json")
    assert caught.value.remedy == "check report.event_file"


@pytest.mark.parametrize("content", [EVENT, CLIENT_PAYLOAD])
def test_a_file_given_by_hand_may_be_the_event_or_its_client_payload(tmp_path: Path, content: Any) -> None:
    event(tmp_path, content)
    assert read_event({}, tmp_path / "event.json") == dispatch()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ({"delivery_id": 7, "event_type": "x"}, "client_payload.delivery_id: must be a line of text"),
        ({"delivery_id": " ", "event_type": "x"}, "delivery_id: must be a line of text"),
        ({"delivery_id": "a\nrun_id=1", "event_type": "x"}, "delivery_id: must be a line of text"),
        ({"delivery_id": "a"}, "client_payload.event_type: must be a line of text"),
        ({"delivery_id": "a", "event_type": "nightly"}, "'nightly' is never dispatched"),
        (" " * (MAX_EVENT_BYTES + 1), "cannot be read: it is larger than 4 MiB"),
    ],
)
def test_a_broken_event_is_said_with_its_file(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(BadFileError, match=said) as caught:
        read_event(event(tmp_path, content), None)
    assert (caught.value.where, bool(caught.value.remedy)) == (str(tmp_path / "event.json"), True)


def test_an_event_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such event file"):
        read_event({}, tmp_path / "gone")
    with pytest.raises(BadFileError, match="cannot be read: Is a directory"):
        read_event({}, tmp_path)


def test_the_payload_is_echoed_unchanged_in_both_callbacks(identity: RunIdentity) -> None:
    ways = Ways(environ={}, dispatch=dispatch("77"))
    begun, ended = begun_of(identity, ways), told_of(identity, ways, verdicts={"passed": 7}, cards=4)
    assert begun is not None
    for body, status in ((begun, "in_progress"), (ended, "completed")):
        assert {**body, "workflow": None} == {**CLIENT_PAYLOAD, "workflow": None}
        workflow = body["workflow"]
        assert (workflow["status"], workflow["check_run_id"]) == (status, "77")
        assert workflow["started_at"] == identity.started_at
        assert check(body, repository="o/r") == []
        assert report_identity(body, repository="o/r").endswith(f"/{status}")
    assert begun["workflow"]["conclusion"] is None
    assert ended["workflow"]["test_results"]["total"] == 7
    assert [begun["workflow"][key] for key in JOB_KEYS] == [ended["workflow"][key] for key in JOB_KEYS]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
tables = st.dictionaries(st.text(), json_values, max_size=4)


@given(tables, tables)
def test_whatever_a_dispatch_holds_is_echoed(payload: dict[str, Any], more: dict[str, Any]) -> None:
    told = {**more, "event_type": "push", "delivery_id": "d", "payload": payload}
    body = Dispatch(client_payload=told).callback({"status": "in_progress"})
    assert {**body, "workflow": None} == {**told, "workflow": None}


def test_a_flat_client_payload_is_the_payload() -> None:
    flat = {"event_type": "pull_request", "delivery_id": "d", "pull_request": {"number": 1}}
    body = Dispatch(client_payload=flat).callback({})
    assert body == {"event_type": "pull_request", "delivery_id": "d", "payload": flat, "workflow": {}}


def test_details_go_to_a_server_of_our_own_and_write_over_no_key_of_the_dispatchs(
    identity: RunIdentity,
) -> None:
    ours = told_of(identity, Ways(environ={}, dispatch=dispatch(), own_server=True), cards=4)["payload"]
    details = ours.pop("spyre_ci")
    assert (details["cards"], details["device"], ours) == (4, "spyre", CLIENT_PAYLOAD["payload"])
    told = {"event_type": "x", "delivery_id": "d", "payload": {"spyre_ci": {"run": "theirs"}}}
    body = Dispatch(client_payload=told).callback({}, {"run": "ours"})
    assert body["payload"] == told["payload"]


def test_a_run_that_gave_up_tells_it_with_no_test(identity: RunIdentity) -> None:
    at = "2026-08-01T02:10:00+00:00"
    body = given_up_of(identity, Ways(environ={}, dispatch=dispatch("1")), conclusion="cancelled", at=at)
    assert body is not None
    workflow = body["workflow"]
    assert (workflow["conclusion"], workflow["completed_at"]) == ("cancelled", at)
    assert workflow["test_results"] == {"passed": 0, "failed": 0, "skipped": 0, "total": 0}
    assert check(body, repository="o/r") == []


@pytest.mark.parametrize(
    "content", [{}, {"client_payload": {}}, {"client_payload": CLIENT_PAYLOAD, "check_run_id": 7}]
)
def test_a_kept_dispatch_that_is_none_is_said(tmp_path: Path, content: dict[str, Any]) -> None:
    write_json(tmp_path / "dispatch.json", "dispatch", content)
    with pytest.raises(BadFileError) as caught:
        kept(tmp_path)
    assert (caught.value.where, caught.value.remedy) == (
        str(tmp_path / "dispatch.json"),
        "remove it to report the run as a nightly",
    )
