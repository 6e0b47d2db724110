"""The folders in `runs`: what each is, how old, whether it is finished, and why it is kept."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ci.core.errors import RunInUseError
from ci.core.locks import run_lock
from ci.core.text import iso_utc
from ci.record.reproduction import FILE, KIND, content_of
from ci.report.released import Released
from ci.retention import folders
from ci.retention.folders import find_folders
from ci.retention.rules import Item, KeptError, Rule, decide_all
from ci.steps.folder import find_run
from tests.retention_world import DAY_S, NOW, iso, make_run, put

NONE = Released()


def found(runs: Path, released: Released = NONE) -> dict[str, Item]:
    return {one.name: one for one in find_folders(runs, released, now=NOW)[0]}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run, and a younger one that `latest` means."""
    make_run(tmp_path / "runs", "r", 40)
    make_run(tmp_path / "runs", "z", 1)
    return tmp_path / "runs"


def test_a_folder_is_known_by_a_file_of_ours(tmp_path: Path) -> None:
    assert find_folders(tmp_path / "none", NONE, now=NOW) == ([], {})
    make_run(tmp_path / "elsewhere", "linked", 5)
    runs = tmp_path / "runs"
    make_run(runs, "run", 1)
    put(runs / "planned" / "plan.json", "plan", {})
    put(runs / "job" / "job.json", "job", {})
    put(runs / "handed-0" / "hud.json", "hud", {})
    put(runs / "rep" / FILE, KIND, content_of("t", "run", []))
    put(runs / "bis" / "bisect.json", "bisect", {"result": None})
    (runs / "other").mkdir()
    (runs / "other" / "run.json").write_text('{"schema": "mine"}')
    (runs / "notes").mkdir()
    (runs / "file").touch()
    (runs / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    (runs / "loop").symlink_to(runs / "loop")
    (runs / ".spyre-ci-trash-abcd1234").mkdir()
    (runs / f".spyre-ci-trash-{'0' * 32}").mkdir()
    items, foreign = find_folders(runs, NONE, now=NOW)
    assert {one.name: one.kind for one in items} == {
        "run": "runs", "planned": "runs", "job": "runs", "handed-0": "runs", "rep": "reproductions",
        "bis": "bisects",
    }  # fmt: skip
    assert {path.name: why for path, why in foreign.items()} == {
        ".spyre-ci-trash-abcd1234": "not of spyre-ci", "file": "not of spyre-ci", "linked": "is a link",
        "loop": "is a link", "notes": "not of spyre-ci", "other": "not of spyre-ci",
    }  # fmt: skip


def test_a_folder_of_another_user_is_left_alone(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.retention.folders.os.getuid", lambda: runs.stat().st_uid + 1)
    assert find_folders(runs, NONE, now=NOW) == (
        [],
        dict.fromkeys([runs / "r", runs / "z"], "belongs to another user"),
    )


@pytest.mark.parametrize("other", [True, False])
def test_a_folder_that_cannot_be_looked_into_is_left_alone(
    runs: Path, monkeypatch: pytest.MonkeyPatch, *, other: bool
) -> None:
    real, owner = Path.exists, os.getuid() + other

    def exists(path: Path) -> bool:
        if path.parent == runs / "r":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("ci.retention.folders.os.getuid", lambda: owner)
    monkeypatch.setattr("ci.retention.folders._latest", lambda _: set())
    monkeypatch.setattr(Path, "exists", exists)
    _, foreign = find_folders(runs, NONE, now=NOW)
    assert foreign[runs / "r"] == (
        "belongs to another user" if other else "cannot be read: Permission denied"
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away, and takes another's id")
def test_a_closed_folder_of_another_user_stops_nobody() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        top = Path(folder)
        make_run(top, "r", 1).chmod(0o700)
        make_run(top, "mine", 1).chmod(0)
        for path in (top, top / "mine"):
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ci.retention.folders.os.getuid", os.geteuid)
                _, foreign = find_folders(top, NONE, now=NOW)
        finally:
            os.seteuid(0)
    assert foreign == {
        top / "mine": "cannot be read: Permission denied",
        top / "r": "belongs to another user",
    }


def test_a_run_is_as_old_as_its_newest_file(runs: Path) -> None:
    assert found(runs)["r"].at == pytest.approx(NOW - 40 * DAY_S, abs=1)
    os.utime(runs / "r", (NOW, NOW))
    (runs / "r" / "run.lock").touch()
    assert found(runs)["r"].at == pytest.approx(NOW - 40 * DAY_S, abs=1)
    os.utime(runs / "r" / "journal" / "0-1.jsonl", (NOW, NOW))
    assert found(runs)["r"].at == NOW
    (runs / "r" / "control" / "journal").mkdir(parents=True)
    (runs / "r" / "control" / "journal" / "x").touch()
    os.utime(runs / "r" / "control" / "journal" / "x", (NOW + 9, NOW + 9))
    assert found(runs)["r"].at == NOW + 9


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", {"run": "r", "started_at": iso(NOW - DAY_S)}),
        ("summary.json", {"identity": {"completed_at": iso(NOW - DAY_S)}}),
        ("bisect.json", {"started_at": iso(NOW - DAY_S)}),
    ],
)
def test_a_run_is_no_older_than_its_files_say(runs: Path, file: str, content: dict[str, Any]) -> None:
    put(runs / "r" / file, file.partition(".")[0], content)
    os.utime(runs / "r" / file, (NOW - 50 * DAY_S, NOW - 50 * DAY_S))
    assert found(runs)["r"].at == NOW - DAY_S


@pytest.mark.parametrize("value", [10**400, float("nan"), "9" * 400, "9999-12-31T23:59:59-14:00", [], {}])
def test_a_date_that_no_clock_shows_breaks_nothing(runs: Path, value: object) -> None:
    make_run(runs, "r", 5, identity={"started_at": value})
    at = found(runs)["r"].at
    assert at is not None
    assert iso_utc(at) >= iso_utc(NOW - 5 * DAY_S)


@pytest.mark.parametrize(
    ("summary", "unfinished"),
    [
        ({"interrupted": True}, True),
        ({"missing_shards": [3]}, True),
        ({"verdicts": {"not_run": 1}}, True),
        (None, True),
        ({"exit_code": 3, "verdicts": {"failed": 4, "infrastructure": 2}}, False),
        ({"verdicts": 3}, False),
    ],
)
def test_a_run_with_something_left_to_run_is_unfinished(
    tmp_path: Path, summary: dict[str, Any] | None, *, unfinished: bool
) -> None:
    make_run(tmp_path, "r", 1, summary=summary)
    assert found(tmp_path)["r"].unfinished is unfinished


@pytest.mark.parametrize(
    ("file", "kind", "content", "unfinished"),
    [
        (FILE, KIND, {"ran": None}, True),
        (FILE, KIND, content_of("t", "r", []), False),
        (FILE, KIND, content_of("t", "r", [("failed", "")]), False),
        ("bisect.json", "bisect", {"result": None}, True),
        ("bisect.json", "bisect", {"result": {"kind": "found"}}, False),
        ("hud.json", "hud", {}, False),
        ("job.json", "job", {}, True),
    ],
)
def test_what_is_no_run_says_itself_whether_it_is_finished(
    tmp_path: Path, file: str, kind: str, content: dict[str, Any], *, unfinished: bool
) -> None:
    put(tmp_path / "r" / file, kind, content)
    assert found(tmp_path)["r"].unfinished is unfinished


def test_what_latest_means_is_kept_for_every_verb_that_takes_it(tmp_path: Path) -> None:
    make_run(tmp_path, "older", 6)
    make_run(tmp_path, "ended", 5)
    make_run(tmp_path, "begun", 2, summary=None)
    (tmp_path / "begun" / "results.jsonl.gz").unlink()
    put(make_run(tmp_path, "reproduced", 1) / FILE, KIND, content_of("t", "", []))
    for name, holding in (("begun", "run.json"), ("ended", "summary.json")):
        assert find_run(tmp_path, "latest", holding=holding).run == name
    held = {name: one.held for name, one in found(tmp_path).items()}
    assert held == {"older": "", "ended": "`latest` means it", "begun": "`latest` means it", "reproduced": ""}


@pytest.mark.parametrize(
    "released",
    [Released(words={"r"}), Released(words={"as it was"}), Released(run_ids={4711})],
)
def test_a_release_names_a_run(tmp_path: Path, released: Released) -> None:
    make_run(tmp_path, "z", 1)
    make_run(tmp_path, "r", 5, identity={"run": "as it was", "run_id": 4711})
    assert found(tmp_path, released)["r"].held == "a release names it"


def test_a_release_that_cannot_be_read_keeps_runs_alone(runs: Path) -> None:
    put(runs / "rep" / FILE, KIND, content_of("t", "r", []))
    items = found(runs, Released(broken=[(runs, "why")]))
    assert items["r"].held == "a release that cannot be read may name it"
    assert items["rep"].held == ""


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("outbox/1.json", True),
        ("outbox-dispatch/1.json", True),
        ("outbox/delivered/1.json", False),
        ("outbox/rows/waiting.json", True),
    ],
)
def test_unsent_reports_keep_their_run(runs: Path, path: str, *, kept: bool) -> None:
    put(runs / "r" / path, "report", {})
    assert ("unsent reports" in found(runs)["r"].held) is kept


