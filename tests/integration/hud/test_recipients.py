"""Who is sent a secret: nobody whom the settings file alone names, because a pull request may change it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci.config import Settings, load_settings
from ci.core.errors import SettingsError
from ci.hud.row_upload import rows_wait
from ci.report.store import open_kept

from .desk import Desk


class FileDesk(Desk):
    """One whose settings are of a file and of the environment."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.run_dir, desk.relay)
        self.report: dict[str, Any] = {"endpoint": self.relay.url}
        self.more: dict[str, Any] = {}
        self.flags = {}

    @property
    def settings(self) -> Settings:
        content = {"report": self.report, "hud": {"port": 0}, **self.more}
        path = self.folder / "spyre-ci.yaml"
        path.write_text(json.dumps(content))
        return load_settings(path=path, environ=self.environ, flags=self.flags, cwd=self.folder)


@pytest.fixture
def here(desk: Desk) -> FileDesk:
    return FileDesk(desk)


@pytest.mark.parametrize("given", ["environment", "file", "both"])
def test_a_token_is_not_sent_to_an_address_of_the_settings_file(here: FileDesk, given: str) -> None:
    url = here.relay.url
    here.report |= {"endpoint": f"{url}/?key=k3y", "own_server": True}
    here.put_junit('<testcase name="a"/>')
    if given != "environment":
        (here.folder / "token").write_text("token-of-a-file\n")
        here.report["token_file"] = "token"
    if given == "file":
        del here.environ["SPYRE_CI_HUD_TOKEN"]
    delivery = here.deliver()
    assert (delivery.outcome, here.paths) == ("left", [])
    assert delivery.reason == (
        f"report.endpoint: the token is not sent to {url}/github/callback: the address is that of the "
        "settings file, which a pull request can change"
    )
    assert "in the environment as well, as SPYRE_CI__REPORT__ENDPOINT, then" in delivery.remedy
    assert rows_wait(here.run_dir)
    # Nothing is lost: once the environment says where to, all of it goes.
    here.environ["SPYRE_CI__REPORT__ENDPOINT"] = url
    here.answers("ok", (200, {}, '{"ok": true, "sent": 1, "stored": 1}'))
    assert here.send().outcome == "delivered"
    assert set(here.tokens) == {f"Bearer {'token-of-a-file' if given == 'file' else 's3cret-token'}"}


def test_a_flag_gives_an_address_as_the_environment_does(here: FileDesk) -> None:
    here.report["endpoint"] = "https://elsewhere.invalid"
    here.flags["report.endpoint"] = here.relay.url
    assert here.deliver().outcome == "delivered"


def test_a_minted_token_goes_to_an_address_of_the_file_for_no_audience_of_the_file(
    here: FileDesk, github: Any
) -> None:
    here.mint(github, "minted")
    here.report["audience"] = "sts.cloud.example"
    refused = here.deliver()
    assert (refused.outcome, github.requests, here.paths) == ("left", [], [])
    assert "the token for the audience in the settings file is not sent to" in refused.reason
    assert "SPYRE_CI__REPORT__ENDPOINT" in refused.remedy
    del here.report["audience"]
    assert here.send().outcome == "delivered"
    assert here.tokens == ["Bearer minted"]
    assert "audience=pytorch-cross-repo-ci-relay" in github.requests[0]["path"]


def test_a_given_token_is_refused_an_address_of_the_file_though_one_could_be_minted(
    here: FileDesk, github: Any
) -> None:
    here.mint(github, "minted")
    here.environ["SPYRE_CI_HUD_TOKEN"] = "given"
    assert (here.deliver().outcome, github.requests, here.paths) == ("left", [], [])


def test_clickhouses_password_is_not_sent_to_an_address_of_the_settings_file(here: FileDesk) -> None:
    here.more["store"] = {"clickhouse": "clickhouse://hud@127.0.0.1:9/hud"}
    there = here.settings
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
    assert not there.store_path.exists()
