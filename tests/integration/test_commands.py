"""Commands that are really started: what is said of those that fail, and what is left of those that hang."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.core.commands import finish_command, run_command, stream_command
from ci.core.errors import CommandError

# A shell is there at once: on a busy machine, too, it has started its child long before it is ended.
HANGS = 'sleep 600 & echo $! > "$0"; wait'


def streamed(argv: list[str | Path], *, timeout_s: float, cwd: Path | None = None) -> object:
    return stream_command(argv, timeout_s=timeout_s, cwd=cwd, line=lambda _: None)


CALLS: list[Callable[..., object]] = [run_command, finish_command, streamed]


@pytest.mark.parametrize("call", CALLS)
def test_a_command_that_is_not_installed_is_named(call: Callable[..., object]) -> None:
    with pytest.raises(CommandError, match="'no-such-command-here' is not installed") as told:
        call(["no-such-command-here"], timeout_s=10)
    assert "install no-such-command-here" in str(told.value)


@pytest.mark.parametrize("call", CALLS)
def test_a_file_nobody_may_run_is_not_called_missing(call: Callable[..., object], tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(CommandError, match="cannot be started: Permission denied"):
        call([plain], timeout_s=10)


@pytest.mark.parametrize("call", CALLS)
def test_a_folder_that_is_not_there_is_not_taken_for_the_command(
    call: Callable[..., object], tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="there is no such folder to run in") as told:
        call([sys.executable, "-V"], timeout_s=10, cwd=tmp_path / "gone")
    assert "gone" in str(told.value)


@pytest.mark.parametrize("call", CALLS)
def test_what_hangs_is_ended_with_all_it_started(call: Callable[..., object], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(CommandError, match=r"took longer than 1\.5 s"):
        call(["sh", "-c", HANGS, note], timeout_s=1.5)
    assert is_gone(int(note.read_text()))


def is_gone(pid: int) -> bool:
    """Whether a process ends within ten seconds; one that nobody waited for counts as ended."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_failed_command_is_quoted_with_its_last_lines() -> None:
    script = "import sys; [print(n, file=sys.stderr) for n in range(100)]; sys.exit(7)"
    with pytest.raises(CommandError) as told:
        run_command([sys.executable, "-c", script], timeout_s=30, remedy="look at it")
    said = str(told.value)
    assert "ended with code 7" in said
    assert "import sys" in said
    assert "  | 99" in said
    assert "  | 79" not in said
    assert "look at it" in said


def test_a_failed_command_that_writes_no_errors_is_quoted_with_what_it_printed() -> None:
    with pytest.raises(CommandError, match=r"\| only this"):
        run_command([sys.executable, "-c", "print('only this'); raise SystemExit(1)"], timeout_s=30)


def test_ends_of_lines_are_the_same_from_every_command() -> None:
    script = r"import sys; sys.stdout.buffer.write(b'a\r\nb\rc\xff\n')"
    assert run_command([sys.executable, "-c", script], timeout_s=30) == "a\nb\nc�\n"


def test_a_code_that_says_something_is_no_failure() -> None:
    ended = finish_command([sys.executable, "-c", r"print('\xe9'); raise SystemExit(4)"], timeout_s=30)
    assert (ended.code, ended.stdout.strip()) == (4, "é".encode())


@pytest.mark.parametrize("deaf", [False, True])
def test_a_command_ends_soon_once_it_is_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, deaf: bool
) -> None:
    monkeypatch.setattr("ci.core.commands.STOP_S", 1.0)
    note = tmp_path / "here"
    script = "import pathlib, signal, sys, time\n"
    script += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if deaf else ""
    script += "print('here', flush=True)\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(60)"
    ended = finish_command([sys.executable, "-c", script, note], timeout_s=50, stop=note.exists)
    assert (ended.code, ended.stdout) == (-9 if deaf else -15, b"here\n")


def test_a_command_that_may_be_stopped_still_has_its_time() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(CommandError, match=r"took longer than 0.8 s"):
        finish_command(sleeping, timeout_s=0.8, stop=lambda: False)
    ended = finish_command([sys.executable, "-c", "print(1)"], timeout_s=30, stop=lambda: False)
    assert (ended.code, ended.stdout) == (0, b"1\n")


def test_lines_come_while_the_command_runs_and_both_outputs_are_one() -> None:
    seen: list[str] = []
    script = "import os; os.write(1, b'out\\n'); os.write(2, b'err\\n'); os.write(1, b'end')"
    assert stream_command([sys.executable, "-c", script], timeout_s=30, line=seen.append) == 0
    assert seen == ["out", "err", "end"]


def test_a_command_cannot_wait_for_an_answer() -> None:
    ended = finish_command([sys.executable, "-c", "import sys; print(sys.stdin.read() == '')"], timeout_s=30)
    assert ended.stdout.strip() == b"True"


def test_a_command_has_the_environment_it_is_given_and_no_other() -> None:
    os.environ["SPYRE_TEST_LEAK"] = "1"
    try:
        ended = finish_command(
            [sys.executable, "-c", "import os; print(sorted(os.environ))"],
            timeout_s=30,
            env={"ONLY": "this", "PYTHONUTF8": "1"},
        )
    finally:
        del os.environ["SPYRE_TEST_LEAK"]
    assert b"'ONLY'" in ended.stdout
    assert b"SPYRE_TEST_LEAK" not in ended.stdout
