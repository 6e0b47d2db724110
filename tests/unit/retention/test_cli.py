"""`spyre-ci prune` as it is typed: what goes, what stays and why, and the document for machines."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from docker.errors import NotFound
from filelock import FileLock

from ci.cli.app import run
from ci.core.container_engine import engine
from ci.core.errors import CommandError
from ci.core.locks import run_lock
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.history import History
from ci.retention.rules import Decision
from ci.retention.stored_runs import forget
from ci.store.database import moment
from tests.json_documents import differences
from tests.past_runs import record
from tests.retention_world import DAY_S, make_record, make_run, make_tree, put, release_of

RUNS, STATE = Path("runs"), Path(".spyre-ci")
ALL = ("--keep-days", "0", "--keep-gib", "0", "--keep-last", "0")


def no_engine(*_: object, **__: object) -> NoReturn:
    raise CommandError("no container engine answers")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("ci.retention.prune.engine", no_engine)
    now = time.time()
    for name, days in (("old", 90), ("older", 120), ("young", 2), ("latest", 0.5)):
        make_run(RUNS, name, days, now=now)
    make_run(RUNS, "cut", 60, now=now, summary=None)
    Path("spyre-ci.yaml").write_text("retention: {runs: {keep_last: 1}}\n")


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """What the verb says to a machine."""
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


def test_what_a_dry_run_says_is_what_goes(capsys: pytest.CaptureFixture[str]) -> None:
    before = left()
    assert run(["prune", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("runs: old: older than 30 days, ") for line in lines)
    assert any(line.startswith("runs: 2 would be removed (") and line.endswith("), 3 kept") for line in lines)
    assert "  1 kept: `latest` means it" in lines
    assert "images were left out: no container engine answers" in lines
    said = asked(capsys, "--dry-run")
    assert left() == before
    assert not STATE.exists()
    done = asked(capsys)
    assert removed(said) == removed(done) == ["old", "older"]
    assert done["kept"] == said["kept"]
    assert done["kinds"]["runs"]["freed"] == sum(one["frees"] for one in done["removed"]) > 0
    assert left() == ["cut", "latest", "young"]
    assert removed(asked(capsys)) == []


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--keep-days", "100"], ["older"]),
        (["--keep-last", "4"], ["older"]),
        (["--keep-days", "1000", "--keep-gib", "0"], ["old", "older", "young"]),
        (["--only", "runs"], ["old", "older"]),
        (["--only", "caches"], [f"01/{1:064x}.json.gz"]),
        (["--unfinished", "--only", "runs"], ["cut", "old", "older"]),
        (["--unfinished", "--only", "runs", "--keep-days", "61"], ["old", "older"]),
    ],
)
def test_flags_go_before_settings_and_settings_before_defaults(
    words: list[str], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if "caches" in words:
        make_record(STATE, 1, 90, now=time.time())
    assert removed(asked(capsys, "--dry-run", *words)) == names
    Path("spyre-ci.yaml").write_text("retention: {runs: {keep_days: null, keep_last: 0, keep_gib: 0}}\n")
    assert removed(asked(capsys, "--dry-run", "--only", "runs")) == ["old", "older", "young"]


def test_a_dry_run_says_what_is_in_use_and_what_that_names(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(RUNS, "old", 90, now=time.time(), identity={"reproduce": ["--resume", "older"]})
    with run_lock(RUNS / "old", alone=False):
        told = asked(capsys, "--dry-run")
        assert removed(told) == removed(asked(capsys)) == []
    whys = {one["name"]: one["why"] for one in told["kept"]}
    assert (whys["old"], whys["older"]) == ("in use", "old names it, and stays")
    assert removed(asked(capsys)) == ["old", "older"]


@pytest.mark.parametrize(
    ("days", "at_work", "stays"), [(0.5, False, True), (5, True, True), (5, False, False)]
)
def test_a_worktree_stays_while_a_run_has_not_ended(
    days: float, capsys: pytest.CaptureFixture[str], *, at_work: bool, stays: bool
) -> None:
    make_tree(STATE, "a" * 40, 90, now=time.time())
    make_run(RUNS, "cut", days, now=time.time(), summary=None)
    with run_lock(RUNS / "cut", alone=False) if at_work else nullcontext():
        told = asked(capsys, "--only", "worktrees", "--keep-days", "30", "--keep-last", "0")
    assert [one["why"] for one in told["kept"]] == ["a run that has not ended may use it"] * stays


@pytest.mark.parametrize("broken", ["dist/release.json", "/nowhere/at/all"])
def test_a_release_that_cannot_be_read_keeps_all_that_it_may_name(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if broken.startswith("/"):
        Path("spyre-ci.yaml").write_text(f"retention: {{releases: [{broken}]}}\n")
    else:
        Path("dist").mkdir()
        Path(broken).write_text("{")
    make_record(STATE, 1, 90, now=time.time())
    told = asked(capsys, *ALL, code=3)
    assert removed(told) == [f"01/{1:064x}.json.gz"]
    assert [one["path"].endswith(broken) for one in told["broken_releases"]] == [True]
    assert run(["prune"]) == 3
    assert "release that cannot be read, so nothing that it may name is removed: " in capsys.readouterr().out
    assert len(left()) == 5


def test_what_is_not_ours_is_told_and_left(capsys: pytest.CaptureFixture[str]) -> None:
    (RUNS / "notes").mkdir()
    (RUNS / "list.txt").write_text("mine")
    told = asked(capsys, *ALL)
    assert [Path(one["path"]).name for one in told["foreign"]] == ["list.txt", "notes"]
    assert left() == ["cut", "latest", "list.txt", "notes"]
    assert run(["prune"]) == 0
    assert f"left alone: {Path('runs/notes').resolve()}: not of spyre-ci" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "everything"], "--only names 'everything'\n  remedy: name one of runs, "),
        (["--keep-days", "-1"], "greater than or equal to 0"),
        (["--keep-gib", "-1"], "greater than or equal to 0"),
        (["--keep-last", "-1"], "greater than or equal to 0"),
        (["--keep-days", "nan", "--dry-run"], "less than or equal to 36500"),
        (["--keep-days", "inf", "--dry-run"], "less than or equal to 36500"),
    ],
)
def test_what_cannot_be_taken_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prune", *words]) == 2
    assert said in capsys.readouterr().err


def test_images_by_name_want_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prune", "--only", "images"]) != 0
    assert "no container engine answers" in capsys.readouterr().err


def test_an_engine_that_fails_while_it_lists_costs_only_images(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(**_: object) -> NoReturn:
        raise NotFound("No such image: theirs")

    client = SimpleNamespace(containers=SimpleNamespace(list=gone), close=lambda: None)
    monkeypatch.setattr("ci.core.container_engine.docker.DockerClient", lambda **_: client)
    monkeypatch.setattr("ci.retention.prune.engine", engine)
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine.invalid:2375")
    told = asked(capsys)
    assert removed(told) == ["old", "older"]
    assert told["notes"] == ["images were left out: the container engine reports: No such image: theirs"]


def stored() -> list[str]:
    with History(STATE / "store.sqlite").reading() as (_, file):
        rows = file.tuples("SELECT run FROM job_detail JOIN crcr_workflow_job USING (dynamoKey) ORDER BY id")
    return [run for (run,) in rows]


@pytest.fixture
def _stored() -> None:
    """Three runs of the store of results: r0 of 400 days ago, r1 of 300, r2 of one."""
    for number, days in enumerate((400, 300, 1)):
        result = Result(id=f"t{number}", verdict=Verdict.PASSED, seconds=1.0, attempts=1)
        who = RunIdentity(
            run=f"r{number}", run_id=number + 1, run_attempt=1, device="spyre", pytorch_version="2",
            pytorch_sha="c", stage=1, percent=5.0, started_at=time.time() - days * DAY_S,
        )  # fmt: skip
        record(STATE / "store.sqlite", who, [result], {})
    put(Path("dist/release.json"), "release", release_of("none"))


@pytest.mark.usefixtures("_stored")
@pytest.mark.parametrize(
    ("words", "stay"),
    [
        # What a cache may lose in a week, results may not.
        (ALL, ["r1", "r2"]),
        (["--only", "store"], ["r1", "r2"]),
        (["--only", "store", "--keep-days", "0"], []),
        (["--only", "store", "--keep-gib", "0", "--keep-last", "1"], ["r2"]),
        (["--only", "store", "--keep-days", "0", "--dry-run"], ["r0", "r1", "r2"]),
    ],
)
def test_the_store_has_its_own_days_unless_it_is_named(
    words: list[str], stay: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("spyre-ci.yaml").write_text("retention: {store: {keep_last: 0}}\nstore: {keep_days: 350}\n")
    told = asked(capsys, *words)
    gone = [one["name"] for one in told["removed"] if one["kind"] == "store"]
    assert stored() == stay
    if "--dry-run" not in words:
        assert gone == [name for name in ("r0#1", "r1#2", "r2#3") if name[:2] not in stay]


@pytest.mark.usefixtures("_stored")
def test_a_stored_run_that_a_release_names_stays(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path("dist/release.json"), "release", release_of("r0"))
    asked(capsys, "--only", "store", *ALL)
    assert stored() == ["r0"]
    Path("dist/release.json").write_text("{")
    asked(capsys, "--only", "store", *ALL, code=3)
    assert stored() == ["r0"]


@pytest.mark.usefixtures("_stored")
def test_a_job_that_reports_meanwhile_stays_in_the_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, list[str]]] = []

    def meanwhile(*words: Any, **more: Any) -> list[Decision]:
        with closing(sqlite3.connect(STATE / "store.sqlite")) as connection, connection:
            connection.execute(
                "UPDATE crcr_workflow_job SET _inserted_at = ? WHERE id = 1", (moment(time.time()),)
            )
        time.sleep(0.01)
        return forget(*words, **more)

    def noted(line: str) -> str:
        said.append((line, stored()))
        return line

    monkeypatch.setattr("ci.retention.prune.forget", meanwhile)
    monkeypatch.setattr("ci.retention.prune.escaped", noted)
    assert run(["prune", "--only", "store", "--keep-days", "0", "--keep-last", "0"]) == 0
    assert stored() == ["r0"]
    assert "  1 kept: reported meanwhile" in capsys.readouterr().out
    gone = [(line.split("#")[0], left) for line, left in said if line.startswith("store: ")]
    assert gone == [("store: r1", ["r0"]), ("store: r2", ["r0"])]


def test_a_store_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    STATE.mkdir()
    (STATE / "store.sqlite").write_text("no database at all, but long enough to be looked at " * 20)
    assert run(["prune", "--only", "store"]) == 2
    assert "is no store of results" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["rename", "rmtree"])
def test_what_cannot_be_removed_is_told_and_the_rest_goes(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Path if what == "rename" else shutil
    real = getattr(owner, what)

    def refuse(path: Path, *rest: object) -> object:
        inside = path / "summary.json" if what == "rmtree" else path
        if "older" in (inside.read_text() if inside.is_file() else inside.name):
            raise PermissionError(1, "Operation not permitted", str(path))
        return real(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(owner, what, refuse)
        told = asked(capsys, code=3)
        assert removed(told) == ["old"]
        (failed,) = told["failed"]
        assert failed["path"].endswith("runs/older")
        why = "Operation not permitted (check the permissions of its folder, then prune again)"
        assert failed["why"] == why
        assert run(["prune"]) == 3
        assert f": {why}" in capsys.readouterr().out
        assert ("older" in left()) == (what == "rename"), "a part of a run is seen"
    asked(capsys)
    assert left() == ["cut", "latest", "young"]


def test_one_prune_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    STATE.mkdir()
    with FileLock(STATE / "prune.lock"):
        assert run(["prune"]) == 3
        assert "another prune is running" in capsys.readouterr().err
        asked(capsys, "--dry-run")
    assert "old" in left()


def test_an_interrupt_leaves_whole_runs_and_the_next_one_finishes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.disk.shutil.rmtree", interrupted)
        assert run(["prune"]) == 130
    assert len([name for name in left() if name.startswith(".spyre-ci-trash-")]) == 1
    assert len([name for name in left() if not name.startswith(".")]) == 4
    # Trash of the state folder is finished as well.
    places = ("cache/collect/00", "sources", "sources/git-0/trees", "bisect/0123456789ab", "reproduce")
    for place in places:
        (STATE / place / f".spyre-ci-trash-{'0' * 32}").mkdir(parents=True)
    mounted = RUNS.resolve() / f".spyre-ci-trash-{'1' * 32}" / "in"
    mounted.mkdir(parents=True)
    said = asked(capsys, "--dry-run")
    assert (len(said["removed"]), len(said["finished"])) == (1, 2 + len(places))
    with monkeypatch.context() as patch:
        patch.setattr("ci.retention.disk.mount_points", lambda: [str(mounted)])
        told = asked(capsys, code=3)
    assert len(told["finished"]) == 1 + len(places)
    assert [one["why"] for one in told["failed"]] == ["something is mounted in it"]
    assert run(["prune"]) == 0
    assert f"deleted what an interrupted prune left: {mounted.parent}" in capsys.readouterr().out
    assert left() == ["cut", "latest", "young"]


def test_names_of_folders_command_neither_a_terminal_nor_a_ci(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    make_run(RUNS, "\n::error::x\x1b[31m[bold]", 90, now=time.time())
    make_run(RUNS, "r\udc80", 90, now=time.time())
    (RUNS / "\r##[error]y").mkdir()
    assert "r\udc80" in removed(asked(capsys, "--dry-run"))
    assert run(["prune"]) == 0
    out = capsys.readouterr().out
    assert "[bold]" in out
    assert "\x1b" not in out
    assert not any(line.startswith("::") or "##[" in line for line in out.splitlines())
    assert left() == ["\r##[error]y", "cut", "latest", "young"]
