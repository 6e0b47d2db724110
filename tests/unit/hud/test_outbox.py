from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO, Any

import pytest

from ci.hud.answers import Answer, Outcome
from ci.hud.outbox import KEPT_ATTEMPTS, Outbox
from test_selection import files
from test_selection.files import read_json

NOW = 1_785_000_000.0
DELIVERED = Answer(outcome=Outcome.DELIVERED, status=200, detail="HTTP 200")
DOWN = Answer(outcome=Outcome.RETRY, status=503, detail="HTTP 503", doubtful=True)
AT = "2026-07-25T17:20:00.000Z"


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    """One in which report `a` waits."""
    outbox = Outbox(tmp_path, lambda: NOW)
    outbox.enqueue("a", {"x": 1})
    return outbox


def waiting(outbox: Outbox) -> list[str]:
    return [report.identity for report in outbox.pending()]


def record(outbox: Outbox, answer: Answer) -> None:
    outbox.record(outbox.pending()[0], answer)


def test_a_report_is_kept_in_a_file_of_its_own(outbox: Outbox) -> None:
    assert read_json(outbox.folder / outbox.pending()[0].name, "report") == {
        "schema": "spyre-ci/report/1",
        "identity": "a",
        "created_at": AT,
        "payload": {"x": 1},
        "attempts": [],
        "under_way": "",
    }


def test_reports_wait_in_the_order_they_came_and_once(outbox: Outbox) -> None:
    names = ["a", *(f"report-{number}" for number in range(12))]
    for name in names[1:]:
        outbox.enqueue(name, {})
    assert outbox.enqueue("a", {"x": 1}) == outbox.folder / outbox.pending()[0].name
    assert waiting(outbox) == names


def test_a_newer_payload_takes_the_waiting_ones_place(outbox: Outbox) -> None:
    record(outbox, DOWN)
    outbox.enqueue("b", {})
    outbox.enqueue("a", {"x": 2})
    first, second = outbox.pending()
    assert [(one.identity, one.payload) for one in (first, second)] == [("a", {"x": 2}), ("b", {})]
    # Whatever came of the older one is none of the newer one's, but that the endpoint may have it.
    assert (first.last_outcome, first.doubtful, second.doubtful) == ("corrected", True, False)


def test_what_is_delivered_moves_away_with_its_answer_and_only_a_correction_is_sent(outbox: Outbox) -> None:
    record(outbox, DELIVERED)
    assert waiting(outbox) == []
    (done,) = outbox.delivered("a")
    assert (done.payload, done.last_outcome, outbox.delivered("b")) == ({"x": 1}, "delivered", [])
    assert outbox.enqueue("a", {"x": 1}) is None
    path = outbox.enqueue("a", {"x": 2})
    assert path is not None
    assert path.name.startswith("000002-")
    record(outbox, DELIVERED)
    assert outbox.enqueue("a", {"x": 2}) is None


def test_what_is_not_delivered_stays_with_the_latest_attempts_noted(outbox: Outbox) -> None:
    record(outbox, DOWN)
    noted = {"at": AT, "outcome": "retry", "status": 503, "detail": "HTTP 503", "doubtful": True}
    assert outbox.pending()[0].attempts == (noted,)
    for _ in range(KEPT_ATTEMPTS + 5):
        record(outbox, DOWN)
    assert len(outbox.pending()[0].attempts) == KEPT_ATTEMPTS


def test_a_doubt_outlives_the_attempts_that_follow_it(outbox: Outbox) -> None:
    record(outbox, DOWN)
    for _ in range(2 * KEPT_ATTEMPTS):
        record(outbox, Answer(outcome=Outcome.RATE_LIMITED, status=429, detail="HTTP 429"))
    (report,) = outbox.pending()
    assert (report.doubtful, len(report.attempts)) == (True, KEPT_ATTEMPTS)
    assert [one["status"] for one in report.attempts] == [503, *[429] * (KEPT_ATTEMPTS - 1)]


def test_a_kill_while_it_was_under_way_leaves_doubt(outbox: Outbox) -> None:
    outbox.begin(outbox.pending()[0])
    assert outbox.pending()[0].doubtful
    outbox.begin(outbox.pending()[0])
    (report,) = outbox.pending()
    assert (report.last_outcome, report.doubtful) == ("killed", True)


def test_a_correction_of_what_was_killed_under_way_leaves_doubt(outbox: Outbox) -> None:
    outbox.begin(outbox.pending()[0])
    outbox.enqueue("a", {"x": 2})
    assert outbox.pending()[0].doubtful


def test_a_report_replaced_under_way_is_sent_again(outbox: Outbox) -> None:
    (under_way,) = outbox.pending()
    outbox.enqueue("a", {"x": 2})
    outbox.record(under_way, DELIVERED)
    assert [report.payload for report in outbox.pending()] == [{"x": 2}]


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": "spyre-ci/report/1", "identity": "a", "created_at": "", "payload": {}, "attempts": null}',
        "{",
        '{"schema": "spyre-ci/plan/1"}',
        '{"schema": "spyre-ci/report/1"}',
    ],
)
def test_a_file_that_is_no_report_hides_none(outbox: Outbox, text: str) -> None:
    (outbox.folder / "000000-odd.json").write_text(text)
    assert waiting(outbox) == ["a"]
    (bad,) = outbox.unreadable()
    assert str(bad.where).endswith("000000-odd.json")


def test_what_is_no_file_hides_no_report(outbox: Outbox) -> None:
    (outbox.folder / "000000-folder.json").mkdir()
    (outbox.folder / "000000-link.json").symlink_to(outbox.folder / "gone")
    (outbox.folder / "000000-loop.json").symlink_to("000000-loop.json")
    os.mkfifo(outbox.folder / "000000-pipe.json")
    assert waiting(outbox) == ["a"]
    assert [(bad.what, Path(str(bad.where)).name) for bad in outbox.unreadable()] == [
        ("is not a file", f"000000-{kind}.json") for kind in ("folder", "link", "loop", "pipe")
    ]
    outbox.enqueue("b", {})
    assert waiting(outbox) == ["a", "b"]


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), ["cannot be read: Permission denied"]),
        # It is sent while the outbox is read.
        (FileNotFoundError(errno.ENOENT, "No such file"), []),
    ],
)
def test_a_file_that_cannot_be_read_hides_no_report(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, refusal: OSError, said: list[str]
) -> None:
    outbox.enqueue("b", {})
    closed, read = outbox.folder / outbox.pending()[0].name, files.open_regular

    def refuse(path: Path) -> IO[bytes]:
        if path == closed:
            raise refusal
        return read(path)

    monkeypatch.setattr(files, "open_regular", refuse)
    assert waiting(outbox) == ["b"]
    assert [(bad.what, bad.where) for bad in outbox.unreadable()] == [(what, str(closed)) for what in said]


def test_hostile_names_do_not_reach_the_file_system(outbox: Outbox) -> None:
    path = outbox.enqueue("../../etc/passwd\ud800", {"x": "\ud800"})
    assert path is not None
    assert path.parent == outbox.folder
    assert outbox.pending()[1].payload == {"x": "\ud800"}


def test_a_report_that_cannot_be_moved_is_not_lost(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        record(outbox, DELIVERED)
    monkeypatch.undo()
    assert waiting(outbox) == ["a"]
