"""What a pod writes is put into a bucket in whole lines, and comes back as it was."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import CommandError
from ci.jobs import mirror
from ci.jobs.layout import PIECE_BYTES
from ci.jobs.mirror import Mirror, Sender, piece_length

FULL = 40


class Store:
    """Objects by name; away while it is told to be."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.away = False
        self.puts = 0
        self.bytes = 0

    def put(self, name: str, data: bytes) -> None:
        if self.away:
            raise CommandError("the bucket refuses", where="s3://x", remedy="wait")
        self.puts += 1
        self.bytes += len(data)
        self.objects[name] = data

    def file(self, name: str) -> bytes:
        """Its pieces one behind the other, which must not overlap or leave a hole."""
        found = b""
        for key in sorted(key for key in self.objects if key.startswith(f"{name}/")):
            assert int(key.rpartition("/")[2]) == len(found)
            found += self.objects[key]
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    (tmp_path / "logs").mkdir()
    return tmp_path


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


@given(
    parts=st.lists(
        st.lists(st.sampled_from([b"a", b"bcd\n", b"\n", b"e" * 30, b"f" * 100]), max_size=6).map(b"".join),
        max_size=8,
    )
)
def test_whatever_is_written_comes_back_and_before_the_end_in_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("pod")
    (folder / "journal").mkdir()
    store = Store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror, "FULL_BYTES", FULL // 2)
        patch.setattr(mirror, "LARGE_BYTES", FULL)
        patch.setattr(mirror, "PIECE_BYTES", 4 * FULL)
        sender = Sender(store.put, folder)
        written = b""
        for part in parts:
            add(folder / "journal" / "0-1.jsonl", part)
            written += part
            sender.send()
            there = store.file("journal/0-1.jsonl")
            assert written.startswith(there)
            whole = written[: written.rfind(b"\n") + 1]
            assert len(there) >= len(whole)
            if all(len(line) < 3 * FULL for line in written.split(b"\n")):
                assert there == whole
        sender.send(final=True)
    assert store.file("journal/0-1.jsonl") == written
    assert sender.unsent() == 0


def test_a_piece_is_put_anew_until_it_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "FULL_BYTES", FULL)
    store = Store()
    sender = Sender(store.put, folder)
    for _ in range(20):
        add(folder / "journal" / "3-1.jsonl", b"0123456\n")
        sender.send()
        sender.send()
    # 160 bytes in pieces of 40.
    assert len(store.objects) == 4
    assert store.puts == 20


def test_what_earlier_pods_left_and_what_no_pod_leaves_is_not_sent(folder: Path) -> None:
    store = Store()
    for name in (
        "journal/0-1.jsonl",
        "journal/0-2.jsonl",
        "journal/0-0.jsonl",
        "logs/pod-0-1.log",
        "journal/x.txt",
    ):
        add(folder / name, b"a line\n")
    Sender(store.put, folder, {"journal/0-1.jsonl"}).send()
    assert sorted(store.objects) == ["journal/0-2.jsonl/000000000000", "logs/pod-0-1.log/000000000000"]


def test_a_line_is_cut_only_where_no_piece_could_hold_it() -> None:
    assert piece_length(b"ab\ncd", final=False) == 3
    assert piece_length(b"ab\ncd", final=True) == 5
    assert piece_length(b"ab", final=False) == 0
    long = b"x" * mirror.LARGE_BYTES
    assert piece_length(b"ab\n" + long, final=False) == 3
    assert piece_length(long + b"x\ny", final=False) == len(long) + 2
    assert piece_length(long + b"x", final=False) == 0
    assert piece_length(long + b"x", final=True) == len(long) + 1
    assert piece_length(b"x" * PIECE_BYTES, final=False) == PIECE_BYTES


def test_a_bucket_that_is_away_is_tried_again_and_told_of_once(folder: Path) -> None:
    store, said = Store(), list[str]()
    store.away = True
    running = Mirror(Sender(store.put, folder), said.append, 0.005)
    add(folder / "journal" / "0-1.jsonl", b"a line\n")
    time.sleep(0.1)
    assert store.objects == {}
    store.away = False
    end = time.monotonic() + 10
    while "the store is back" not in said and time.monotonic() < end:
        time.sleep(0.01)
    assert running.finish(10) == ""
    assert store.file("journal/0-1.jsonl") == b"a line\n"
    assert len(said) == 2
    assert "the store is away, and is tried again: s3://x: the bucket refuses" in said[0]


def test_what_could_not_be_sent_is_told_of(folder: Path) -> None:
    store = Store()
    store.away = True
    add(folder / "journal" / "0-1.jsonl", b"a line\n")
    running = Mirror(Sender(store.put, folder), lambda _: None, 0.005)
    said = running.finish(0.2)
    assert said.startswith("7 bytes of journals and logs are not in the store: s3://x: the bucket refuses")
    store.away = False


def test_what_is_put_is_a_small_multiple_of_what_is_written(folder: Path) -> None:
    store = Store()
    sender = Sender(store.put, folder)
    path = folder / "journal" / "0-1.jsonl"
    for _ in range(500):  # what a pod was seen to write between two looks
        add(path, b"x" * 199 + b"\n" + b"y" * 1599 + b"\n")
        sender.send()
        sender.send()
    size = path.stat().st_size
    assert store.file("journal/0-1.jsonl") == path.read_bytes()
    assert store.puts == 500
    assert store.bytes < 6 * size
    # Where much is new, it goes at once.
    add(path, b"z" * 99_999 + b"\n")
    sender.send()
    assert (store.puts, store.bytes < 6 * size + 120_000) == (501, True)


@pytest.mark.parametrize(("pods", "seconds"), [(1, 0.5), (64, 0.5), (256, 2), (640, 5), (2048, 5)])
def test_pods_look_more_rarely_the_more_of_them_there_are(pods: int, seconds: float) -> None:
    assert mirror.look_s(pods) == seconds


def test_logs_are_sent_more_rarely_than_journals(folder: Path) -> None:
    store = Store()
    running = Mirror(Sender(store.put, folder), lambda _: None, 0.005)
    end = time.monotonic() + 10
    for number in range(5):
        add(folder / "logs" / "0-1.log", b"a line\n")
        add(folder / "journal" / "0-1.jsonl", b"a line\n")
        while len(store.file("journal/0-1.jsonl")) <= number * 7 and time.monotonic() < end:
            time.sleep(0.01)
    assert len(store.file("journal/0-1.jsonl")) == 35
    assert len(store.file("logs/0-1.log")) < 35
    assert running.finish(10) == ""
    assert len(store.file("logs/0-1.log")) == 35


def test_how_the_run_was_asked_to_go_is_there_whole_for_who_goes_on(folder: Path) -> None:
    store = Store()
    sender = Sender(store.put, folder)
    sender.send()
    for data in (b"{1}", b"{1}", b"{2}"):
        (folder / "run-settings.json").write_bytes(data)
        sender.send()
    assert (store.objects, store.puts) == ({"run-settings.json": b"{2}"}, 2)
