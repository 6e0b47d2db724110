"""To whom Git shows a token."""

from __future__ import annotations

import base64

import pytest

from ci.pins.push import credentials

TOKEN = "ghs_made_up"
PUBLIC = "https://api.github.com"


@pytest.mark.parametrize(
    ("address", "api", "host"),
    [
        ("https://github.com/o/r", PUBLIC, "https://github.com/"),
        ("https://ghe.example.com/o/r.git", "https://ghe.example.com/api/v3", "https://ghe.example.com/"),
        ("https://github.example.com/o/r", PUBLIC, ""),
        ("https://github.com.example.org/o/r", PUBLIC, ""),
        ("https://u:p@github.com/o/r", PUBLIC, ""),
        ("http://github.com/o/r", PUBLIC, ""),
        ("https://github.com:8443/o/r", PUBLIC, ""),
        ("git@github.com:o/r.git", PUBLIC, ""),
        ("ssh://git@github.com/o/r", PUBLIC, ""),
        ("/srv/git/r", PUBLIC, ""),
    ],
)
def test_a_token_is_shown_to_its_own_host_only(address: str, api: str, host: str) -> None:
    made = credentials(address, api=api, token=TOKEN, environ={})
    assert made.get("GIT_CONFIG_KEY_1", "") == (f"http.{host}.extraHeader" if host else "")
    assert bool(made) == bool(host)


def test_what_a_checkout_left_is_taken_away_and_what_else_is_set_stays() -> None:
    made = credentials("https://github.com/o/r", api=PUBLIC, token=TOKEN, environ={"GIT_CONFIG_COUNT": "2"})
    assert made["GIT_CONFIG_COUNT"] == "4"
    assert made["GIT_CONFIG_VALUE_2"] == ""
    scheme, _, shown = made["GIT_CONFIG_VALUE_3"].removeprefix("Authorization: ").partition(" ")
    assert (scheme, base64.b64decode(shown).decode()) == ("basic", f"x-access-token:{TOKEN}")
    assert "GIT_CONFIG_KEY_0" not in made
