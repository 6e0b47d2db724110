from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ci.config import Settings, load_settings
from ci.core.errors import BadFileError, MissingInputError, SettingsError, UsageError
from ci.hud.checks import check
from ci.hud.cli import app
from ci.hud.dispatched import Dispatch, keep
from ci.hud.making import FIELDS, Ways, ended_of, name_run
from ci.hud.payload import RunIdentity, check_run_of, nightly_completed
from ci.record.identity import EMULATED
from ci.store.identity import job_number, key_of_test, shard_key
from test_selection.files import write_json

SHARES = {
    "selected": {"count": 11, "of_count": 0.05, "seconds": 22.0, "of_seconds": 0.05},
    "run": {"count": 9, "of_count": 0.04, "seconds": 18.0, "of_seconds": 0.04},
    "passed": {"count": 6, "of_count": 0.02, "seconds": None, "of_seconds": None},
}


def details(identity: RunIdentity, **more: Any) -> dict[str, Any]:
    summary = {
        "identity": identity.model_dump(),
        "run": "r",
        "verdicts": {"passed": 1},
        "exit_code": 0,
        **more,
    }
    body = ended_of(summary, Ways(environ={}), path=Path("s"))
    assert check(body, repository="o/r") == []
    told: dict[str, Any] = body["payload"]["spyre_ci"]
    return told


def test_shares_cards_and_time_to_signal_are_told(identity: RunIdentity) -> None:
    told = details(identity, in_scope=220, in_scope_s=440.0, shares=SHARES, cards=128, first_failure_s=6.25)
    assert {key: told[key] for key in ("cards", "in_scope", "selected", "ran", "passed")} == {
        "cards": 128,
        "in_scope": 220,
        "selected": 11,
        "ran": 9,
        "passed": 6,
    }
    seconds = (
        "in_scope_seconds",
        "selected_seconds",
        "ran_seconds",
        "passed_seconds",
        "first_failure_seconds",
    )
    assert [told[key] for key in seconds] == [440.0, 22.0, 18.0, None, 6.25]


def test_a_run_of_the_emulated_device_says_so(identity: RunIdentity) -> None:
    summary = {"run": "r", "verdicts": {}, "exit_code": 0}
    for back_end, emulated in ((EMULATED, True), ("torch_spyre 1.2", False)):
        one = {**summary, "identity": {**identity.model_dump(), "back_end": back_end}}
        told = ended_of(one, Ways(environ={}), path=Path("s"))["payload"]["spyre_ci"]
        assert told.get("emulated", False) is emulated


def test_a_summary_without_them_leaves_them_out(identity: RunIdentity) -> None:
    told = details(identity)
    assert all(told[key] is None for key in ("cards", "in_scope", "selected", "first_failure_seconds"))
    # 0 in scope is nobody's count.
    assert details(identity, in_scope=0)["in_scope"] is None


@pytest.mark.parametrize("shares", [[], "x", {"run": 7}, {"run": {}}])
def test_shares_that_are_none_are_refused_or_passed_over(identity: RunIdentity, shares: Any) -> None:
    summary = {
        "identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0, "shares": shares,
    }  # fmt: skip
    if not shares:
        assert ended_of(summary, Ways(environ={}), path=Path("s"))
        return
    with pytest.raises(BadFileError):
        ended_of(summary, Ways(environ={}), path=Path("s"))


