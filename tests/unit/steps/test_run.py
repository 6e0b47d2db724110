"""Whether a host shares, where, and what it must not be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.core.errors import MissingInputError, SettingsError
from ci.record.identity import RunIdentity, write_identity
from ci.steps.context import Context
from ci.steps.run import claims_of


def context(desk: Path, environ: dict[str, str] | None = None, **run: Any) -> Context:
    settings = load_settings(
        path=None, environ=environ or {}, flags={f"run.{key}": value for key, value in run.items()}, cwd=desk
    )
    return Context(
        settings=settings, environ=environ or {}, clock=lambda: 1.0, monotonic=lambda: 2.0,
        console=Console(record=True, quiet=True), cores=2,
    )  # fmt: skip


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A plan's folder that says which run it is of."""
    identity = RunIdentity(
        run="20260101-nightly", run_id=7, run_attempt=2, device="cpu", pytorch_version="2", pytorch_sha="x",
        stage=None, percent=100, started_at=0.0,
    )  # fmt: skip
    write_identity(tmp_path, identity)
    return tmp_path


def test_hosts_meet_by_the_name_of_the_run_where_the_settings_say(beside: Path) -> None:
    found = claims_of(context(beside, share="claims", share_lease_s=7.0), beside)
    assert found is not None
    assert (found.where, found.run, found.lease_s) == (str(beside / "claims"), "20260101-nightly-2", 7.0)


def test_without_a_share_and_with_static_every_host_is_by_itself(beside: Path) -> None:
    assert claims_of(context(beside), beside) is None
    assert claims_of(context(beside, share="claims", static=True), beside) is None


def test_a_job_that_is_run_once_more_runs_its_shards_by_itself(beside: Path) -> None:
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ATTEMPT": "3"}
    assert claims_of(context(beside, environ, share="claims"), beside) is None
    environ["GITHUB_RUN_ATTEMPT"] = "2"
    assert claims_of(context(beside, environ, share="claims"), beside) is not None


def test_a_plan_of_no_run_is_not_shared(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="the plan's run is unknown") as told:
        claims_of(context(tmp_path, share="claims"), tmp_path)
    assert "run.json" in str(told.value.remedy)


def test_a_password_is_taken_from_the_environment_or_a_file(beside: Path) -> None:
    url = "redis://host/0"
    (beside / "password").write_text(" from file\n")
    by_file = claims_of(context(beside, share=url, share_password_file="password"), beside)
    environ = {"SPYRE_CI_SHARE_PASSWORD": "from environment"}
    by_both = claims_of(context(beside, environ, share=url, share_password_file="password"), beside)
    neither = claims_of(context(beside, share=url), beside)
    found = [one and one.password for one in (by_file, by_both, neither)]
    assert found == ["from file", "from environment", None]


def test_a_password_in_the_address_is_taken_from_the_environment_alone(beside: Path) -> None:
    url = "redis://:hidden@host/0"
    found = claims_of(context(beside, {"SPYRE_CI__RUN__SHARE": url}), beside)
    assert found is not None
    assert found.where == url
    (beside / "spyre-ci.yaml").write_text(f"run:\n  share: {url}\n")
    with pytest.raises(SettingsError, match="settings files are committed") as told:
        claims_of(context(beside), beside)
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize("query", ["?password=hidden", "?db=1&p%61ssword=hidden"])
def test_a_password_in_a_query_does_not_stand_in_settings_files_either(beside: Path, query: str) -> None:
    (beside / "spyre-ci.yaml").write_text(f"run:\n  share: redis://host/0{query}\n")
    with pytest.raises(SettingsError, match="settings files are committed") as told:
        claims_of(context(beside), beside)
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize("by_file", [False, True])
def test_a_password_is_not_sent_to_an_address_a_pull_request_can_change(beside: Path, by_file: bool) -> None:
    (beside / "password").write_text("hidden")
    named = "  share_password_file: password\n" if by_file else ""
    (beside / "spyre-ci.yaml").write_text(f"run:\n  share: redis://evil.example/0\n{named}")
    environ = {} if by_file else {"SPYRE_CI_SHARE_PASSWORD": "hidden"}
    with pytest.raises(SettingsError, match="not sent to redis://evil") as told:
        claims_of(context(beside, environ), beside)
    assert "hidden" not in str(told.value)
    assert "SPYRE_CI__RUN__SHARE" in str(told.value.remedy)
    environ["SPYRE_CI__RUN__SHARE"] = "redis://good.example/0"
    found = claims_of(context(beside, environ), beside)
    assert found is not None
    assert (found.where, found.password) == ("redis://good.example/0", "hidden")


def test_an_address_of_the_settings_file_without_a_password_is_as_good(beside: Path) -> None:
    (beside / "spyre-ci.yaml").write_text("run:\n  share: redis://host/0\n")
    found = claims_of(context(beside), beside)
    assert found is not None
    assert found.password is None


@pytest.mark.parametrize(
    ("content", "said"), [(None, "there is no password file"), (" \n", "the password file is empty")]
)
def test_a_password_file_that_holds_none_is_told_of(beside: Path, content: str | None, said: str) -> None:
    if content is not None:
        (beside / "password").write_text(content)
    with pytest.raises((MissingInputError, SettingsError), match=said):
        claims_of(context(beside, share="redis://host", share_password_file="password"), beside)


def test_a_password_file_that_cannot_be_read_is_told_of(beside: Path) -> None:
    (beside / "password").mkdir()
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        claims_of(context(beside, share="redis://host", share_password_file="password"), beside)
