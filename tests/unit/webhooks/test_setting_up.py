from __future__ import annotations

from pathlib import Path

import pytest

from ci.config.recipient import check_recipient
from ci.core.errors import MissingInputError, SettingsError
from ci.core.secrets import secret
from ci.core.withheld import without_job_secrets
from ci.webhooks.setting_up import hook_secret

NAME = "SPYRE_CI_WEBHOOK_SECRET"
LONG = "correct-horse-battery"


def test_a_secret_is_the_variables_or_that_of_the_file_it_names(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{LONG}\n", encoding="utf-8")
    assert secret({NAME: f" {LONG}\n"}, NAME, "secret") == LONG
    assert secret({f"{NAME}_FILE": str(file)}, NAME, "secret") == LONG
    assert secret({NAME: "other", f"{NAME}_FILE": str(file)}, NAME, "secret") == "other"


def test_a_secret_that_is_missing_is_told_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"{NAME}: there is no secret of the webhook") as caught:
        hook_secret({NAME: "  "}, NAME)
    assert f"{NAME}_FILE" in str(caught.value)
    with pytest.raises(MissingInputError, match="there is no secret of the webhook file"):
        hook_secret({f"{NAME}_FILE": str(tmp_path / "none")}, NAME)


@pytest.mark.parametrize(
    ("bad", "told"), [("short", "fewer than 16 characters"), ("a b" * 9, "holds blanks")]
)
def test_a_secret_that_cannot_be_taken_is_not_repeated(bad: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        hook_secret({NAME: bad}, NAME)
    assert bad not in str(caught.value)


def test_a_token_goes_to_github_and_to_hosts_the_environment_names() -> None:
    check_recipient({}, "https://api.github.com", "token")
    told = {"SPYRE_CI_TRUSTED_HOSTS": "Other.example.com, GitHub.example.com:8443"}
    check_recipient(told, "https://github.example.com:8443/api/v3", "token")
    for address in (
        "https://github.example.com/api/v3",
        "https://api.github.com.evil.org",
        "https://api.github.com:444",
        "http://api.github.com",
    ):
        with pytest.raises(SettingsError, match="SPYRE_CI_TRUSTED_HOSTS: the token is not sent to"):
            check_recipient(told, address, "token")


def test_tests_see_none_of_these_secrets() -> None:
    names = ("SPYRE_CI_WEBHOOK_SECRET", "SPYRE_CI_JENKINS_TOKEN", "SPYRE_CI_GITHUB_TOKEN_ENTERPRISE", "HOME")
    assert set(without_job_secrets(dict.fromkeys(names, "x"))) == {"HOME"}
