"""Attempts here: processes of their own that outlive whoever began them, and leave an exit code or none."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.lanes.attempt import MARK, OUTPUT, End, Launch, LocalProcesses
from ci.lanes.ledger import Status
from ci.runner.orphans import end_orphans
from tests.calls import until

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux")
HERE = LocalProcesses()
POLITE = """
import signal, sys, time
def end(*_):
    print("account", flush=True)
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGINT, end)
print("up", flush=True)
time.sleep(60)
"""
DEAF = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
# At once: of two that print, one's end of line may come behind the other's word.
os.write(1, f"up {os.getpid()}\\n".encode())
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "attempt"
    end_orphans(str((tmp_path / "attempt").resolve()), variable=MARK)


def launch(
    program: str, *words: object, ending_s: float = 30, limit_s: float = 3600, **environ: str
) -> Launch:
    command = [sys.executable, "-c", program, *map(str, words)]
    return Launch(
        command=command, environ={**os.environ, **environ}, cwd=Path.cwd(), limit_s=limit_s, ending_s=ending_s
    )


def ended(folder: Path) -> End:
    until(lambda: HERE.end_of(folder) is not None)
    end = HERE.end_of(folder)
    assert end is not None
    return end


def output(folder: Path) -> str:
    return (folder / OUTPUT).read_text(encoding="utf-8")


def holding(file: str, word: str) -> list[str]:
    """Processes that have a word in their environment or on their command line."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def left(folder: Path) -> list[str]:
    return holding("environ", f"{MARK}={folder.resolve()}")


@pytest.mark.parametrize(
    ("code", "status"), [(0, "passed"), (1, "failed"), (2, "failed"), (3, "incomplete"), (70, "incomplete")]
)
def test_an_exit_code_becomes_a_status_and_what_it_printed_is_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: int, status: str
) -> None:
    # A project may have a package that is called as ours.
    (folder.parent / "ci").mkdir()
    (folder.parent / "ci/__init__.py").touch()
    monkeypatch.chdir(folder.parent)
    program = (
        "import os, sys\nfor n in range(20_000): print('line', n)\n"
        "print(os.getsid(0) == os.getpid(), os.environ['TOKEN'])\nsys.exit(int(sys.argv[1]))"
    )
    assert not HERE.has_begun(folder)
    HERE.start(folder, launch(program, code, TOKEN="hush"))
    assert HERE.has_begun(folder)
    end = ended(folder)
    assert (end.status, end.exit_code) == (status, code)
    assert end.ended_at is not None
    assert abs(end.ended_at - time.time()) < 60
    lines = output(folder).splitlines()
    assert (len(lines), lines[-1]) == (20_001, "True hush")


def test_the_same_attempt_started_again_begins_nothing(folder: Path, tmp_path: Path) -> None:
    one = launch("import sys, pathlib; open(sys.argv[1], 'a').write('x')", tmp_path / "marks")
    HERE.start(folder, one)
    HERE.start(folder, one)
    ended(folder)
    HERE.start(folder, one)
    assert (tmp_path / "marks").read_text() == "x"


@pytest.mark.parametrize("code", [0, 1, 130])
def test_what_is_told_to_end_hears_ctrl_c_and_gave_no_answer_whatever_its_code(
    folder: Path, code: int
) -> None:
    HERE.start(folder, launch(POLITE, code))
    until(lambda: "up" in output(folder))
    HERE.stop(folder)
    assert (ended(folder).status, ended(folder).exit_code) == (Status.CANCELLED, code)
    assert output(folder) == "up\naccount\n"


def test_its_limit_holds_without_a_worker(folder: Path) -> None:
    HERE.start(folder, launch(POLITE, 0, limit_s=0.5))
    end = ended(folder)
    assert (end.status, end.reason) == (Status.TIMED_OUT, "exceeded its limit of 0.5 s")
    assert "account" in output(folder)


def test_what_does_not_listen_is_killed_after_its_time_with_all_it_started(folder: Path) -> None:
    HERE.start(folder, launch(DEAF, ending_s=0.5))
    until(lambda: output(folder).count("up") == 2)
    HERE.stop(folder)
    end = ended(folder)
    assert (end.status, end.reason) == (Status.CANCELLED, "ended by SIGKILL")
    assert left(folder) == []


def test_told_to_end_before_it_began_it_does_not_begin(folder: Path) -> None:
    HERE.stop(folder)
    HERE.start(folder, launch("print('ran')"))
    assert (ended(folder).status, output(folder)) == (Status.CANCELLED, "")


def test_when_what_ran_it_is_killed_it_is_gone_and_nothing_of_it_goes_on(folder: Path) -> None:
    HERE.start(folder, launch(DEAF))
    until(lambda: output(folder).count("up") == 2)
    assert HERE.end_of(folder) is None
    inner = int(output(folder).split()[1])
    until(lambda: Path(f"/proc/{inner}/stat").exists())
    parents = [
        int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for pid in map(int, output(folder).split()[1::2])
    ]
    (wrapper,) = {pid for pid in parents if b"ci.lanes.attempt" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    os.kill(wrapper, signal.SIGKILL)
    end = ended(folder)
    assert (end.status, end.exit_code) == (Status.GONE, None)
    assert end.reason == "its processes ended without an exit code"
    assert left(folder) == []


def test_secrets_are_in_its_environment_and_on_no_command_line(folder: Path) -> None:
    secret = f"hush-{folder.parent.name}-{os.getpid()}"  # others may run this test at the same time
    HERE.start(folder, launch(POLITE, 0, TOKEN=secret))
    until(lambda: "up" in output(folder))
    assert holding("cmdline", secret) == []
    assert len(holding("environ", secret)) == 2
    HERE.stop(folder)
    ended(folder)


def test_a_program_or_folder_that_is_not_there_is_told(folder: Path, tmp_path: Path) -> None:
    HERE.start(
        folder,
        Launch(command=["no-such-program"], environ={**os.environ}, cwd=tmp_path, limit_s=9, ending_s=9),
    )
    assert (ended(folder).status, ended(folder).reason) == (
        Status.INCOMPLETE,
        "'no-such-program' is not installed",
    )
    (tmp_path / "file").write_text("")
    with pytest.raises((CommandError, OSError)):
        HERE.start(tmp_path / "file" / "attempt", launch("print()"))
