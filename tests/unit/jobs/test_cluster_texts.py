from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from urllib3.exceptions import SSLError

from ci.jobs.answers import Reply, asked_wait_s, content_of, error_of, events_of, lines_of
from ci.jobs.board import Board
from ci.jobs.errors import ClusterAwayError, CredentialsError, ForbiddenError, GoneError
from ci.jobs.fate import Fate, Phase
from ci.jobs.log_lines import Unseen, shown_line, split_lines, window_s, without_time
from ci.jobs.paths import log_path, path_of
from ci.jobs.standing import Standing
from ci.jobs.transport import NoAnswerError, _told
from ci.jobs.watch_view import MAX_TOLD, Lines, Screen, reasons, view_for


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("Job", "a"), "/apis/batch/v1/namespaces/a/jobs"),
        (("Pod", "a", "x"), "/api/v1/namespaces/a/pods/x"),
        (("Pod",), "/api/v1/pods"),
        (("Node", "a", "n"), "/api/v1/nodes/n"),
        (("ConfigMap", "../b", "x/y?z"), "/api/v1/namespaces/..%2Fb/configmaps/x%2Fy%3Fz"),
    ],
)
def test_paths_are_those_of_the_api(words: tuple[str, ...], path: str) -> None:
    assert path_of(*words) == path


def test_a_log_is_below_its_pod() -> None:
    assert log_path("a", "x") == "/api/v1/namespaces/a/pods/x/log"


def reply(status: int = 200, body: Any = None, **headers: str) -> Reply:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status=status, headers=headers, body=text)


@pytest.mark.parametrize(("told", "wait_s"), [("7", 7), ("9999", 60), ("soon", 0), ("-1", 0), ("", 0)])
def test_a_wait_is_as_long_as_is_asked_for_within_reason(told: str, wait_s: float) -> None:
    assert asked_wait_s(Reply(status=429, headers={"retry-after": told}, body=b"")) == wait_s


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[1]", b""])
def test_an_answer_that_is_no_object_is_told(body: bytes) -> None:
    with pytest.raises(ClusterAwayError, match="is no JSON object") as caught:
        content_of(reply(body=body), "GET /x")
    assert "no proxy stands between" in str(caught.value)


def test_what_a_cluster_says_steers_no_terminal_and_shows_no_secret() -> None:
    said = {"message": "\x1b[2Jsee https://me:pass@example.com/x?token=abc " + "x" * 10_000}
    told = str(error_of(reply(403, said), "GET /x"))
    assert "\x1b" not in told
    assert "pass" not in told
    assert "abc" not in told
    assert len(told) < 1000
    assert isinstance(error_of(reply(403, b"no"), "GET /x"), ForbiddenError)


@given(st.lists(st.binary(max_size=8).map(lambda one: one.replace(b"\r", b"")), max_size=8), st.data())
def test_lines_are_the_same_however_they_come(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole)))
    assert list(lines_of(pieces)) == whole.split(b"\n")[:-1]
    assert list(lines_of([whole[:cut], whole[cut:]])) == whole.split(b"\n")[:-1]
    kept = whole.removesuffix(b"\n").split(b"\n") if whole else []
    assert list(split_lines(pieces)) == kept
    assert b"".join(split_lines(pieces, longest=3)) == whole.replace(b"\n", b"")
    assert all(len(line) <= 3 for line in split_lines(pieces, longest=3))


def test_events_are_read_and_errors_in_their_place_raised() -> None:
    good = {"type": "ADDED", "object": {"metadata": {}}}
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    lines = [json.dumps(one).encode() + b"\n" for one in (good, gone)]
    events = events_of([b"\n", *lines], "GET /x")
    assert next(events) == good
    with pytest.raises(GoneError, match="410: too old"):
        next(events)


@pytest.mark.parametrize("line", [b"nothing\n", b"[]\n", b'{"type": "ADDED"}\n'])
def test_what_is_no_event_is_told(line: bytes) -> None:
    with pytest.raises(ClusterAwayError, match="is no event"):
        list(events_of([line], "GET /x"))


def test_an_error_without_a_code_is_the_clusters_own() -> None:
    with pytest.raises(ClusterAwayError, match="500"):
        list(events_of([b'{"type": "ERROR", "object": null}\n'], "GET /x"))


def test_a_certificate_nobody_trusts_is_told_and_not_tried_again() -> None:
    said = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
    told = _told(SSLError(said))
    assert isinstance(told, CredentialsError)
    assert "is not trusted" in told.what
    assert "certificate-authority" in str(told)
    other = _told(SSLError("UNEXPECTED_EOF_WHILE_READING"))
    assert isinstance(other, NoAnswerError)
    assert not other.taken


