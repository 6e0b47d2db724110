"""The folders in `runs`: what each is, how old, whether it ended, and why others want it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.record.reproduction import FILE, KIND, content_of
from ci.report.released import Released
from ci.retention.folders import BISECTS, REPRODUCTIONS, RUNS, Look, find_folders, look_again
from ci.retention.things import Thing
from ci.steps.folder import find_run
from tests.retention_world import DAY_S, NOW, age, iso, make_run, put


def look(released: Released | None = None) -> Look:
    return Look(user=os.getuid(), mounts=frozenset(), released=released or Released())


def found(runs: Path, kind: str = RUNS, **more: Released) -> dict[str, Thing]:
    return {one.name: one for one in find_folders(runs, look(**more))[kind].things}


def test_nothing_is_no_error(tmp_path: Path) -> None:
    assert found(tmp_path / "runs") == {}


def test_a_run_is_dated_by_its_own_files_and_not_by_its_folder(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 40)
    (tmp_path / "r" / "somebody.txt").write_text("a note of today")
    assert found(tmp_path)["r"].at == pytest.approx(NOW - 40 * DAY_S, abs=1)


def test_what_its_files_say_counts_where_copying_dated_them_back(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "r", 40)
    put(
        folder / "summary.json",
        "summary",
        {"verdicts": {}, "identity": {"completed_at": iso(NOW - 3 * DAY_S)}},
    )
    age(folder, 400)
    assert found(tmp_path)["r"].at == pytest.approx(NOW - 3 * DAY_S, abs=1)


def test_a_run_that_goes_on_is_as_young_as_its_journal(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "r", 40)
    os.utime(folder / "journal" / "0-1.jsonl", (NOW, NOW))
    assert found(tmp_path)["r"].at == NOW


def test_what_a_folder_is_its_files_say(tmp_path: Path) -> None:
    make_run(tmp_path, "run", 1)
    put(tmp_path / "planned" / "plan.json", "plan", {})
    put(tmp_path / "job" / "job.json", "job", {})
    put(tmp_path / "handed-0" / "hud.json", "hud", {})
    put(tmp_path / "rep" / FILE, KIND, content_of("t", "run", []))
    put(tmp_path / "bis" / "bisect.json", "bisect", {"result": None})
    put(tmp_path / "other" / "run.json", "something", {})
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "run.json").write_text("not JSON")
    everything = find_folders(tmp_path, look())
    assert [one.name for one in everything[RUNS].things] == ["handed-0", "job", "planned", "run"]
    assert [one.name for one in everything[REPRODUCTIONS].things] == ["rep"]
    assert [one.name for one in everything[BISECTS].things] == ["bis"]
    assert [(Path(one.path).name, one.why) for one in everything[RUNS].foreign] == [
        ("other", "no file of ours tells what it is"),
        ("text", "no file of ours tells what it is"),
    ]


def test_a_plan_with_no_summary_is_a_run_cut_off_and_a_finished_reproduction_is_none(tmp_path: Path) -> None:
    ran = [("failed", "")]
    marks = {"ended": content_of("t", "r", ran), "open": content_of("t", "r", None), "no": {}}
    for name, content in marks.items():
        make_run(tmp_path, name, 1, summary=None)
        put(tmp_path / name / FILE, KIND, content)
    make_run(tmp_path, "run", 1, summary=None)
    assert {name: one.cut_off for name, one in found(tmp_path, REPRODUCTIONS).items()} == {
        "ended": False, "open": True, "no": True,
    }  # fmt: skip
    assert found(tmp_path)["run"].cut_off


def test_a_reproduction_is_nobodys_latest_run(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_run(runs, "run", 5)
    again = make_run(runs, "again", 1)
    put(again / FILE, KIND, content_of("t", "", [("failed", "")]))
    for holding in ("run.json", "summary.json"):
        assert find_run(runs, "latest", holding=holding).run == "run"
    assert found(runs)["run"].held == ("is what `latest` means for run.json",)
    assert found(runs, REPRODUCTIONS)["again"].held == ()


def test_who_names_a_run_names_its_folder_before_any_copy(tmp_path: Path) -> None:
    make_run(tmp_path, "a", 50)
    make_run(tmp_path, "b-copy", 60, identity={"run": "a"})
    make_run(tmp_path, "namer", 2, identity={"reproduce": ["spyre-ci", "pytorch", "--resume", "a"]})
    assert found(tmp_path)["namer"].names == {"a"}
    # Of copies alone any may be meant.
    (tmp_path / "a").rename(tmp_path / "c-copy")
    assert found(tmp_path)["namer"].names == {"b-copy", "c-copy"}


@pytest.mark.parametrize("name", ["reproduce.json", "run.json", "plan.json", "notes.json"])
def test_a_named_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = make_run(tmp_path, "r", 5)
    make_run(tmp_path, "z", 1)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert set(found(tmp_path)) == {"r", "z"}


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), "9" * 400, [], {}])
def test_a_date_that_no_clock_shows_breaks_nothing(tmp_path: Path, value: object) -> None:
    make_run(tmp_path, "r", 5, identity={"started_at": value})
    at = found(tmp_path)["r"].at
    assert at is not None
    assert at >= NOW - 5 * DAY_S - 1


@pytest.mark.parametrize(("ran", "cut_off"), [(None, True), ([], False), ([{"verdict": "failed"}], False)])
def test_a_reproduction_has_ended_with_what_it_ran(tmp_path: Path, ran: object, *, cut_off: bool) -> None:
    # With a summary of a test that never ran, as an interrupt leaves it.
    make_run(tmp_path, "r", 1, summary={"interrupted": True, "verdicts": {"not_run": 1}})
    put(tmp_path / "r" / "reproduce.json", "reproduce", {"id": "t", "run": "old", "ran": ran})
    assert found(tmp_path) == {}
    assert found(tmp_path, REPRODUCTIONS)["r"].cut_off is cut_off


def test_a_bisect_has_ended_with_its_result(tmp_path: Path) -> None:
    put(tmp_path / "a" / "bisect.json", "bisect", {"result": {"kind": "found"}})
    put(tmp_path / "b" / "bisect.json", "bisect", {"result": None})
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "bisect.json").write_text('{"schema": "spyre-ci/bisect/1", "resu')
    assert {name: one.cut_off for name, one in found(tmp_path, BISECTS).items()} == {
        "a": False, "b": True, "c": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "summary",
    [{"interrupted": True}, {"missing_shards": [3]}, {"verdicts": {"not_run": 1}}, None],
)
def test_a_run_with_something_left_can_be_resumed(tmp_path: Path, summary: dict[str, object] | None) -> None:
    make_run(tmp_path, "r", 1, summary=summary)
    assert found(tmp_path)["r"].cut_off


def test_a_run_that_ended_red_has_ended(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 1, summary={"exit_code": 3, "verdicts": {"failed": 4, "infrastructure": 2}})
    assert not found(tmp_path)["r"].cut_off


def test_what_latest_means_stays_for_every_verb_that_takes_it(tmp_path: Path) -> None:
    make_run(tmp_path, "ended", 5)
    make_run(tmp_path, "older", 6)
    make_run(tmp_path, "begun", 1, summary=None)
    (tmp_path / "begun" / "results.jsonl.gz").unlink()
    held = {name: one.held for name, one in found(tmp_path).items()}
    assert held["begun"] == ("is what `latest` means for run.json",)
    assert held["ended"] == ("is what `latest` means for summary.json",)
    assert held["older"] == ()


def test_reports_that_wait_keep_their_run(tmp_path: Path) -> None:
    make_run(tmp_path, "a", 5)
    make_run(tmp_path, "b", 5)
    make_run(tmp_path, "c", 5)
    put(tmp_path / "a" / "outbox" / "000001-x.json", "report", {})
    put(tmp_path / "b" / "outbox" / "delivered" / "000001-x.json", "report", {})
    (tmp_path / "c" / "outbox-dispatch").mkdir()
    (tmp_path / "c" / "outbox-dispatch" / "000001-x.json").write_text("broken")
    make_run(tmp_path, "z", 1)
    held = {name: bool(one.held) for name, one in found(tmp_path).items()}
    assert held == {"a": True, "b": False, "c": True, "z": True}


def test_runs_that_name_each_other(tmp_path: Path) -> None:
    make_run(tmp_path, "first run", 9)
    make_run(tmp_path, "again", 8, identity={"reproduce": ["spyre-ci", "run", "--resume", "first run"]})
    make_run(tmp_path, "path", 7, identity={"restricted": f"--last-failed {tmp_path}/again"})
    put(tmp_path / "path" / "note.json", "note", {"of": [{"run": "path"}]})
    make_run(tmp_path, "z", 1)
    assert {name: set(one.names) for name, one in found(tmp_path).items()} == {
        "first run": set(), "again": {"first run"}, "path": {"again"}, "z": set(),
    }  # fmt: skip


def test_a_release_that_cannot_be_read_holds_runs_alone(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 5)
    make_run(tmp_path, "z", 1)
    put(tmp_path / "rep" / FILE, KIND, content_of("t", "r", []))
    bad = Released(broken=[(tmp_path, "why")])
    assert found(tmp_path, released=bad)["r"].held == ("a release that cannot be read may name it",)
    assert found(tmp_path, REPRODUCTIONS, released=bad)["rep"].held == ()


def test_a_release_names_a_run_by_its_number(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 5, identity={"run_id": 4711})
    make_run(tmp_path, "z", 1)
    assert found(tmp_path, released=Released(run_ids={4711}))["r"].held == ("a release names it",)


def test_a_folder_with_another_name_than_its_run_is_found_by_either(tmp_path: Path) -> None:
    make_run(tmp_path, "renamed", 5, identity={"run": "as it was", "run_id": 5})
    make_run(tmp_path, "z", 1, identity={"reproduce": ["--resume", "as it was"]})
    assert found(tmp_path, released=Released(words={"as it was"}))["renamed"].held == ("a release names it",)
    assert found(tmp_path)["z"].names == {"renamed"}


def test_a_copy_of_a_run_is_not_what_the_runs_name_means(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 5)
    make_run(tmp_path, "a copy", 5, identity={"run": "r"})
    make_run(tmp_path, "z copy", 5, identity={"run": "r"})
    assert found(tmp_path)["r"].names == set()
    assert found(tmp_path)["a copy"].names == {"r"}


def test_a_run_whose_identity_cannot_be_read_stays(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 5)
    make_run(tmp_path, "z", 1)
    (tmp_path / "r" / "run.json").write_text('{"schema": "spyre-ci/run/1", "ru')
    assert "its run.json cannot be read" in found(tmp_path)["r"].held


def test_a_worktree_of_a_repository_elsewhere_keeps_its_folder(tmp_path: Path) -> None:
    for name, leads in (
        ("out", tmp_path / "repo" / ".git" / "worktrees" / "x"),
        ("in", "../borrowed.git/worktrees/x"),
    ):
        put(tmp_path / "runs" / name / "bisect.json", "bisect", {"result": {}})
        tree = tmp_path / "runs" / name / "tree"
        tree.mkdir()
        (tree / ".git").write_text(f"gitdir: {leads}\n")
    held = {name: one.held for name, one in found(tmp_path / "runs", BISECTS).items()}
    assert held == {"out": ("a worktree of a repository elsewhere is in it",), "in": ()}


def test_links_and_files_are_not_ours(tmp_path: Path) -> None:
    make_run(tmp_path / "elsewhere", "r", 5)
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "link").symlink_to(tmp_path / "elsewhere" / "r")
    (runs / "nowhere").symlink_to(tmp_path / "none")
    (runs / "file").write_text("")
    everything = find_folders(runs, look())
    assert list(everything[RUNS].things) == []
    assert [one.why for one in everything[RUNS].foreign] == [
        "is no folder", "is a link, and none is followed", "is a link, and none is followed",
    ]  # fmt: skip


def test_what_is_of_another_user_is_not_ours(tmp_path: Path) -> None:
    make_run(tmp_path, "r", 5)
    other = Look(user=os.getuid() + 1, mounts=frozenset(), released=Released())
    everything = find_folders(tmp_path, other)
    assert list(everything[RUNS].things) == []
    assert everything[RUNS].foreign[0].why == "belongs to another user"


def test_a_second_look_sees_what_changed(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "r", 5)
    make_run(tmp_path, "z", 1)
    before = found(tmp_path)["r"]
    assert look_again(before, look()) == ""
    put(folder / "outbox" / "000001-x.json", "report", {})
    assert "outbox" in look_again(before, look())
    (folder / "outbox" / "000001-x.json").unlink()
    os.utime(folder / "journal" / "0-1.jsonl", (NOW, NOW))
    assert look_again(before, look()) == "was worked in meanwhile"
    for path in folder.glob("*.json"):
        path.unlink()
    assert look_again(before, look()) == "is not what it was"


@pytest.mark.parametrize(
    "content", ["[]", "{}", "{", '{"verdicts": 3}', '{"verdicts": null, "identity": []}']
)
def test_a_broken_summary_breaks_nothing(tmp_path: Path, content: str) -> None:
    folder = make_run(tmp_path, "r", 5)
    (folder / "summary.json").write_text(content)
    assert "r" in found(tmp_path)


@pytest.mark.parametrize("value", ["yesterday", float("nan"), True, [], "9999999-01-01"])
def test_a_broken_date_is_none(tmp_path: Path, value: object) -> None:
    make_run(tmp_path, "r", 5, identity={"started_at": value})
    assert found(tmp_path)["r"].at == pytest.approx(NOW - 5 * DAY_S, abs=1)


@pytest.mark.parametrize("value", ["9999-12-31T23:59:59+00:00", 1e300, float("inf")])
def test_a_date_beyond_all_calendars_is_in_the_future_and_can_be_shown(tmp_path: Path, value: object) -> None:
    make_run(tmp_path, "r", 5, identity={"started_at": value})
    when = found(tmp_path)["r"].at
    assert when is not None
    assert when > NOW
    assert iso(when)
