"""The history: idempotent, bounded, and a source of durations."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.core.errors import BadFileError, MissingInputError, SpyreCiError
from ci.record import events
from ci.record.journal_line import line_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.history import (
    DeviceHistory,
    History,
    export_durations,
    failure_shares,
    forget_imports,
    import_classes,
    import_durations,
    overview,
)
from ci.report.reconcile import Account
from ci.report.results import read_results, read_summary
from ci.store import database
from ci.store.schema import VERSION
from test_selection.durations import Durations
from test_selection.ids import canonical_id
from tests.past_runs import record, take_in
from tests.pipeline_runs import T0 as REPORTED
from tests.pipeline_runs import report_folder

from .conftest import ADD, T0, identity

NOW = REPORTED + 60
OUTCOMES = {"test_0.py::T::a": "passed", "test_0.py::T::b": "failed", "test_1.py::T::c": "passed"}


def passed(seconds: float, name: str = "a") -> Result:
    return Result(id=name, verdict=Verdict.PASSED, seconds=seconds, attempts=1)


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as store:
        return {
            "runs": store.execute(
                "SELECT run, CAST(run_id AS INTEGER), run_attempt FROM crcr_workflow_job JOIN job_detail "
                "USING (dynamoKey) ORDER BY id"
            ).fetchall(),
            "results": store.execute(
                "SELECT test_id, verdict, time, card, attempts FROM settled_test_run ORDER BY 1"
            ).fetchall(),
            "setups": store.execute("SELECT file, seconds FROM file_setup ORDER BY 1").fetchall(),
        }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.sqlite"


def test_a_run_is_recorded_with_every_result_and_set_up(path: Path, account: Account) -> None:
    record(path, identity(), account.results, account.setup_seconds())
    found = rows(path)
    assert found["runs"] == [("2026-02-02-nightly-7", 7, 1)]
    assert len(found["results"]) == 11
    assert (ADD, "passed", 1.25, "spyre:0", 1) in found["results"]
    assert found["setups"] == [("test_a.py", 4.0), ("test_b.py", 2.5)]


def test_a_run_reported_again_with_more_journals_replaces_its_results(path: Path) -> None:
    record(path, identity(), [Result(id="a", verdict=Verdict.NOT_RUN)], {})
    record(path, identity(), [passed(2.0)], {})
    assert rows(path)["results"] == [("a", "passed", 2.0, "", 1)]


@pytest.mark.parametrize("change", [{"run_attempt": 2}, {"run_id": 8}, {"run": "other"}])
def test_another_attempt_or_run_stands_beside_it(path: Path, change: dict[str, object]) -> None:
    record(path, identity(), [passed(1.0)], {})
    record(path, replace(identity(), **change), [passed(1.0)], {})  # type: ignore[arg-type]  # one of three keys
    assert len(rows(path)["runs"]) == 2


def test_durations_are_medians_of_the_last_ten_passing_runs(path: Path) -> None:
    for number in range(14):
        who = replace(identity(), run_id=number + 1, started_at=T0 + number)
        record(path, who, [passed(float(number))], {"a.py": [float(number), float(number), 99.0]})
    durations = export_durations(History(path))
    assert durations.tests == {"a": 8.5}
    assert durations.files == {"a.py": 8.5}


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.PASSED])
def test_only_a_pass_says_how_long_a_test_takes(path: Path, verdict: Verdict) -> None:
    record(path, identity(), [passed(3.0)], {})
    other = replace(passed(500.0), verdict=verdict)
    record(path, replace(identity(), run_id=8, started_at=T0 + 9), [other], {})
    assert export_durations(History(path)).tests == {"a": 3.0}


def test_durations_can_be_those_of_one_device(path: Path) -> None:
    record(path, identity(), [passed(3.0)], {"a.py": [1.0]})
    record(path, replace(identity(), run_id=8, device="cpu"), [passed(1.0)], {"a.py": [5.0]})
    assert export_durations(History(path), device="cpu").tests == {"a": 1.0}
    assert export_durations(History(path), device="spyre").files == {"a.py": 1.0}
    assert export_durations(History(path)).tests == {"a": 2.0}


def test_failures_are_a_share_of_the_runs_that_came_to_an_outcome(path: Path) -> None:
    names = ("failed", "flaky", "passed", "passed", "not_run", "hardware")
    for number, verdict in enumerate(map(Verdict, names)):
        results = [replace(passed(1.0), verdict=verdict), passed(1.0, "always green")]
        record(path, replace(identity(), run_id=number + 1), results, {})
    record(path, replace(identity(), run_id=9, device="cpu"), [passed(1.0)], {})
    assert failure_shares(History(path), device="spyre") == {"a": 0.5}
    assert failure_shares(History(path), device="cpu") == {}


@pytest.mark.parametrize("name", ['q"\\', "\udc80", "\x00|", "é漢😀", "'; DROP TABLE test_run; --"])
def test_any_name_comes_back_as_it_was(path: Path, name: str) -> None:
    test = canonical_id(name, "T", name, {"k": name})
    record(path, identity(), [passed(1.0, test)], {name: [2.0]})
    assert export_durations(History(path)).tests == {test: 1.0}
    assert export_durations(History(path)).files == {name: 2.0}


def test_a_run_is_recorded_whole_or_not_at_all(path: Path) -> None:
    record(path, identity(), [passed(1.0)], {})
    before = rows(path)
    with pytest.raises(BadFileError, match="refused the rows"):
        record(path, identity(), [passed(2.0), passed(10**400, "b")], {})
    assert rows(path) == before


def test_a_history_that_another_process_holds_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, identity(), [], {})
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    store = sqlite3.connect(path)
    store.execute("BEGIN IMMEDIATE")
    with pytest.raises(
        SpyreCiError, match=r"history\.sqlite: the store of results cannot be used: database is locked"
    ):
        record(path, identity(), [], {})
    store.close()


def test_a_history_is_read_while_a_report_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, identity(), [passed(2.0)], {})
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    store = sqlite3.connect(path)
    store.execute("BEGIN IMMEDIATE")
    store.execute("DELETE FROM test_run")
    assert export_durations(History(path)).tests == {"a": 2.0}
    assert failure_shares(History(path), device="spyre") == {}
    assert overview(History(path))[0][0].runs == 1
    store.close()


def test_a_history_in_a_folder_that_cannot_be_written_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(path, identity(), [passed(2.0)], {})
    # Root may write anywhere, so the system is asked on a user's behalf.
    monkeypatch.setattr("os.access", lambda *_: False)
    before = sorted(path.parent.iterdir())
    assert export_durations(History(path)).tests == {"a": 2.0}
    assert sorted(path.parent.iterdir()) == before


def test_a_history_is_found_whatever_its_folder_is_called(tmp_path: Path) -> None:
    odd = tmp_path / "50% done? #1 ü" / "history.sqlite"
    record(odd, identity(), [passed(2.0)], {})
    assert odd.is_file()
    assert export_durations(History(odd)).tests == {"a": 2.0}


def test_a_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("not a database, and long enough to be looked at" * 50)
    with pytest.raises(BadFileError, match="is no store of results"):
        record(path, identity(), [], {})


TOLD = Durations(tests={"a": 5.0, "b": 6.0}, files={"f.py": 7.0}, spread={"a": 8.0}, classes={"f.py::T": 9.0})


def test_what_was_imported_is_exported(path: Path) -> None:
    import_durations(History(path), TOLD, device="spyre")
    assert export_durations(History(path), device="spyre") == TOLD


def test_importing_twice_changes_nothing_and_anew_replaces_by_name(path: Path) -> None:
    import_durations(History(path), TOLD, device="spyre")
    import_durations(History(path), TOLD, device="spyre")
    assert export_durations(History(path), device="spyre") == TOLD
    import_durations(History(path), Durations(tests={"a": 1.0}), device="spyre")
    assert export_durations(History(path), device="spyre").tests == {"a": 1.0, "b": 6.0}
    assert export_durations(History(path), device="spyre").spread == {}


def test_a_run_of_our_own_goes_before_it_with_its_own_spread(path: Path) -> None:
    import_durations(History(path), TOLD, device="spyre")
    record(path, identity(), [passed(1.0)], {"f.py": [2.0]})
    found = export_durations(History(path), device="spyre")
    assert found.tests == {"a": 1.0, "b": 6.0}
    assert found.spread == {"a": 1.0}
    assert found.files == {"f.py": 2.0}


def test_the_spread_is_the_95th_percentile_of_the_last_ten_runs(path: Path) -> None:
    for number in range(12):
        who = replace(identity(), run_id=number + 1, started_at=T0 + number)
        record(path, who, [passed(float(number))], {})
    assert export_durations(History(path)).spread == {"a": 11.0}


def test_another_devices_seconds_are_not_ours_but_classes_are_everybodys(path: Path) -> None:
    import_durations(History(path), TOLD, device="cpu")
    assert export_durations(History(path), device="spyre") == Durations(classes=TOLD.classes)
    assert export_durations(History(path)) == TOLD


def test_classes_are_replaced_by_name(path: Path) -> None:
    import_classes(History(path), {"a.py::T": 1.0, "a.py::\udc80": 2.0})
    import_classes(History(path), {"a.py::T": 3.0})
    assert export_durations(History(path)).classes == {"a.py::T": 3.0, "a.py::\udc80": 2.0}


def test_imports_can_be_forgotten_and_counted_before(path: Path) -> None:
    import_durations(History(path), TOLD, device="spyre")
    assert forget_imports(History(path)) == 4
    assert export_durations(History(path)) == Durations()


@pytest.mark.parametrize("version", [-1, VERSION + 1, 2**31 - 1])
def test_no_other_version_is_taken(path: Path, version: int) -> None:
    import_classes(History(path), {})
    store = sqlite3.connect(path)
    store.execute(f"PRAGMA user_version = {version}")
    store.close()
    with pytest.raises(BadFileError, match=f"is a store of results of version {version}, not {VERSION}"):
        import_classes(History(path), {})


def test_another_programs_database_is_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    store = sqlite3.connect(path)
    store.execute("CREATE TABLE bookmarks (url TEXT)")
    store.close()
    with pytest.raises(BadFileError, match="is a database of another program") as caught:
        import_classes(History(path), {"a.py::T": 1.0})
    assert "set `store.path` to another file" in str(caught.value)
    store = sqlite3.connect(path)
    assert store.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    store.close()


def test_an_empty_file_becomes_a_history(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    import_classes(History(path), {"a.py::T": 1.0})
    assert export_durations(History(path)).classes == {"a.py::T": 1.0}


def test_the_overview_counts_by_device(path: Path) -> None:
    import_durations(History(path), TOLD, device="cpu")
    record(path, identity(), [passed(1.0), Result(id="b", verdict=Verdict.NOT_RUN)], {})
    record(path, replace(identity(), run_id=8, started_at=T0 + 5), [passed(1.0)], {})
    assert overview(History(path)) == (
        [
            DeviceHistory(device="cpu", imported=2),
            DeviceHistory(device="spyre", runs=2, tests=1, oldest=T0, newest=T0 + 5),
        ],
        1,
    )


def test_a_store_whose_maker_was_killed_at_once_is_no_history_yet(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert not History(path).there
    for call in (overview, export_durations):
        with pytest.raises(MissingInputError, match="there is no history yet"):
            call(History(path))
    record(path, identity(), [passed(1.0)], {})
    assert overview(History(path))[0][0].runs == 1


def test_a_run_that_says_no_start_is_counted_and_has_no_age(path: Path) -> None:
    record(path, identity(), [passed(1.0)], {})
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("UPDATE crcr_workflow_job SET started_at = ''")
    assert overview(History(path))[0] == [DeviceHistory(device="spyre", runs=1)]
    record(path, replace(identity(), run_id=8), [passed(1.0)], {})
    assert overview(History(path))[0] == [
        DeviceHistory(device="spyre", runs=2, tests=1, oldest=T0, newest=T0)
    ]


def test_there_is_nothing_to_show_or_forget_before_the_first_run(path: Path) -> None:
    for call in (overview, export_durations):
        with pytest.raises(MissingInputError, match="there is no history yet") as caught:
            call(History(path))
        assert "spyre-ci history import" in str(caught.value)
    assert not path.exists()


def test_a_run_that_was_reported_elsewhere_is_in_the_history_as_if_it_had_been_here(tmp_path: Path) -> None:
    folder, there, here = (
        report_folder(tmp_path / "run-1", OUTCOMES),
        tmp_path / "a.sqlite",
        tmp_path / "b.sqlite",
    )
    identity = read_summary(folder / "summary.json").identity
    assert take_in(there, folder, now=NOW)["run"] == identity.run
    record(here, identity, read_results(folder / "results.jsonl.gz"), {})
    assert export_durations(History(there)) == export_durations(History(here))
    take_in(there, folder, now=NOW)
    assert export_durations(History(there)) == export_durations(History(here))


def test_what_its_files_took_to_set_up_comes_with_its_journals(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    journal = next((folder / "journal").glob("0-*.jsonl"))
    written = [
        events.GroupStart(t=5.0, file="test_0.py"),
        events.GroupReady(t=9.0, file="test_0.py", setup_s=4.0),
    ]
    journal.write_bytes(b"".join(map(line_of, written)))
    take_in(tmp_path / "history.sqlite", folder, now=NOW)
    assert export_durations(History(tmp_path / "history.sqlite")).files == {"test_0.py": 4.0}


def test_a_folder_that_holds_no_report_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    with pytest.raises(MissingInputError):
        take_in(tmp_path / "history.sqlite", tmp_path, now=NOW)
    (folder / "summary.json").write_text('{"schema": "spyre-ci/summary/1"}')
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        take_in(tmp_path / "history.sqlite", folder, now=NOW)
    assert not (tmp_path / "history.sqlite").exists()


def changed(folder: Path, who: dict[str, Any], row: dict[str, Any]) -> Path:
    """A report in which somebody wrote what they liked."""
    summary = json.loads((folder / "summary.json").read_text())
    summary["identity"] |= who
    (folder / "summary.json").write_text(json.dumps(summary))
    with gzip.open(folder / "results.jsonl.gz") as stream:
        lines = [json.loads(one) for one in stream]
    lines[1] |= row
    with gzip.open(folder / "results.jsonl.gz", "wb") as stream:
        stream.writelines(json.dumps(one).encode() + b"\n" for one in lines)
    return folder


@pytest.mark.parametrize(
    ("who", "row"),
    [
        ({"run_id": 10**30}, {}),
        ({"run_id": 0}, {}),
        ({"run_attempt": 2**63}, {}),
        ({"stage": 10**30}, {}),
        ({"percent": float("nan")}, {}),
        ({"percent": -1}, {}),
        ({"run_id": float("inf")}, {}),
        ({"started_at": "9999-01-01T00:00:00+00:00"}, {}),
        ({"started_at": "1901-01-01T00:00:00+00:00"}, {}),
        ({"started_at": "0001-01-01T00:00:00"}, {}),
        ({"device": "\ud800"}, {}),
        ({}, {"seconds": 10**30}),
        ({}, {"seconds": "abc"}),
        ({}, {"seconds": [1]}),
        ({}, {"seconds": True}),
        ({}, {"seconds": None}),
        ({}, {"seconds": -1e300}),
        ({}, {"seconds": 1e308}),
        ({}, {"seconds": float("nan")}),
        ({}, {"attempts": 10**30}),
        ({}, {"attempts": "1"}),
        ({}, {"card": 7}),
        ({}, {"id": 7}),
        ({}, {"id": "test_0.py::T::b"}),
        ({}, {"quarantine": "x"}),
    ],
)
def test_what_no_run_can_have_leaves_the_history_as_it_was(
    tmp_path: Path, who: dict[str, Any], row: dict[str, Any]
) -> None:
    history = tmp_path / "history.sqlite"
    take_in(history, report_folder(tmp_path / "good", OUTCOMES), now=NOW)
    before = export_durations(History(history))
    folder = changed(report_folder(tmp_path / "bad", OUTCOMES), who, row)
    with pytest.raises(BadFileError) as caught:
        take_in(history, folder, now=NOW)
    assert "no store" not in str(caught.value)
    assert "move this one away" not in (caught.value.remedy or "")
    assert export_durations(History(history)) == before


def test_values_that_the_store_cannot_take_are_not_told_as_a_broken_store(tmp_path: Path) -> None:
    folder = report_folder(tmp_path / "run-1", OUTCOMES)
    identity = read_summary(folder / "summary.json").identity
    result = Result(id="a", verdict=Verdict.PASSED, seconds=10**400)
    with pytest.raises(BadFileError, match="refused the rows, and is unchanged"):
        record(tmp_path / "history.sqlite", identity, [result], {})


def test_runs_of_one_number_are_told_apart_by_their_workflow_lane_and_order(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    for number, who in enumerate(
        (
            {"provider": "jenkins", "workflow": "spyre/nightly-pinned"},
            {"provider": "jenkins", "workflow": "spyre/nightly-main"},
            {"provider": "github", "workflow": "nightly", "lane": "nightly-pinned"},
            {"provider": "github", "workflow": "nightly", "lane": "nightly-main"},
        )
    ):
        folder = changed(report_folder(tmp_path / str(number) / "ci", OUTCOMES), who, {})
        take_in(history, folder, now=NOW)
        take_in(history, folder, now=NOW)
        for attempt in range(2):
            take_in(history, folder, now=NOW, run=f"night-{number}-1/{attempt}", lane="night")
    with closing(sqlite3.connect(history)) as store:
        lanes = [lane for (lane,) in store.execute("SELECT lane FROM job_detail")]
    assert len(lanes) == 12
    assert lanes.count("night") == 8


def test_the_verb_tells_a_folder_with_numbers_beyond_all_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changed(report_folder(tmp_path / "run-1", OUTCOMES), {"run_id": 10**30}, {})
    monkeypatch.chdir(tmp_path)
    assert run(["history", "import", str(folder)]) == 2
    assert "identity.run_id" in capsys.readouterr().err