def test_windows_are_in_seconds() -> None:
    assert window_s("minutes", 3) == 180
    assert window_s("hours", 3) == 10_800
    assert window_s("days", 3) == 259_200
    assert window_s("weeks", 3) == 1_814_400


def test_a_line_is_shown_on_one_line() -> None:
    assert shown_line(b"a\x1b[31mb\rc\r", "[1] ") == "[1] ab\\x0dc"
    assert shown_line(b"::error::x", "") == "| ::error::x"
    assert without_time(b"2026-11-23T00:00:00.1Z a b") == (b"2026-11-23T00:00:00.1Z", b"a b")
    assert without_time(b"the rest of a long line") == (b"", b"the rest of a long line")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3))), st.lists(st.integers(0, 40), max_size=4))
def test_a_log_that_is_cut_anywhere_is_given_out_once(lines: list[tuple[int, int]], cuts: list[int]) -> None:
    lines.sort(key=lambda line: line[0])
    pieces = [
        (b"2026-11-23T00:00:0%d.1Z" % time if not piece else b"", (number, piece))
        for number, (time, long) in enumerate(lines)
        for piece in range(long)
    ]
    unseen, given = Unseen(), []
    for end in [*cuts, len(pieces)]:
        begin = next((at for at, (time, _) in enumerate(pieces) if time and time >= unseen.last), 0)
        given += [what for time, what in pieces[begin : max(end, begin)] if unseen.take(time)]
        unseen.cut()
    assert given == [what for _, what in pieces]


def board(pods: int = 4) -> Board:
    one = Board(Standing(pods=pods), 0)
    for index, phase in enumerate(("Running", "Succeeded")):
        about = {"uid": str(index), "labels": {"batch.kubernetes.io/job-completion-index": str(index)}}
        one.take("ADDED", {"metadata": about, "status": {"phase": phase}}, 1)
    return one


BAD = Fate(index=1, phase=Phase.EVICTED, why="low on disk")


def test_a_log_has_a_line_where_something_changed_and_one_after_silence() -> None:
    said: list[str] = []
    lines, one = Lines(say=said.append), board()
    lines.show(one, 0)
    assert said == ["4 pods: 2 pending, 1 running, 1 done; 2 pending: no pod of it was made yet"]
    lines.show(one, 20)
    assert len(said) == 1
    lines.show(one, 61)
    assert len(said) == 2
    lines.tell(BAD)
    assert said[-1] == "pod 1 evicted: low on disk"
    lines.end(one)
    assert said[-1] == "4 pods: 2 pending, 1 running, 1 done"


def test_pods_that_end_badly_in_great_number_are_counted() -> None:
    said: list[str] = []
    lines = Lines(say=said.append)
    for _ in range(MAX_TOLD + 5):
        lines.tell(BAD)
    lines.end(board())
    assert len(said) == MAX_TOLD + 2
    assert said[-2] == "5 more that ended badly are not shown"


def test_a_terminal_has_a_line_that_stays() -> None:
    text = io.StringIO()
    screen = view_for(Console(file=text, force_terminal=True, width=100), {"TERM": "xterm"})
    assert isinstance(screen, Screen)
    one = board()
    screen.show(one, 0)
    screen.show(one, 0.1)
    for _ in range(MAX_TOLD + 5):
        screen.tell(BAD)
    screen.end(one)
    shown = text.getvalue()
    assert "2 pending: no pod of it was made yet" in shown
    assert shown.count("low on disk") == MAX_TOLD
    assert "5 more that ended badly are not shown" in shown
    assert shown.rstrip().endswith("4 pods: 2 pending, 1 running, 1 done")


def test_a_log_of_a_ci_has_lines_that_command_nothing() -> None:
    text = io.StringIO()
    lines = view_for(Console(file=text, force_terminal=True), {"CI": "1"})
    assert isinstance(lines, Lines)
    lines.say("::error::x")
    assert text.getvalue() == "| ::error::x\n"


def test_reasons_are_the_commonest_or_the_whole_jobs() -> None:
    one = board(3)
    for number in range(5):
        one.reasons[f"reason {number}"] = number + 1
    assert reasons(one) == [
        "5 pending: reason 4",
        "4 pending: reason 3",
        "3 pending: reason 2",
        "and for other reasons",
    ]
    one.look(Standing(pods=3, waits="waits in the queue cards"), 1)
    assert reasons(one) == ["the job waits in the queue cards"]


def test_pods_that_were_replaced_are_counted() -> None:
    said: list[str] = []
    one = board()
    one.badly[Phase.LOST] = 2
    Lines(say=said.append).end(one)
    assert said == ["4 pods: 2 pending, 1 running, 1 done; 2 pods replaced"]
