"""`spyre-ci prune` as it is typed: what goes, what stays and why, and the document for machines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import pytest

from ci.cli.app import run
from ci.errors import CommandError
from ci.runner.run_lock import run_lock
from tests.retention_world import make_record, make_run, make_tree, put, release_of

ROOT = Path(__file__).parent.parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "prune.json").read_text(encoding="utf-8"))
RUNS, STATE = Path("runs"), Path(".spyre-ci")


def no_engine(*_: object) -> NoReturn:
    raise CommandError("no container engine answers")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("ci.steps.pruning.find_on_engine", no_engine)
    now = time.time()
    for name, days in (("old", 90), ("older", 120), ("young", 1), ("latest", 0.5)):
        make_run(RUNS, name, days, now=now)
    Path("spyre-ci.yaml").write_text("retention: {runs: {keep_last: 1}}\n")


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """What the verb says to a machine, held to its schema."""
    capsys.readouterr()
    assert run(["prune", "--json", *words]) == code
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    told: dict[str, Any] = json.loads(out)
    jsonschema.validate(told, SCHEMA, format_checker=jsonschema.FormatChecker())
    assert told["exit_code"] == code
    return told


def removed(told: dict[str, Any]) -> list[str]:
    return sorted(one["name"] for one in told["removed"])


def left() -> list[str]:
    return sorted(path.name for path in RUNS.iterdir())


def test_a_dry_run_says_what_would_go_and_removes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = left()
    assert run(["prune", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("runs: old: older than 30 days, ") for line in lines)
    assert any(line.startswith("runs: 2 would go (") and line.endswith(" 2 stay") for line in lines)
    assert left() == before
    assert not STATE.exists()


def test_what_a_dry_run_says_is_what_goes(capsys: pytest.CaptureFixture[str]) -> None:
    said = asked(capsys, "--dry-run")
    assert removed(said) == ["old", "older"]
    done = asked(capsys)
    assert removed(done) == removed(said)
    assert left() == ["latest", "young"]
    assert [one | {"frees": 0} for one in done["kept"]] == [one | {"frees": 0} for one in said["kept"]]
    assert removed(asked(capsys)) == []


def test_kinds_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    make_record(STATE, 1, 90, now=time.time())
    assert removed(asked(capsys, "--only", "caches")) == [f"{1:064x}"]
    assert removed(asked(capsys, "--only", "runs", "--only", "caches", "--dry-run")) == ["old", "older"]


def test_flags_go_before_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert removed(asked(capsys, "--dry-run", "--keep-days", "100")) == ["older"]
    assert removed(asked(capsys, "--dry-run", "--keep-last", "3")) == ["older"]
    assert removed(asked(capsys, "--dry-run", "--keep-days", "1000", "--keep-gib", "0")) == [
        "old",
        "older",
        "young",
    ]
    Path("spyre-ci.yaml").write_text("retention: {runs: {keep_days: null, keep_last: 0, keep_gib: 0}}\n")
    assert removed(asked(capsys, "--dry-run")) == ["old", "older", "young"]


def test_a_run_that_somebody_works_in_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with run_lock(RUNS / "old", alone=False):
        for words in (["--dry-run"], []):
            told = asked(capsys, *words)
            assert removed(told) == ["older"]
            assert next(one["why"] for one in told["kept"] if one["name"] == "old") == "in use now"
    assert left() == ["latest", "old", "young"]


def test_what_a_release_names_stays(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path(".spyre-ci/records/release.json"), "release", release_of("old"))
    told = asked(capsys)
    assert removed(told) == ["older"]
    assert next(one["why"] for one in told["kept"] if one["name"] == "old") == "a release names it"


def test_a_broken_release_holds_all_it_might_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dist").mkdir()
    Path("dist/release.json").write_text("{")
    make_record(STATE, 1, 90, now=time.time())
    told = asked(capsys, code=3)
    assert removed(told) == [f"{1:064x}"]
    assert [one["path"].rpartition("/")[2] for one in told["broken_releases"]] == ["release.json"]
    assert run(["prune"]) == 3
    assert "release that cannot be read" in capsys.readouterr().out
    assert left() == ["latest", "old", "older", "young"]


def test_a_place_of_releases_that_is_not_there_holds_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spyre-ci.yaml").write_text("retention: {releases: [/nowhere/at/all]}\n")
    told = asked(capsys, code=3)
    assert removed(told) == []
    assert told["broken_releases"] == [{"path": "/nowhere/at/all", "why": "is not there"}]


def test_what_is_not_ours_is_told_and_left(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (RUNS / "notes").mkdir()
    (RUNS / "notes" / "run.json").write_text("{}")
    (RUNS / "list.txt").write_text("mine")
    make_run(tmp_path / "elsewhere", "linked", 400, now=time.time())
    (RUNS / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    (STATE / "cache" / "collect" / "zz").mkdir(parents=True)
    told = asked(capsys, "--keep-days", "0", "--keep-gib", "0", "--keep-last", "0")
    assert sorted(Path(one["path"]).name for one in told["foreign"]) == ["linked", "list.txt", "notes", "zz"]
    assert left() == ["latest", "linked", "list.txt", "notes"]
    assert (tmp_path / "elsewhere" / "linked" / "run.json").is_file()


def test_a_kind_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prune", "--only", "everything"]) == 2
    err = capsys.readouterr().err
    assert "--only names 'everything'" in err
    assert "remedy: name one of runs," in err


@pytest.mark.parametrize("words", [["--keep-days", "-1"], ["--keep-gib", "-1"], ["--keep-last", "-1"]])
def test_numbers_below_nought_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prune", *words]) == 2
    assert "greater than or equal to 0" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_days_that_are_no_number_are_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prune", "--keep-days", value, "--dry-run"]) == 2
    assert capsys.readouterr().err


def test_images_that_are_asked_for_want_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prune", "--only", "images"]) == 2
    assert "no container engine answers" in capsys.readouterr().err
    assert "images were not looked at" in asked(capsys, "--dry-run")["notes"][0]


def test_a_tree_goes_with_its_mark(capsys: pytest.CaptureFixture[str]) -> None:
    old = make_tree(STATE, "a" * 40, 90, now=time.time())
    new = make_tree(STATE, "b" * 40, 80, now=time.time())
    told = asked(capsys, "--only", "worktrees")
    assert removed(told) == [f"git-{'1' * 16}/{'a' * 40}"]
    assert sorted(path.name for path in old.parent.iterdir()) == [new.name, f"{new.name}.whole"]


def test_sources_stay_while_a_run_may_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(STATE, "a" * 40, 90, now=time.time())
    make_run(RUNS, "begun", 0.1, now=time.time(), summary=None)
    told = asked(capsys, "--only", "worktrees", "--keep-last", "0")
    assert removed(told) == []
    assert told["kept"][0]["why"] == "a run that has not ended may read it"
