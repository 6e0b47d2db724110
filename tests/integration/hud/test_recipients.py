"""Who is sent a secret: nobody whom the settings file alone names, because a pull request may change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.config import Settings, load_settings
from ci.core.errors import SettingsError
from ci.hud.row_upload import rows_wait
from ci.report.store import open_kept

TOKEN = {"SPYRE_CI_HUD_TOKEN": "s3cret-token"}
CLICKHOUSE = "clickhouse://hud@127.0.0.1:9/hud"
Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Settings of a file, in which `report` stands, and of an environment."""

    def make(report: Mapping[str, Any], environ: Mapping[str, str] | None = None, **more: Any) -> Settings:
        content = {"report": dict(report), "hud": {"port": 0}, **more}
        (tmp_path / "spyre-ci.yaml").write_text(json.dumps(content))
        return load_settings(path=None, environ=environ or {}, flags={}, cwd=tmp_path)

    return make


@pytest.mark.parametrize("given", ["environment", "file", "both"])
def test_a_token_is_not_sent_to_an_address_of_the_settings_file(
    world: Any, run_dir: Path, load: Load, faulty: Any, given: str
) -> None:
    (run_dir.parents[1] / "token").write_text("token-of-a-file\n")
    report = {"endpoint": f"{faulty.url}/?key=k3y", "own_server": True}
    (run_dir / "junit").mkdir()
    (run_dir / "junit" / "0.xml").write_text('<testsuite><testcase name="a"/></testsuite>')
    if given != "environment":
        report["token_file"] = "token"
    environ = {} if given == "file" else TOKEN
    delivery = world.deliver(run_dir, load(report), environ)
    assert (delivery.outcome, faulty.requests) == ("left", [])
    assert delivery.reason == (
        f"report.endpoint: the token is not sent to {faulty.url}/github/callback: the address is that of the "
        "settings file, which a pull request can change"
    )
    assert "in the environment as well, as SPYRE_CI__REPORT__ENDPOINT, then" in delivery.remedy
    assert rows_wait(run_dir)
    # Nothing is lost: once the environment says where to, all of it goes.
    named = {"SPYRE_CI__REPORT__ENDPOINT": faulty.url}
    faulty.script = ["ok", (200, {}, '{"ok": true, "sent": 1, "stored": 1}')]
    assert world.flush(run_dir, load(report, named), environ).outcome == "delivered"
    wanted = "token-of-a-file" if given == "file" else "s3cret-token"
    assert {one["headers"]["Authorization"] for one in faulty.requests} == {f"Bearer {wanted}"}


def test_a_flag_gives_an_address_as_the_environment_does(
    world: Any, run_dir: Path, load: Load, faulty: Any, tmp_path: Path
) -> None:
    load({"endpoint": "https://elsewhere.invalid"})
    flags = {"report.endpoint": faulty.url}
    there = load_settings(path=tmp_path / "spyre-ci.yaml", environ={}, flags=flags, cwd=tmp_path)
    assert world.deliver(run_dir, there, TOKEN).outcome == "delivered"


def minting(github: Any) -> dict[str, str]:
    return {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/token?api-version=2",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "asking",
    }


def test_a_minted_token_goes_to_an_address_of_the_file_for_no_audience_of_the_file(
    world: Any, run_dir: Path, load: Load, faulty: Any, github: Any
) -> None:
    github.otherwise = (200, {}, '{"value": "minted"}')
    report = {"endpoint": faulty.url}
    refused = world.deliver(run_dir, load({**report, "audience": "sts.cloud.example"}), minting(github))
    assert (refused.outcome, github.requests, faulty.requests) == ("left", [], [])
    assert "the token for an audience of the file is not sent to" in refused.reason
    assert "SPYRE_CI__REPORT__ENDPOINT" in refused.remedy
    assert world.flush(run_dir, load(report), minting(github)).outcome == "delivered"
    assert faulty.requests[0]["headers"]["Authorization"] == "Bearer minted"
    assert "audience=pytorch-cross-repo-ci-relay" in github.requests[0]["path"]


def test_a_given_token_is_refused_an_address_of_the_file_though_one_could_be_minted(
    world: Any, run_dir: Path, load: Load, faulty: Any, github: Any
) -> None:
    refused = world.deliver(run_dir, load({"endpoint": faulty.url}), {**minting(github), **TOKEN})
    assert (refused.outcome, github.requests, faulty.requests) == ("left", [], [])


def test_clickhouses_password_is_not_sent_to_an_address_of_the_settings_file(load: Load) -> None:
    there = load({}, store={"clickhouse": CLICKHOUSE})
    with (
        pytest.raises(
            SettingsError, match=r"the password is not sent to clickhouse://127\.0\.0\.1:9"
        ) as caught,
        open_kept(there, {"SPYRE_CI_CLICKHOUSE_PASSWORD": "very-secret"}, warn=print),
    ):
        pass
    assert caught.value.where == "store.clickhouse"
    assert "SPYRE_CI__STORE__CLICKHOUSE" in str(caught.value.remedy)
    assert "very-secret" not in str(caught.value)
    assert not (there.store_path).exists()
