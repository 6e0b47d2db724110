"""The folders in `runs`: what each is, how old, whether it is finished, and why it is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import RunInUseError
from ci.core.locks import run_lock
from ci.record.reproduction import FILE, KIND, content_of
from ci.report.released import Released
from ci.retention import folders
from ci.retention.folders import find_folders
from ci.retention.rules import Item, KeptError
from ci.steps.folder import find_run
from tests.retention_world import DAY_S, NOW, make_run, put

NONE = Released()


def found(runs: Path, released: Released = NONE) -> dict[str, Item]:
    return {one.name: one for one in find_folders(runs, released)[0]}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run, and a younger one that `latest` means."""
    make_run(tmp_path / "runs", "r", 40)
    make_run(tmp_path / "runs", "z", 1)
    return tmp_path / "runs"


def test_a_folder_is_known_by_a_file_of_ours(tmp_path: Path) -> None:
    assert find_folders(tmp_path / "none", NONE) == ([], [])
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
    (runs / f".spyre-ci-trash-{'0' * 32}").mkdir()
    items, foreign = find_folders(runs, NONE)
    assert {one.name: one.kind for one in items} == {
        "run": "runs", "planned": "runs", "job": "runs", "handed-0": "runs", "rep": "reproductions",
        "bis": "bisects",
    }  # fmt: skip
    assert [path.name for path in foreign] == ["file", "linked", "notes", "other"]


def test_a_folder_of_another_user_is_left_alone(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.retention.folders.os.getuid", lambda: runs.stat().st_uid + 1)
    assert find_folders(runs, NONE) == ([], [runs / "r", runs / "z"])


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
    [("outbox/1.json", True), ("outbox-dispatch/1.json", True), ("outbox/delivered/1.json", False)],
)
def test_unsent_reports_keep_their_run(runs: Path, path: str, *, kept: bool) -> None:
    put(runs / "r" / path, "report", {})
    assert ("unsent reports" in found(runs)["r"].held) is kept


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


@pytest.mark.parametrize("change", ["report", "write", "mark", "link"])
def test_a_run_that_changed_meanwhile_stays(runs: Path, change: str) -> None:
    item, why = found(runs)["r"], "changed meanwhile"
    if change == "report":
        put(runs / "r" / "outbox" / "1.json", "report", {})
        why = "unsent reports"
    elif change == "write":
        os.utime(runs / "r" / "journal" / "0-1.jsonl", (NOW, NOW))
    elif change == "mark":
        (runs / "r" / "run.json").write_text("{}")
    else:
        (runs / "r").rename(runs / "moved")
        (runs / "r").symlink_to(runs / "moved")
    with pytest.raises(KeptError, match=why):
        remove(item)
    assert (runs / "r" / "run.json").is_file()
