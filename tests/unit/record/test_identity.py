"""The run's identity, its file, and the command that runs a test again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError, MissingInputError
from ci.record.identity import RunIdentity, command_of, read_identity, write_identity
from ci.record.result import Result
from ci.record.verdict import Verdict


def make(**changes: object) -> RunIdentity:
    content: dict[str, object] = {
        "run": "r-1",
        "run_id": 7,
        "run_attempt": 2,
        "device": "spyre",
        "pytorch_version": "2.13.0",
        "pytorch_sha": "abc",
        "stage": None,
        "percent": 12.5,
        "started_at": 1_770_000_000.25,
        **changes,
    }
    return RunIdentity(**content)  # type: ignore[arg-type]  # one helper for all keys


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    identity = make(lane="nightly", url="https://ci.example/7", provider="github", reproduce=("nox", "a b"))
    write_identity(tmp_path, identity)
    assert read_identity(tmp_path) == identity


def test_the_time_is_written_as_iso_8601_in_utc(tmp_path: Path) -> None:
    write_identity(tmp_path, make())
    content = json.loads((tmp_path / "run.json").read_text())
    assert (content["schema"], content["started_at"]) == ("spyre-ci/run/1", "2026-02-02T02:40:00.250Z")


def test_the_key_is_run_attempt_and_readable_id() -> None:
    assert make().key == (7, 2, "r-1")
    one, other = make(provider="jenkins", workflow="spyre/a"), make(provider="jenkins", workflow="spyre/b")
    assert one.key == (7, 2, "spyre/a/r-1")
    assert other.key != one.key != make(provider="jenkins", workflow="spyre/a", lane="nightly").key


@pytest.mark.parametrize(
    ("key", "value"), [("run", None), ("run_id", "x"), ("started_at", "soon"), ("reproduce", [1])]
)
def test_a_key_of_the_wrong_kind_is_named(tmp_path: Path, key: str, value: object) -> None:
    write_identity(tmp_path, make())
    content = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**content, key: value}))
    with pytest.raises(BadFileError, match=r"run\.json: a key is missing or of the wrong kind"):
        read_identity(tmp_path)


def test_a_folder_without_an_identity_is_a_missing_input(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no run file"):
        read_identity(tmp_path)


def command(name: str, identity: RunIdentity, tried: int = 0) -> str:
    return command_of(Result(id=name, verdict=Verdict.FAILED, tried=tried), identity)


def test_passwords_in_addresses_reach_neither_the_file_nor_the_command(tmp_path: Path) -> None:
    identity = make(
        reproduce=("--pytorch-src", "git+https://me:s3cret@git.example/x@main"), url="https://u:s3cret@ci/7"
    )
    write_identity(tmp_path, identity)
    assert "s3cret" not in (tmp_path / "run.json").read_text()
    assert command("a", identity) == (
        "spyre-ci reproduce --run --pytorch-src git+https://git.example/x@main --device spyre -- a r-1"
    )
    assert "s3cret" not in repr(identity)


def test_the_command_quotes_the_id_for_a_shell() -> None:
    identity = make(reproduce=("nox", "-s", "pytorch", "--", "--pytorch-src", "my tree"))
    line = command("a.py::T::x[op='add']; rm -rf ~", identity)
    words = ["spyre-ci", "reproduce", "--run", "--pytorch-src", "my tree", "--device", "spyre", "--"]
    assert shlex.split(line) == [*words, "a.py::T::x[op='add']; rm -rf ~", "r-1"]


def test_an_id_with_control_characters_is_shown_without_them() -> None:
    assert command("a\x1b[2J\n'\\é", make(seed=7), 2) == (
        r"spyre-ci reproduce --run --device spyre --seed 7 --attempt 2 -- $'a\x1b[2J\x0a\x27\x5c\xc3\xa9' r-1"
    )


@given(st.text())
def test_no_id_can_move_a_terminal_or_break_the_line(name: str) -> None:
    line = command(name, make())
    assert "\n" not in line
    assert "\x1b" not in line
    line.encode()
