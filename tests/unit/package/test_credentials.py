from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci.config import Settings, load_settings
from ci.config.package_model import PYPI, TESTPYPI, Index
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


def found(
    name: str, environ: Mapping[str, str], checkout: Path, *, path: Path | None = None, folder: str = "."
) -> Credentials:
    settings = settings_of(environ, checkout, path)
    index: Index = settings.model.package.all_indexes[name]
    return find_credentials(settings, name, index, environ, checkout=checkout / folder)


def settings_of(environ: Mapping[str, str], checkout: Path, path: Path | None = None) -> Settings:
    return load_settings(path=path, environ=environ, flags={}, cwd=checkout)


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


@pytest.mark.parametrize("folder", [".", "python/torch_spyre"])
def test_no_token_goes_to_an_address_that_a_pull_request_can_change(checkout: Path, folder: str) -> None:
    with pytest.raises(SettingsError) as caught:
        found("stage", GIVEN, checkout, folder=folder)
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


def test_an_address_of_a_settings_file_from_elsewhere_gets_it(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(FILE)
    assert found("stage", GIVEN, checkout, path=path).token == SECRET
    with pytest.raises(SettingsError):
        found("stage", GIVEN, checkout, path=checkout / "spyre-ci.yaml")


@pytest.mark.parametrize(
    "ci", [{"CI": "true"}, {"GITHUB_ACTIONS": "true"}, {"JENKINS_URL": "https://jenkins/"}]
)
def test_in_a_ci_this_machine_is_no_address_of_ours_either(checkout: Path, ci: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        found("here", {**GIVEN, **ci}, checkout)
    assert "the token is not sent to http://127.0.0.1:3141/" in str(caught.value)
    address = {"SPYRE_CI__PACKAGE__INDEXES__HERE__UPLOAD": "http://127.0.0.1:3141/"}
    assert found("here", {**GIVEN, **ci, **address}, checkout).token == SECRET


def test_a_committed_link_to_a_settings_file_elsewhere_is_a_pull_requests(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "spyre-ci.yaml").unlink()
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "ours.yaml").write_text(FILE)
    (checkout / "spyre-ci.yaml").symlink_to(tmp_path / "away" / "ours.yaml")
    (checkout / "conf").symlink_to(tmp_path / "away")
    for path in (None, checkout / "spyre-ci.yaml", checkout / "conf" / "ours.yaml"):
        with pytest.raises(SettingsError, match="which a pull request can change"):
            found("stage", GIVEN, checkout, path=path)


def test_a_settings_file_of_any_repository_is_a_pull_requests(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    (other / ".git").write_text("gitdir: ../elsewhere\n")
    (other / "deep" / "ours.yaml").write_text(FILE)
    (tmp_path / "away.yaml").write_text(FILE)
    (other / "link.yaml").symlink_to(tmp_path / "away.yaml")
    (tmp_path / "first.yaml").symlink_to("other/link.yaml")
    for path in (other / "deep" / "ours.yaml", tmp_path / "first.yaml"):
        with pytest.raises(SettingsError, match="which a pull request can change") as caught:
            found("stage", GIVEN, checkout, path=path)
        assert "in no Git repository with --config" in str(caught.value)


def test_the_settings_of_the_repository_around_a_submodule_are_a_pull_requests(
    checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "ours.yaml").write_text(FILE)
    with pytest.raises(SettingsError, match="which a pull request can change"):
        found("stage", GIVEN, checkout, path=checkout / ".." / "ours.yaml")


def test_a_file_beside_the_checkout_is_not(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(FILE)
    assert found("stage", GIVEN, checkout, path=checkout / ".." / "ours.yaml").token == SECRET


def test_without_anything_it_is_said_how_to_get_it(checkout: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        found(PYPI, {}, checkout)
    assert "there is no token for pypi" in str(caught.value)
    assert "pypa/gh-action-pypi-publish" in str(caught.value)
    with pytest.raises(SettingsError, match=r"package\.indexes\.here\.token_file"):
        found("here", {}, checkout)


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
