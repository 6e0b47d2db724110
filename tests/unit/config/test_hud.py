"""The settings of the HUD server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config import load_settings
from ci.config.hud_model import Issuer
from ci.core.errors import SettingsError

GOOD = """
hud:
  rate_limit: 7
  issuers:
    - {url: https://token.actions.githubusercontent.com, kind: github}
    - url: https://jenkins.example/oidc
      kind: jenkins
      repositories: {"https://jenkins.example/job/spyre/*": torch-spyre/torch-spyre}
    - {url: http://127.0.0.1:8080, claim: project, audience: hud}
"""


def load(tmp_path: Path, text: str) -> Any:
    (tmp_path / "spyre-ci.yaml").write_text(text)
    return load_settings(path=None, environ={}, flags={}, cwd=tmp_path).model.hud


def test_issuers_are_settings(tmp_path: Path) -> None:
    hud = load(tmp_path, GOOD)
    assert [one.keys_url for one in hud.issuers] == [
        "https://token.actions.githubusercontent.com/.well-known/jwks",
        "https://jenkins.example/oidc/jwks",
        "http://127.0.0.1:8080/.well-known/jwks",
    ]
    assert [one.told_by for one in hud.issuers] == [("repository",), ("sub",), ("project",)]
    assert hud.rate_limit == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hud:\n  issuer: []\n", ["spyre-ci.yaml:2", "unknown key 'hud.issuer'", "did you mean 'issuers'"]),
        (
            "hud:\n  issuers:\n    - {url: https://a, knd: github}\n",
            ["spyre-ci.yaml:3", "did you mean 'kind'"],
        ),
        ("hud: {issuers: [{url: http://issuer.example}]}\n", ["must be https"]),
        ("hud: {issuers: [{url: issuer.example}]}\n", ["is no https URL"]),
        ("hud: {issuers: [{url: 'https://u:p@issuer.example'}]}\n", ["credentials"]),
        ("hud: {issuers: [{url: 'https://issuer.example?x=1'}]}\n", ["a query"]),
        ("hud: {issuers: [{url: https://a, keys: http://a/keys}]}\n", ["must be https"]),
        ("hud: {issuers: [{url: https://a, kind: jenkins}]}\n", ["names no repository", "`repositories`"]),
        ("hud: {issuers: [{url: https://a, kind: gitlab}]}\n", ["kind", "gitlab"]),
        ("hud: {issuers: [{url: https://a, repositories: {x: y}}]}\n", ["repositories", '"y"']),
        ("hud: {issuers: [{url: https://a}, {url: https://a}]}\n", ["issuers names 'https://a' twice"]),
        ("hud: {rate_limit: 0}\n", ["hud.rate_limit", "requests of one repository"]),
        ("store: {keep_days: 0}\n", ["store.keep_days"]),
        ("hud: {issuers: [{url: 'https://a:abc'}]}\n", ["hud.issuers.0.url", "could not be cast", "abc"]),
        ("hud: {issuers: [{url: 'https://a:99999'}]}\n", ["hud.issuers.0.url", "out of range"]),
        ("hud: {issuers: [{url: 'https://[a'}]}\n", ["hud.issuers.0.url", "IPv6"]),
        ("store: {clickhouse: 'clickhouse://a:b/c'}\n", ["store.clickhouse", "could not be cast"]),
    ],
)
def test_a_bad_setting_is_told_with_its_place(tmp_path: Path, text: str, expected: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    for part in expected:
        assert part in str(caught.value)


def mapped(**repositories: str) -> Issuer:
    return Issuer(url="https://a.example", repositories=repositories)


def test_the_first_pattern_that_fits_names_the_repository() -> None:
    issuer = Issuer(
        url="https://a.example",
        repositories={"a/*/main": "o/main", "a/*": "o/rest", "b?[c]": "o/plain", "*x*y*": "o/stars"},
    )
    assert issuer.repository_of("a/b/c/main") == "o/main"
    assert issuer.repository_of("a/main") == "o/rest"
    assert issuer.repository_of("a/") == "o/rest"
    assert issuer.repository_of("b?[c]") == "o/plain"
    assert issuer.repository_of("bxc") is None
    assert issuer.repository_of("1x2y") == "o/stars"
    assert issuer.repository_of("y2x") is None
    assert issuer.repository_of("A/b") is None


def test_a_pattern_does_not_count_a_letter_twice() -> None:
    assert mapped(**{"ab*ba": "o/r"}).repository_of("aba") is None
    assert mapped(**{"ab*ba": "o/r"}).repository_of("abba") == "o/r"


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.text("abc", max_size=3))
def test_a_star_stands_for_any_text(parts: list[str], between: str) -> None:
    issuer = mapped(**{"*".join(parts): "o/r"})
    assert issuer.repository_of(between.join(parts)) == "o/r"


def test_without_a_map_the_claim_is_the_repository() -> None:
    issuer = Issuer(url="https://a.example", kind="github")
    assert issuer.repository_of("o/r") == "o/r"
    assert issuer.repository_of("o/r\n") is None
    assert issuer.repository_of("a/b/c") is None
