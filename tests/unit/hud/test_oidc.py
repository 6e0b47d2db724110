from __future__ import annotations

import pytest

from ci.core.errors import SettingsError
from ci.hud.oidc import mint, offered

GOOD = {
    "ACTIONS_ID_TOKEN_REQUEST_URL": "https://token.example/x",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "asking",
}


def minted(environ: dict[str, str]) -> str:
    return mint(environ, audience="a", repository="o/r")


def test_a_job_is_offered_a_token_by_both_variables() -> None:
    assert offered(GOOD)
    for name in GOOD:
        assert not offered({**GOOD, name: ""})


def test_a_job_without_leave_is_told_the_permission() -> None:
    with pytest.raises(SettingsError, match="may not ask GitHub for an OIDC token") as caught:
        minted({})
    assert caught.value.remedy == "give the job `permissions: id-token: write`"


@pytest.mark.parametrize("url", ["http://token.example/x", "ftp://x", "https://", "http://[", "file:///x"])
def test_a_url_that_others_can_read_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is no https URL"):
        minted({**GOOD, "ACTIONS_ID_TOKEN_REQUEST_URL": url})


def test_an_asking_token_no_header_can_carry_is_refused_and_not_shown() -> None:
    with pytest.raises(SettingsError, match="is empty or holds blanks") as caught:
        minted({**GOOD, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "hunter 2"})
    assert "hunter" not in str(caught.value)