@pytest.mark.parametrize(("place", "where"), [("wt", "/elsewhere/.git/x"), ("a/b/c/wt", "../../../../../x")])
def test_a_worktree_of_a_repository_elsewhere_keeps_its_folder(runs: Path, place: str, where: str) -> None:
    for name, leads in (("r", where), ("z", "../modules/x")):
        (runs / name / place).mkdir(parents=True)
        (runs / name / place / ".git").write_text(f"gitdir: {leads}\n")
    make_run(runs, "latest", 0)
    assert {name: one.held for name, one in found(runs).items()} == {
        "r": "a worktree of a repository elsewhere is in it", "z": "", "latest": "`latest` means it",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "kind", "content"),
    [
        ("run.json", "run", {"reproduce": ["spyre-ci", "pytorch", "--resume", "as it was"]}),
        ("run.json", "run", {"restricted": "--last-failed /srv/runs/r"}),
        (FILE, KIND, content_of("t", "r", [])),
    ],
)
def test_a_run_that_another_names_stays_while_that_one_does(
    runs: Path, file: str, kind: str, content: dict[str, Any]
) -> None:
    make_run(runs, "r", 40, identity={"run": "as it was"})
    namer = runs / "namer" / file
    put(namer, kind, {"run": "namer", **content})
    made = found(runs)
    assert made["r"].called & made["namer"].names
    for days, stays in ((30, True), (0, False)):
        rules = dict.fromkeys(["runs", "reproductions"], Rule(keep_days=days, unfinished=True))
        os.utime(namer, (NOW - 2 * DAY_S, NOW - 2 * DAY_S))
        decided = decide_all([*found(runs).values()], rules, now=NOW)
        whys = {one.item.name: one.why for ones in decided.values() for one in ones if not one.goes}
        assert whys.get("r") == ("namer names it, and stays" if stays else None)


