"""Following a container, and taking out of it what was made by others."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from hypothesis import given
from hypothesis import strategies as st

from ci.core import containers
from ci.core.containers import Ended, _lines, follow, take_out
from ci.core.errors import CommandError


def archive(*members: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for one in members:
            tar.addfile(one, io.BytesIO(b"x" * one.size))
    return stream.getvalue()


def member(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = size, kind, link
    return made


class Fake:
    """What is asked of a container here."""

    def __init__(self, data: bytes = b"", *, lines: bytes = b"", code: int = 0, gone: bool = False) -> None:
        self.data, self.lines, self.code, self.gone = data, lines, code, gone
        self.attrs = {"State": {"OOMKilled": code == 9}}
        self.kills = 0

    def get_archive(self, _: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        if self.gone:
            raise NotFound("no such container")
        return iter([self.data[i : i + 512] for i in range(0, len(self.data), 512)]), {}

    def logs(self, **_: object) -> Iterator[bytes]:
        return iter([self.lines])

    def wait(self, **_: object) -> dict[str, int]:
        if self.gone:
            raise NotFound("no such container")
        return {"StatusCode": self.code}

    def reload(self) -> None:
        """Nothing new."""

    def kill(self) -> None:
        self.kills += 1
        raise APIError("it is not running")


def as_container(fake: Fake) -> Container:
    return cast("Container", fake)


def test_files_and_folders_are_taken_and_nothing_else(tmp_path: Path) -> None:
    data = archive(
        member("junit", kind=tarfile.DIRTYPE),
        member("junit/a/unit.xml", size=3),
        member("junit/link.xml", kind=tarfile.SYMTYPE, link="/etc/passwd"),
        member("junit/pipe.xml", kind=tarfile.FIFOTYPE),
    )
    assert take_out(as_container(Fake(data)), "/opt/junit", tmp_path / "taken") is True
    taken = [path.relative_to(tmp_path).as_posix() for path in (tmp_path / "taken").rglob("*")]
    assert sorted(taken) == ["taken/a", "taken/a/unit.xml"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert take_out(as_container(Fake(gone=True)), "/opt/junit", tmp_path / "taken") is False
    assert not (tmp_path / "taken").exists()


def test_a_link_in_the_folders_place_is_followed_nowhere(tmp_path: Path) -> None:
    data = archive(member("junit", kind=tarfile.SYMTYPE, link="/etc"))
    assert take_out(as_container(Fake(data)), "/opt/junit", tmp_path / "taken") is True
    assert list((tmp_path / "taken").iterdir()) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (archive(member("junit/../../out.xml", size=1)), "cannot be taken"),
        (archive(member("junit/a.xml", size=2000)), "has more than 0 MiB"),
        (archive(*[member(f"junit/{number}") for number in range(5)]), "has more than 3 files"),
        (archive(member("junit/a.xml", size=600))[:700], "cannot be taken: unexpected end of data"),
        (b"no archive at all", "cannot be taken"),
    ],
)
def test_what_must_not_be_unpacked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, said: str
) -> None:
    monkeypatch.setattr(containers, "MOST_FILES", 3)
    if "MiB" in said:
        monkeypatch.setattr(containers, "MOST_BYTES", 1500)
    with pytest.raises(CommandError, match=said):
        take_out(as_container(Fake(data)), "/opt/junit", tmp_path / "taken")
    assert not (tmp_path / "out.xml").exists()


def test_a_size_that_is_only_said_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "MOST_BYTES", 10_000_000)
    header = member("junit/a.xml", size=1 << 40).tobuf()
    with pytest.raises(CommandError, match="has more than 9 MiB"):
        take_out(as_container(Fake(header + bytes(1024))), "/opt/junit", tmp_path / "taken")


def test_a_container_is_followed_to_its_end() -> None:
    lines: list[str] = []
    text = b"".join(b"line %d\r\n" % number for number in range(30))
    ended = follow(as_container(Fake(lines=text, code=9)), timeout_s=60, echo=lines.append)
    assert lines == [f"line {number}" for number in range(30)]
    assert ended == Ended(exit_code=9, out_of_memory=True, last=tuple(lines[-20:]))


def test_a_container_that_somebody_removed_was_killed() -> None:
    ended = follow(as_container(Fake(lines=b"waiting", gone=True)), timeout_s=60, echo=lambda _: None)
    assert ended == Ended(exit_code=137, last=("waiting",))


def test_one_that_ended_just_before_its_time_was_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    class Now(SimpleNamespace):
        def __init__(self, _: float, call: Any) -> None:
            super().__init__(call=call, daemon=False)

        def start(self) -> None:
            self.call()

        def cancel(self) -> None:
            """Too late."""

        def join(self) -> None:
            """It is through."""

    monkeypatch.setattr("threading.Timer", Now)
    fake = Fake()
    ended = follow(as_container(fake), timeout_s=1, echo=lambda _: None)
    assert (ended.timed_out, fake.kills) == (False, 1)


def test_one_that_we_ended_was_late_also_where_its_end_is_heard_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(SimpleNamespace):
        def __init__(self, _: float, call: Any) -> None:
            super().__init__(join=call, daemon=False, start=lambda: None, cancel=lambda: None)

    monkeypatch.setattr("threading.Timer", Slow)
    fake = Fake(code=137)
    monkeypatch.setattr(fake, "kill", lambda: None)
    assert follow(as_container(fake), timeout_s=1, echo=lambda _: None).timed_out


@given(st.lists(st.binary(max_size=20)))
def test_lines_are_whole_however_their_pieces_come(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    expected = [line.decode("utf-8", "replace").rstrip("\r") for line in text.split(b"\n")]
    assert list(_lines(iter(pieces)))[: text.count(b"\n")] == expected[: text.count(b"\n")]


def test_a_line_without_end_comes_in_parts() -> None:
    pieces = [b"x" * 10_000] * 20
    parts = list(_lines(iter(pieces)))
    assert (len(parts), sum(map(len, parts))) == (3, 200_000)
    assert max(map(len, parts)) <= containers.LINE_BYTES + 10_000
