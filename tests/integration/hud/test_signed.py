"""Reports and rows signed with a shared secret, end to end, in a network that has no OIDC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings
from ci.errors import SettingsError
from ci.hud.hmac_auth import WINDOW_S
from ci.hud.row_upload import rows_wait
from ci.hud.server.allow_list import OnlyRepository
from ci.hud.server.app import create_app
from ci.hud.server.gate import Gate
from ci.hud.server.rate_limit import RateLimit
from ci.hud.server.serve import embedded
from ci.hud.server.store import Store

pytestmark = pytest.mark.integration

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
    assert store.jobs(limit=9)[0]["downstream_repo"] == REPOSITORY
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
    assert store.count_jobs() == 0


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