def test_a_file_of_any_depth_stops_nobody(runs: Path) -> None:
    for depth in (*range(900, 1000), 100_000):
        text = '{"schema": "spyre-ci/run/1", "a": ' + "[" * depth + "]" * depth + "}"
        (runs / "r" / "run.json").write_text(text)
        assert set(found(runs)) == {"r", "z"}


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_a_run_that_cannot_be_read_is_kept(runs: Path, content: str | None) -> None:
    (runs / "r" / "run.json").unlink()
    if content is None:
        os.mkfifo(runs / "r" / "run.json")  # whoever read it would wait
    else:
        (runs / "r" / "run.json").write_text(content)
    assert found(runs)["r"].held == "its run.json cannot be read"


def remove(item: Item) -> None:
    item.remove(item)


def test_a_run_goes_once(runs: Path) -> None:
    item = found(runs)["r"]
    remove(item)
    with pytest.raises(KeptError, match="removed meanwhile"):
        remove(item)
    assert [path.name for path in runs.iterdir()] == ["z"]


def test_a_run_that_somebody_works_in_stays(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = found(runs)["r"]
    with (
        run_lock(runs / "r", alone=False),
        pytest.raises(KeptError, match="in use: is being run right now by process"),
    ):
        remove(item)

    def working(*_: object) -> None:
        with pytest.raises(RunInUseError), run_lock(runs / "r", alone=False):
            pytest.fail("two had it")

    monkeypatch.setattr(folders, "discard", working)
    remove(item)
    assert (runs / "r" / "run.json").is_file()


@pytest.mark.parametrize(("days", "why"), [(0.5, "is young, and its file system has no locks"), (2, "")])
def test_without_locks_a_young_run_stays(
    runs: Path, monkeypatch: pytest.MonkeyPatch, days: float, why: str
) -> None:
    def no_locks(*_: object) -> NoReturn:
        raise OSError(errno.ENOLCK, "No locks available")

    (make_run(runs, "r", days) / "run.lock").touch()
    make_run(runs, "z", 0)
    monkeypatch.setattr("ci.core.locks.fcntl.flock", no_locks)
    item = found(runs)["r"]
    assert item.in_use(item) == why
    if why:
        with pytest.raises(KeptError, match=why):
            remove(item)
    else:
        remove(item)
    assert (runs / "r").exists() == bool(why)


def test_whether_a_run_is_in_use_is_asked_without_a_trace(runs: Path) -> None:
    item = found(runs)["r"]
    assert item.in_use(item) == ""
    assert not (runs / "r" / "run.lock").exists()
    with run_lock(runs / "r", alone=False):
        before = (runs / "r" / "run.lock").read_text()
        assert item.in_use(item) == "in use"
        assert (runs / "r" / "run.lock").read_text() == before
    assert item.in_use(item) == ""


def test_a_lock_that_is_a_link_is_not_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (runs / "r" / "run.lock").symlink_to(tmp_path / "mine")
    item = found(runs)["r"]
    assert item.in_use(item) == "its run.lock cannot be opened"
    with pytest.raises(OSError, match="symbolic links"):
        remove(item)
    assert (tmp_path / "mine").read_text() == "kept"
    assert (runs / "r" / "run.json").is_file()


@pytest.mark.parametrize("change", ["report", "write", "mark", "link", "mount"])
def test_a_run_that_changed_meanwhile_stays(runs: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    item, why = found(runs)["r"], "changed meanwhile"
    if change == "report":
        put(runs / "r" / "outbox" / "1.json", "report", {})
        why = "unsent reports"
    elif change == "write":
        os.utime(runs / "r" / "journal" / "0-1.jsonl", (NOW, NOW))
    elif change == "mark":
        (runs / "r" / "run.json").write_text("{}")
        why = "not of spyre-ci"
    elif change == "mount":
        monkeypatch.setattr("ci.retention.disk.mount_points", lambda: [str(runs / "r" / "journal")])
        why = "something is mounted in it"
    else:
        why = "is a link"
        (runs / "r").rename(runs / "moved")
        (runs / "r").symlink_to(runs / "moved")
    with pytest.raises(KeptError, match=why):
        remove(item)
    assert (runs / "r" / "run.json").is_file()
