from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.package_model import PYPI, TESTPYPI
from ci.core.errors import MissingInputError, SettingsError
from ci.package.credentials import Credentials, find_credentials, past_proxies, twine_environ

SECRET = "pypi-s3cr3t"
GIVEN = {"SPYRE_CI_INDEX_TOKEN": f" {SECRET}\n"}
FILE = """package:
  indexes:
    stage: {upload: "https://index.example.com/", simple: "https://index.example.com/simple/"}
    here: {upload: "http://127.0.0.1:3141/", simple: "http://127.0.0.1:3141/simple/"}
    kept: {upload: "http://localhost:1/", simple: "http://localhost:1/", token_file: token.txt, user: me}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    (folder / "spyre-ci.yaml").write_text(FILE)
    return folder


def found(name: str, environ: Mapping[str, str], checkout: Path, path: Path | None = None) -> Credentials:
    settings = load_settings(path=path, environ=environ, flags={}, cwd=checkout)
    return find_credentials(settings, name, settings.model.package.all_indexes[name], environ)


def test_the_environments_token_is_taken_for_pypi(checkout: Path) -> None:
    for name in (PYPI, TESTPYPI):
        made = found(name, GIVEN, checkout)
        assert (made.user, made.token) == ("__token__", SECRET)


def test_a_token_is_in_no_text_of_it(checkout: Path) -> None:
    made = found(PYPI, GIVEN, checkout)
    assert SECRET not in f"{made!r} {made}"
    assert made.hidden_in(f"user:{SECRET}") == "user:***"
    header = base64.b64encode(f"__token__:{SECRET}".encode()).decode()
    assert made.hidden_in(f"Authorization: Basic {header} x") == "Authorization: Basic *** x"
    assert Credentials(user="me", token="a/b+c").hidden_in("https://me:a%2Fb%2Bc@x") == "https://me:***@x"


def test_a_token_goes_to_this_machine_from_the_environment_or_a_file(checkout: Path) -> None:
    assert found("here", GIVEN, checkout).token == SECRET
    (checkout / "token.txt").write_text(f"{SECRET}\n")
    made = found("kept", {}, checkout)
    assert (made.user, made.token) == ("me", SECRET)
    assert found("kept", {"SPYRE_CI_INDEX_TOKEN": "other"}, checkout).token == "other"


def test_a_token_file_that_is_not_there_is_named(checkout: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no token file"):
        found("kept", {}, checkout)


def test_no_token_goes_to_an_address_that_a_pull_request_can_change(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(FILE)
    for path in (None, tmp_path / "ours.yaml"):
        with pytest.raises(SettingsError) as caught:
            found("stage", GIVEN, checkout, path)
        assert "the token is not sent to https://index.example.com/" in str(caught.value)
        assert "which a pull request can change" in str(caught.value)
        assert "as SPYRE_CI__PACKAGE__INDEXES__STAGE__UPLOAD" in str(caught.value)
        assert SECRET not in str(caught.value)


def test_nor_what_a_file_holds_that_the_settings_file_names(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text(SECRET)
    text = FILE.replace("localhost:1/", "index.example.com/").replace("http:", "https:")
    (checkout / "spyre-ci.yaml").write_text(text.replace("token.txt", "../id_rsa"))
    with pytest.raises(SettingsError, match="which a pull request can change"):
        found("kept", {}, checkout)


def test_an_address_of_the_environment_gets_it(checkout: Path) -> None:
    address = {"SPYRE_CI__PACKAGE__INDEXES__STAGE__UPLOAD": "https://index.example.com/"}
    assert found("stage", {**GIVEN, **address}, checkout).token == SECRET


@pytest.mark.parametrize(
    "ci", [{"CI": "true"}, {"GITHUB_ACTIONS": "true"}, {"JENKINS_URL": "https://jenkins/"}]
)
def test_in_a_ci_this_machine_is_no_address_of_ours_either(checkout: Path, ci: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        found("here", {**GIVEN, **ci}, checkout)
    assert "the token is not sent to http://127.0.0.1:3141/" in str(caught.value)
    address = {"SPYRE_CI__PACKAGE__INDEXES__HERE__UPLOAD": "http://127.0.0.1:3141/"}
    assert found("here", {**GIVEN, **ci, **address}, checkout).token == SECRET


def test_without_anything_it_is_said_how_to_get_it(checkout: Path) -> None:
    with pytest.raises(SettingsError, match="there is no token for pypi") as caught:
        found(PYPI, {}, checkout)
    assert "set SPYRE_CI_INDEX_TOKEN, or SPYRE_CI_INDEX_TOKEN_FILE" in str(caught.value)


def test_a_token_that_no_header_can_carry_is_not_shown(checkout: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        found(PYPI, {"SPYRE_CI_INDEX_TOKEN": "two words"}, checkout)
    assert "two words" not in str(caught.value)


def test_twine_sees_the_token_and_nothing_of_the_users_own() -> None:
    others = ("SPYRE_CI_HUD_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    environ = {
        **GIVEN,
        **dict.fromkeys(others, "x"),
        "TWINE_PASSWORD": "own",
        "TWINE_CERT": "ca.pem",
        "PATH": "/",
    }
    made = twine_environ(environ, Credentials(user="me", token=SECRET), "https://index.example.com/")
    assert (made["TWINE_USERNAME"], made["TWINE_PASSWORD"]) == ("me", SECRET)
    assert (made["TWINE_CERT"], made["PATH"]) == ("ca.pem", "/")
    assert made["PYTHON_KEYRING_BACKEND"] == "keyring.backends.null.Keyring"
    assert {"SPYRE_CI_INDEX_TOKEN", "NO_PROXY", *others}.isdisjoint(made)


def test_this_machines_servers_are_not_asked_through_a_proxy() -> None:
    assert past_proxies({"no_proxy": "a"}, "http://127.0.0.1:1/") == {
        "no_proxy": "a,127.0.0.1",
        "NO_PROXY": "a,127.0.0.1",
    }
    assert past_proxies({"no_proxy": "a"}, "https://pypi.org/") == {"no_proxy": "a"}