def test_a_detail_that_does_not_hold_is_named_before_it_is_sent(identity: RunIdentity) -> None:
    summary = {"identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0, "cards": -1}
    reasons = check(ended_of(summary, Ways(environ={}), path=Path("s")), repository="o/r")
    assert reasons == ["payload.spyre_ci.cards: Input should be greater than or equal to 0 (seen: -1)"]


def test_an_artifacts_user_and_password_are_not_told(identity: RunIdentity) -> None:
    summary = {"identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0}
    environ = {"SPYRE_CI_ARTIFACT_URL": "https://me:hunter2@a.example/r?X-Amz-Signature=1"}
    body = ended_of(summary, Ways(environ=environ), path=Path("s"))
    assert body["workflow"]["artifact_url"] == "https://a.example/r?X-Amz-Signature=1"


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_JOB": "pytorch",
    "GITHUB_WORKFLOW": "Nightly: main",
}


@pytest.fixture
def run_dir(tmp_path: Path, identity: RunIdentity) -> Path:
    write_json(tmp_path / "runs" / "r1" / "run.json", "run", identity.model_dump())
    return tmp_path / "runs" / "r1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(path=None, environ={}, flags={}, cwd=tmp_path)


def test_a_run_is_named_as_its_report_names_it(run_dir: Path, identity: RunIdentity) -> None:
    named = name_run(run_dir, repository="o/r", environ={}, epoch_s=0)
    workflow = nightly_completed(identity, run="r", verdicts={}, exit_code=0)
    told = workflow["workflow"]
    assert named == {
        "run_id": "4242",
        "run_attempt": "1",
        "check_run_id": told["check_run_id"],
        "job_id": str(job_number(told["check_run_id"], repository="o/r")),
        "workflow": told["name"],
        "job_name": told["job_name"],
        "delivery_id": workflow["delivery_id"],
        "shard_key": "",
        "test_key": "",
    }


def test_shard_and_test_are_named(run_dir: Path) -> None:
    named = name_run(run_dir, repository="o/r", environ={}, epoch_s=0, shard=3, test="a.py::A::b")
    assert named["shard_key"] == shard_key(4242, 1, 3) == "4242-1-3"
    assert named["test_key"] == str(key_of_test("a.py::A::b"))


def test_the_environment_alone_names_a_job_of_github() -> None:
    named = name_run(None, repository="o/r", environ={**GITHUB, "SPYRE_CI_CHECK_RUN_ID": "123"}, epoch_s=5)
    assert [named[key] for key in ("run_id", "run_attempt", "check_run_id", "job_id")] == [
        "77",
        "2",
        "123",
        "123",
    ]
    assert (named["workflow"], named["job_name"], named["delivery_id"]) == ("Nightly- main", "", "")


def test_what_only_a_run_can_tell_is_empty_before_there_is_one() -> None:
    named = name_run(None, repository="o/r", environ=GITHUB, epoch_s=5)
    assert (named["check_run_id"], named["job_id"], named["job_name"]) == ("", "", "")


def test_no_value_makes_a_line_of_its_own() -> None:
    named = name_run(
        None, repository="o/r", environ={**GITHUB, "SPYRE_CI_CHECK_RUN_ID": "1\nrun_id=2"}, epoch_s=5
    )
    assert named["check_run_id"] == "1 run_id=2"


def test_without_a_ci_the_epoch_second_is_the_run() -> None:
    assert name_run(None, repository="o/r", environ={}, epoch_s=1234.5)["run_id"] == "1234"


def test_a_dispatched_run_has_the_dispatchs_delivery_and_check_run(run_dir: Path) -> None:
    keep(run_dir, Dispatch(client_payload={"delivery_id": "d-1", "event_type": "x"}, check_run_id="9"))
    named = name_run(run_dir, repository="o/r", environ={"SPYRE_CI_CHECK_RUN_ID": "other"}, epoch_s=0)
    assert (named["delivery_id"], named["check_run_id"]) == ("d-1", "9")


def test_a_dispatched_job_has_its_delivery_from_the_event(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"client_payload": {"delivery_id": "d-1", "event_type": "x"}}))
    assert name_run(None, repository="o/r", environ={}, epoch_s=1, event_file=event)["delivery_id"] == "d-1"


def test_the_verb_prints_lines_json_or_one_field(
    run_dir: Path, settings: Settings, identity: RunIdentity
) -> None:
    def printed(*words: str) -> str:
        result = CliRunner().invoke(app, ["identity", *words], obj=settings)
        assert result.exit_code == 0
        return result.stdout

    assert printed(str(run_dir)).splitlines()[:2] == ["run_id=4242", "run_attempt=1"]
    assert printed("latest", "--field", "check_run_id") == f"{check_run_of(identity)}\n"
    assert list(json.loads(printed("r1", "--json"))) == ["schema", *FIELDS]
    assert printed("r1", "--shard", "0", "--field", "shard_key") == "4242-1-0\n"
    assert json.loads(printed("r1", "--json", "--field", "run_id")) == "4242"


def test_a_field_that_is_none_is_refused_with_those_there_are(run_dir: Path, settings: Settings) -> None:
    result = CliRunner().invoke(app, ["identity", str(run_dir), "--field", "x"], obj=settings)
    assert isinstance(result.exception, UsageError)
    assert "name one of run_id, run_attempt" in str(result.exception)


@pytest.mark.parametrize(
    ("named", "said"), [("gone", "no such run folder"), ("latest", "no run with a run.json")]
)
def test_a_run_that_is_not_there_is_said(settings: Settings, named: str, said: str) -> None:
    result = CliRunner().invoke(app, ["identity", named], obj=settings)
    assert isinstance(result.exception, MissingInputError)
    assert said in str(result.exception)


def test_a_shard_beyond_what_a_number_holds_is_refused(settings: Settings) -> None:
    result = CliRunner().invoke(app, ["identity", "--shard", str(2**53)], obj=settings)
    assert result.exit_code == 2
    assert "--shard" in result.output
    assert str(2**53 - 1) in result.output


@pytest.mark.parametrize(("number", "shard"), [(1, 0), (2**53 - 1, 2047)])
def test_a_shard_key_is_fit_for_a_file_name(number: int, shard: int) -> None:
    assert shard_key(number, 1, shard).replace("-", "").isdigit()


def test_keys_of_shards_differ() -> None:
    made: Callable[[int, int, int], str] = shard_key
    assert len({made(*key) for key in [(1, 11, 1), (11, 1, 1), (1, 1, 11), (1, 1, 1)]}) == 4


def test_an_environment_no_ci_sets_is_said() -> None:
    wrong = {**GITHUB, "GITHUB_RUN_ID": "9" * 30}
    with pytest.raises(SettingsError, match="run_id: Input should be less than") as caught:
        name_run(None, repository="o/r", environ=wrong, epoch_s=1)
    assert caught.value.where == "the environment of github"
