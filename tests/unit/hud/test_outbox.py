from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO, Any

import pytest

from ci.core.errors import BadFileError
from ci.hud.answers import Answer, Outcome
from ci.hud.outbox import KEPT_ATTEMPTS, Outbox, OutboxBusyError
from test_selection import files
from test_selection.files import read_json

NOW = 1_785_000_000.0
DELIVERED = Answer(outcome=Outcome.DELIVERED, status=200, detail="HTTP 200")
DOWN = Answer(outcome=Outcome.RETRY, status=503, detail="HTTP 503", doubtful=True)


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path, lambda: NOW)


def waiting(outbox: Outbox) -> list[str]:
    return [report.identity for report in outbox.pending()]


def test_a_report_is_kept_in_a_file_of_its_own(outbox: Outbox) -> None:
    path = outbox.enqueue("a", {"x": 1})
    assert path is not None
    assert read_json(path, "report") == {
        "schema": "spyre-ci/report/1",
        "identity": "a",
        "created_at": "2026-07-25T17:20:00.000+00:00",
        "payload": {"x": 1},
        "attempts": [],
    }


def test_reports_wait_in_the_order_they_came(outbox: Outbox) -> None:
    names = [f"report-{number}" for number in range(12)]
    for name in names:
        outbox.enqueue(name, {})
    assert waiting(outbox) == names


def test_the_same_report_waits_once(outbox: Outbox) -> None:
    assert outbox.enqueue("a", {"x": 1}) == outbox.enqueue("a", {"x": 1})
    assert waiting(outbox) == ["a"]


def test_a_newer_payload_takes_the_waiting_ones_place(outbox: Outbox) -> None:
    outbox.enqueue("a", {"x": 1})
    outbox.enqueue("b", {})
    outbox.enqueue("a", {"x": 2})
    assert [(report.identity, report.payload) for report in outbox.pending()] == [("a", {"x": 2}), ("b", {})]


def test_what_is_delivered_moves_away_with_its_answer(outbox: Outbox) -> None:
    outbox.enqueue("a", {"x": 1})
    (report,) = outbox.pending()
    outbox.record(report, DELIVERED)
    assert waiting(outbox) == []
    content = read_json(outbox.delivered_folder / report.path.name, "report")
    assert content["answer"]["outcome"] == "delivered"
    assert content["payload"] == {"x": 1}


def test_what_was_delivered_unchanged_is_not_sent_again(outbox: Outbox) -> None:
    outbox.enqueue("a", {"x": 1})
    outbox.record(outbox.pending()[0], DELIVERED)
    assert outbox.enqueue("a", {"x": 1}) is None
    assert waiting(outbox) == []


def test_a_correction_of_what_was_delivered_is_sent(outbox: Outbox) -> None:
    outbox.enqueue("a", {"x": 1})
    outbox.record(outbox.pending()[0], DELIVERED)
    path = outbox.enqueue("a", {"x": 2})
    assert path is not None
    assert path.name.startswith("000002-")
    outbox.record(outbox.pending()[0], DELIVERED)
    assert outbox.enqueue("a", {"x": 2}) is None


def test_what_is_not_delivered_stays_with_the_attempt_noted(outbox: Outbox) -> None:
    outbox.enqueue("a", {})
    outbox.record(outbox.pending()[0], DOWN)
    (report,) = outbox.pending()
    assert report.attempts == (
        {
            "at": "2026-07-25T17:20:00.000+00:00",
            "outcome": "retry",
            "status": 503,
            "detail": "HTTP 503",
            "doubtful": True,
        },
    )
    assert report.doubtful


def test_only_the_latest_attempts_are_kept(outbox: Outbox) -> None:
    outbox.enqueue("a", {})
    for _ in range(KEPT_ATTEMPTS + 5):
        outbox.record(outbox.pending()[0], DOWN)
    assert len(outbox.pending()[0].attempts) == KEPT_ATTEMPTS


def test_a_report_replaced_under_way_is_sent_again(outbox: Outbox) -> None:
    outbox.enqueue("a", {"x": 1})
    (under_way,) = outbox.pending()
    outbox.enqueue("a", {"x": 2})
    outbox.record(under_way, DELIVERED)
    assert [report.payload for report in outbox.pending()] == [{"x": 2}]


def test_two_do_not_send_at_once(outbox: Outbox, tmp_path: Path) -> None:
    with outbox.sending():
        with (
            pytest.raises(OutboxBusyError, match="another process is sending"),
            Outbox(tmp_path, lambda: NOW).sending(),
        ):
            pass
        outbox.enqueue("a", {})
    with outbox.sending():
        assert waiting(outbox) == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "spyre-ci/report/1", "identity": "a", "payload": {}, "attempts": null}',
        "{",
        '{"schema": "spyre-ci/plan/1"}',
        '{"schema": "spyre-ci/report/1"}',
    ],
)
def test_a_file_that_is_no_report_hides_none(outbox: Outbox, text: str) -> None:
    outbox.enqueue("a", {})
    (outbox.folder / "000000-odd.json").write_text(text)
    assert waiting(outbox) == ["a"]
    (bad,) = outbox.unreadable()
    assert isinstance(bad, BadFileError)
    assert str(bad.where).endswith("000000-odd.json")


def test_what_is_no_file_hides_no_report(outbox: Outbox) -> None:
    outbox.enqueue("a", {})
    (outbox.folder / "000000-folder.json").mkdir()
    (outbox.folder / "000000-link.json").symlink_to(outbox.folder / "gone")
    (outbox.folder / "000000-loop.json").symlink_to("000000-loop.json")
    os.mkfifo(outbox.folder / "000000-pipe.json")
    assert waiting(outbox) == ["a"]
    assert [(bad.what, Path(str(bad.where)).name) for bad in outbox.unreadable()] == [
        ("is no file", f"000000-{kind}.json") for kind in ("folder", "link", "loop", "pipe")
    ]
    outbox.enqueue("b", {})
    assert waiting(outbox) == ["a", "b"]


def test_a_file_that_may_not_be_read_hides_no_report(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = outbox.enqueue("a", {})
    outbox.enqueue("b", {})
    read = files.open_regular

    def refuse(path: Path) -> IO[bytes]:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(files, "open_regular", refuse)
    assert waiting(outbox) == ["b"]
    (bad,) = outbox.unreadable()
    assert (bad.what, bad.where) == ("cannot be read: Permission denied", str(closed))


def test_a_report_that_is_sent_while_the_outbox_is_read_is_passed_over(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = outbox.enqueue("a", {})
    outbox.enqueue("b", {})
    read = files.open_regular

    def send_first(path: Path) -> IO[bytes]:
        if path == moved:
            path.unlink()
        return read(path)

    monkeypatch.setattr(files, "open_regular", send_first)
    assert waiting(outbox) == ["b"]
    assert outbox.unreadable() == []


def test_hostile_names_do_not_reach_the_file_system(outbox: Outbox) -> None:
    path = outbox.enqueue("../../etc/passwd\ud800", {"x": "\ud800"})
    assert path is not None
    assert path.parent == outbox.folder
    assert outbox.pending()[0].payload == {"x": "\ud800"}


def test_an_empty_outbox_has_nothing_to_send(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, lambda: NOW)
    assert outbox.pending() == []
    assert outbox.unreadable() == []


def test_a_report_that_cannot_be_moved_is_not_lost(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox.enqueue("a", {"x": 1})
    (report,) = outbox.pending()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        outbox.record(report, DELIVERED)
    monkeypatch.undo()
    assert waiting(outbox) == ["a"]
