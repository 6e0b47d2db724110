"""Reports and rows signed with a shared secret, end to end, in a network that has no OIDC."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner, Result

from ci.config import Settings
from ci.core.errors import SettingsError
from ci.hud.cli import app
from ci.hud.hmac_auth import WINDOW_S, HmacAuth
from ci.hud.row_upload import rows_wait
from ci.hud.server.allow_list import OnlyRepository
from ci.hud.server.app import create_app
from ci.hud.server.gate import Gate, RateLimit
from ci.hud.server.queries.jobs import count_jobs, list_jobs
from ci.hud.server.serve import embedded
from ci.store.identity import job_number
from ci.store.store import Store

MakeSettings = Callable[..., Settings]
REPOSITORY = "torch-spyre/torch-spyre"
SECRET = "a-secret-of-thirty-two-characters"
ENVIRON = {"SPYRE_CI_HUD_HMAC_SECRET": SECRET}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "server" / "hud.sqlite")
    yield store
    store.close()


@pytest.fixture
def server(store: Store, world: Any) -> Iterator[tuple[str, Store, list[float]]]:
    """Its address, its store, and by how much its clock is wrong."""
    late_s = [0.0]

    def clock() -> float:
        return float(world.clock() + late_s[0])

    gate = Gate(
        token="another-token",
        repository="some/other",
        levels=OnlyRepository(REPOSITORY),
        limit=RateLimit(100, clock),
        clock=clock,
        shared={"lab": (SECRET, REPOSITORY)},
    )
    with embedded(
        create_app(store, token=gate.token, repository="some/other", clock=clock, gate=gate)
    ) as base:
        yield base, store, late_s


@pytest.fixture
def junit(run_dir: Path) -> Path:
    (run_dir / "junit").mkdir()
    (run_dir / "junit" / "0.xml").write_text('<testsuite><testcase classname="A" name="käse"/></testsuite>')
    return run_dir


def test_a_report_and_its_rows_arrive_signed(
    world: Any, junit: Path, server: tuple[str, Store, list[float]], settings: MakeSettings
) -> None:
    url, store, _ = server
    here = settings(report__endpoint=url, report__own_server=True, report__hmac__name="lab")
    assert world.deliver(junit, here, ENVIRON).outcome == "delivered"
    assert list_jobs(store.database, limit=9)[0]["downstream_repo"] == REPOSITORY
    assert store.database.rows("SELECT name FROM test_run") == [{"name": "käse"}]
    assert SECRET not in "".join(world.lines)


@pytest.mark.parametrize("late", [WINDOW_S + 2, -WINDOW_S - 2])
def test_a_wrong_clock_is_said_and_the_report_waits(
    world: Any, junit: Path, server: tuple[str, Store, list[float]], settings: MakeSettings, late: float
) -> None:
    url, _, late_s = server
    late_s[0] = late
    here = settings(report__endpoint=url, report__own_server=True, report__hmac__name="lab")
    delivery = world.deliver(junit, here, ENVIRON)
    assert (delivery.outcome, delivery.report.left[0].outcome) == ("left", "unauthorized")
    assert "not within 5 minutes" in delivery.report.left[0].reason
    assert rows_wait(junit)
    late_s[0] = 0
    assert world.flush(junit, here, ENVIRON).outcome == "delivered"
    assert not rows_wait(junit)


@pytest.mark.parametrize("given", [("lab", "another-secret-of-thirty-two-chars"), ("bal", SECRET)])
def test_a_wrong_secret_writes_nothing(
    world: Any,
    run_dir: Path,
    server: tuple[str, Store, list[float]],
    settings: MakeSettings,
    given: tuple[str, str],
) -> None:
    url, store, _ = server
    name, secret = given
    here = settings(report__endpoint=url, report__hmac__name=name)
    delivery = world.deliver(run_dir, here, {"SPYRE_CI_HUD_HMAC_SECRET": secret})
    assert delivery.report.left[0].outcome == "unauthorized"
    assert count_jobs(store.database) == 0


def invoke(settings: Settings, monkeypatch: pytest.MonkeyPatch, secret: str, *words: str) -> Result:
    monkeypatch.setenv("SPYRE_CI_HUD_HMAC_SECRET", secret)
    return CliRunner().invoke(app, list(words), obj=settings)


@pytest.fixture
def waiting(world: Any, run_dir: Path, settings: MakeSettings) -> Path:
    """A run whose report waits, because nobody was there."""
    here = settings(report__endpoint="http://127.0.0.1:1", report__hmac__name="lab")
    assert world.deliver(run_dir, here, ENVIRON).outcome == "left"
    return run_dir


@pytest.mark.parametrize("as_json", [False, True])
def test_a_flush_signs_what_waits_and_says_what_a_wrong_key_or_clock_is(
    world: Any,
    waiting: Path,
    server: tuple[str, Store, list[float]],
    settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    *,
    as_json: bool,
) -> None:
    url, store, late_s = server
    monkeypatch.setattr(time, "time", world.clock)
    here = settings(report__endpoint=url, report__hmac__name="lab")
    words = ("flush", str(waiting), *(["--json"] if as_json else []))
    for secret, wrong_s in (("another-secret-of-thirty-two-chars", 0.0), (SECRET, 3600.0), (SECRET, -3600.0)):
        late_s[0] = wrong_s
        told = invoke(here, monkeypatch, secret, *words)
        assert told.exit_code == 3
        assert "HTTP 401: " in told.output
        assert "the signature does not hold, or its time is not within 5 minutes" in told.output
        assert "SPYRE_CI_HUD_HMAC_SECRET" in told.output
        assert SECRET not in told.output
        assert count_jobs(store.database) == 0
    late_s[0] = 0
    assert invoke(here, monkeypatch, SECRET, *words).exit_code == 0
    assert count_jobs(store.database) == 1


def signed(url: str, path: str, body: bytes, *, at: float, secret: str = SECRET) -> requests.PreparedRequest:
    request = requests.Request(
        "POST", f"{url}{path}", data=body, headers={"Content-Type": "application/json"}
    )
    request.auth = HmacAuth("lab", lambda: secret, clock=lambda: at)
    return request.prepare()


def sent(request: requests.PreparedRequest) -> requests.Response:
    with requests.Session() as session:
        return session.send(request, timeout=20)


def test_a_signed_request_holds_for_its_body_place_and_time_alone(
    world: Any, server: tuple[str, Store, list[float]], payload: dict[str, Any]
) -> None:
    url, store, late_s = server
    body = json.dumps(payload).encode()
    changes: list[tuple[str, Any]] = [
        ("body", body.replace(b"failure", b"success")),
        ("body", body + b" "),
        ("url", f"{url}/github/callback?x=1"),
        ("url", f"{url}/api/dispatch"),
        ("method", "PUT"),
    ]
    for name, value in changes:
        request = signed(url, "/github/callback", body, at=world.clock())
        if name == "body":
            request.headers["Content-Length"] = str(len(value))
        setattr(request, name, value)
        assert sent(request).status_code in {401, 405}, (name, value)
    for late in (WINDOW_S + 1, -WINDOW_S - 1):
        stale = signed(url, "/github/callback", body, at=world.clock() + late)
        assert sent(stale).status_code == 401
    assert count_jobs(store.database) == 0
    request = signed(url, "/github/callback", body, at=world.clock())
    assert [sent(request).status_code for _ in range(3)] == [200, 200, 200]
    # Whoever repeats it within its time changes nothing, and after that is refused.
    assert count_jobs(store.database) == 1
    late_s[0] = WINDOW_S + 1
    refused = sent(request)
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_pull_requests_begin_is_signed_and_its_repetition_changes_nothing(
    world: Any, server: tuple[str, Store, list[float]], payload: dict[str, Any]
) -> None:
    url, store, _ = server
    event = {**payload, "event_type": "pull_request", "delivery_id": "d-1"}
    begun = {**event, "workflow": {**payload["workflow"], "status": "in_progress"}}
    dispatch = b'{"delivery_id": "d-1"}'
    assert sent(signed(url, "/api/dispatch", dispatch, at=world.clock(), secret="x" * 32)).status_code == 401
    assert sent(signed(url, "/api/dispatch", dispatch, at=world.clock())).status_code == 200
    request = signed(url, "/github/callback", json.dumps(begun).encode(), at=world.clock())
    assert sent(request).json() == {"ok": True, "status": "in_progress"}
    repeated = sent(request)
    assert (repeated.status_code, repeated.json()) == (200, {"ok": True, "status": "in_progress"})
    ended = signed(url, "/github/callback", json.dumps(event).encode(), at=world.clock())
    assert [sent(ended).status_code, sent(ended).status_code] == [200, 200]
    (job,) = list_jobs(store.database, limit=9)
    assert (job["status"], job["downstream_repo"]) == ("completed", REPOSITORY)


def test_an_upload_whose_signed_body_was_changed_leaves_nothing(
    world: Any, server: tuple[str, Store, list[float]], payload: dict[str, Any]
) -> None:
    url, store, _ = server
    assert sent(signed(url, "/github/callback", json.dumps(payload).encode(), at=world.clock())).ok
    job_id = job_number(payload["workflow"]["check_run_id"], repository=REPOSITORY)
    path = f"/api/upload/junit?workflow_id=4242&workflow_run_attempt=1&job_id={job_id}&name=a"
    body = b'<testsuite><testcase name="a"/></testsuite>'
    request = signed(url, path, body, at=world.clock())
    request.body = body.replace(b'"a"', b'"b"')
    changed = sent(request)
    assert (changed.status_code, changed.json()["error"]) == (401, "the body is not the one that was signed")
    assert store.database.rows("SELECT * FROM upload") == []
    assert sent(signed(url, path, body, at=world.clock())).json()["stored"] == 1


def test_a_secret_wins_over_every_token_and_is_in_no_request(
    world: Any, run_dir: Path, settings: MakeSettings, faulty: Any, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    here = settings(
        report__endpoint=faulty.url, report__hmac__name="lab", report__hmac__secret_file=str(file)
    )
    assert world.deliver(run_dir, here, {"SPYRE_CI_HUD_TOKEN": "a-token"}).outcome == "delivered"
    (request,) = faulty.requests
    assert request["headers"]["Authorization"].startswith("Spyre-HMAC lab:1785000000:")
    assert SECRET not in str(request)
    assert "a-token" not in str(request)


def test_a_secret_that_is_not_there_is_said_at_once(
    world: Any, run_dir: Path, settings: MakeSettings, tmp_path: Path
) -> None:
    here = {"report__endpoint": "https://hud.example", "report__hmac__name": "lab"}
    delivery = world.deliver(run_dir, settings(**here))
    assert (delivery.outcome, "there is no secret for the endpoint" in delivery.reason) == ("left", True)
    assert "SPYRE_CI_HUD_HMAC_SECRET" in "".join(world.lines)
    gone = settings(**here, report__hmac__secret_file=str(tmp_path / "gone"))
    assert "there is no secret file" in world.deliver(run_dir, gone).reason
    with pytest.raises(SettingsError, match="without a name"):
        settings(report__hmac__secret_file="x")
