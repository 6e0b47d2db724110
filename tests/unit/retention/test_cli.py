"""`spyre-ci prune` as it is typed: what goes, what stays and why, and the document for machines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from filelock import FileLock

from ci.cli.app import run
from ci.core.errors import CommandError
from ci.core.locks import run_lock
from ci.record.identity import RunIdentity
from ci.record.reproduction import FILE, KIND, content_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.history import History
from tests.json_documents import differences
from tests.past_runs import record
from tests.retention_world import DAY_S, age, make_record, make_run, make_tree, put, release_of

ROOT = Path(__file__).parent.parent.parent.parent
RUNS, STATE = Path("runs"), Path(".spyre-ci")


def no_engine(*_: object) -> NoReturn:
    raise CommandError("no container engine answers")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("ci.retention.prune.find_on_engine", no_engine)
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
    assert differences("prune", told) == []
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
    assert removed(asked(capsys, "--only", "caches")) == [f"01/{1:064x}.json.gz"]
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


def test_a_broken_release_holds_all_it_might_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dist").mkdir()
    Path("dist/release.json").write_text("{")
    make_record(STATE, 1, 90, now=time.time())
    told = asked(capsys, code=3)
    assert removed(told) == [f"01/{1:064x}.json.gz"]
    assert [one["path"].rpartition("/")[2] for one in told["broken_releases"]] == ["release.json"]
    assert run(["prune"]) == 3
    assert "release that cannot be read" in capsys.readouterr().out
    assert left() == ["latest", "old", "older", "young"]


def test_a_place_of_releases_that_is_not_there_holds_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spyre-ci.yaml").write_text("retention: {releases: [/nowhere/at/all]}\n")
    told = asked(capsys, code=3)
    assert removed(told) == []
    assert told["broken_releases"] == [{"path": "/nowhere/at/all", "why": "is not found"}]


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


def old_history() -> list[str]:
    """Three runs that were recorded long ago; what the history calls them."""
    now, path = time.time(), STATE / "store.sqlite"
    for number, days in enumerate((400, 300, 1)):
        result = Result(id=f"t{number}", verdict=Verdict.PASSED, seconds=1.0, attempts=1)
        who = RunIdentity(
            run=f"r{number}", run_id=number + 1, run_attempt=1, device="spyre", pytorch_version="2",
            pytorch_sha="c", stage=1, percent=5.0, started_at=now - days * DAY_S,
        )  # fmt: skip
        record(path, who, [result], {})
    return runs_left()


def runs_left() -> list[str]:
    with History(STATE / "store.sqlite").reading() as (_, file):
        rows = file.tuples("SELECT run FROM job_detail JOIN crcr_workflow_job USING (dynamoKey) ORDER BY id")
    return [run for (run,) in rows]


def test_the_history_goes_by_its_own_days_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert old_history() == ["r0", "r1", "r2"]
    Path("spyre-ci.yaml").write_text("retention: {store: {keep_last: 0}}\nstore: {keep_days: 350}\n")
    assert removed(asked(capsys, "--dry-run", "--keep-days", "0", "--only", "store")) == [
        "r0#1", "r1#2", "r2#3",
    ]  # fmt: skip
    assert [
        one["name"] for one in asked(capsys, "--keep-days", "0")["removed"] if one["kind"] == "store"
    ] == ["r0#1"]
    assert runs_left() == ["r1", "r2"]


def test_the_history_goes_by_size_too(capsys: pytest.CaptureFixture[str]) -> None:
    old_history()
    assert removed(asked(capsys, "--only", "store", "--keep-gib", "0", "--keep-last", "1")) == [
        "r0#1",
        "r1#2",
    ]


def test_a_run_of_the_history_that_a_release_names_stays(capsys: pytest.CaptureFixture[str]) -> None:
    old_history()
    put(Path("dist/release.json"), "release", release_of("r0"))
    Path("spyre-ci.yaml").write_text("retention: {store: {keep_last: 0}}\n")
    assert removed(asked(capsys, "--only", "store")) == ["r1#2"]
    assert runs_left() == ["r0", "r2"]
    Path("dist/release.json").write_text("{")
    assert removed(asked(capsys, "--only", "store", "--keep-days", "0", code=3)) == []
    assert runs_left() == ["r0", "r2"]


def test_a_history_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    STATE.mkdir()
    (STATE / "store.sqlite").write_text("no database at all, but long enough to be looked at " * 20)
    assert run(["prune", "--only", "store"]) == 2
    assert "is no store of results" in capsys.readouterr().err


def test_what_cannot_be_removed_is_told_and_the_rest_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "older":
            raise PermissionError(1, "Operation not permitted", str(self))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    told = asked(capsys, code=3)
    assert removed(told) == ["old"]
    (failed,) = told["failed"]
    assert failed["path"].endswith("runs/older")
    assert failed["why"] == (
        "cannot be removed: Operation not permitted (see to the rights of its folder, then prune again)"
    )
    assert left() == ["latest", "older", "young"]
    assert run(["prune"]) == 3
    assert "not removed: " in capsys.readouterr().out


def test_one_prune_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    STATE.mkdir()
    with FileLock(STATE / "prune.lock"):
        assert run(["prune"]) == 3
        assert "another prune is at work here" in capsys.readouterr().err
        asked(capsys, "--dry-run")
    assert "old" in left()


def test_an_interrupt_leaves_whole_runs_and_the_next_one_finishes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.trash.shutil.rmtree", interrupted)
        assert run(["prune"]) == 130
    seen = left()
    assert len([name for name in seen if name.startswith(".spyre-ci-trash-")]) == 1
    assert len([name for name in seen if not name.startswith(".")]) == 3
    told = asked(capsys)
    assert len(told["finished"]) == 1
    assert left() == ["latest", "young"]


def test_trash_in_what_bisects_built_is_finished_too(capsys: pytest.CaptureFixture[str]) -> None:
    trash = STATE / "bisect" / "0123456789ab" / ".spyre-ci-trash-x"
    put(trash / "trash.json", "trash", {"was": "c" * 40})
    (trash / "it").mkdir()
    assert asked(capsys)["finished"] == [str(trash.resolve())]
    assert not trash.exists()


def test_names_of_folders_command_neither_a_terminal_nor_a_ci(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    make_run(RUNS, "\n::error::x\x1b[31m[bold]", 90, now=time.time())
    (RUNS / "\r##[error]y").mkdir()
    assert run(["prune", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "[bold]" in out
    assert "\x1b" not in out
    assert not any(line.startswith("::") or "##[" in line for line in out.splitlines())


def test_a_name_that_is_no_text_is_told_and_goes(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(RUNS, "r\udc80", 90, now=time.time())
    assert "r\udc80" in removed(asked(capsys, "--dry-run"))
    assert run(["prune"]) == 0
    assert left() == ["latest", "young"]


def test_cut_off_runs_go_only_where_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(RUNS, "cut", 90, now=time.time(), summary=None)
    assert "cut" not in removed(asked(capsys, "--dry-run", "--keep-gib", "0"))
    assert "cut" not in removed(
        asked(capsys, "--dry-run", "--cut-off", "--keep-days", "100", "--keep-gib", "0")
    )
    assert "cut" in removed(asked(capsys, "--cut-off"))


def test_a_run_whose_reproduction_stays_stays(capsys: pytest.CaptureFixture[str]) -> None:
    put(RUNS / "again" / FILE, KIND, content_of("t", "old", None))
    for words in ([], ["--only", "runs"]):
        told = asked(capsys, "--dry-run", *words)
        assert removed(told) == ["older"]
    put(RUNS / "again" / FILE, KIND, content_of("t", "old", []))
    age(RUNS / "again", 80, now=time.time())
    assert removed(asked(capsys)) == ["again", "old", "older"]


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


def test_a_tree_that_was_just_used_stays(capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(STATE, "a" * 40, 0.1, now=time.time())
    told = asked(capsys, "--only", "worktrees", "--keep-last", "0", "--keep-days", "0")
    assert removed(told) == []
    assert told["kept"][0]["why"] == "somebody may be reading it"


def test_sources_stay_while_a_run_may_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    make_tree(STATE, "a" * 40, 90, now=time.time())
    make_run(RUNS, "begun", 0.1, now=time.time(), summary=None)
    told = asked(capsys, "--only", "worktrees", "--keep-last", "0")
    assert removed(told) == []
    assert told["kept"][0]["why"] == "a run that has not ended may read it"
