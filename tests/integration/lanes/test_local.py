"""Runs here: processes of their own that outlive whoever began them, and leave an exit code or none."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.core.process import finish_command
from ci.lanes.executors import Launch, LocalExecutor
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.wrapper import BEGIN, MARK, OUTPUT, mark_of
from ci.runner.orphans import end_orphans
from test_selection.files import read_json
from tests.calls import until

POLITE = """
import signal, sys, time
def end(*_):
    print("account", flush=True)
    sys.exit(130)
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
os.write(1, b"up\\n")
time.sleep(60)
"""


@pytest.fixture
def order(tmp_path: Path) -> Iterator[Order]:
    folder = tmp_path / "attempt"
    folder.mkdir()
    yield Order(lane="one", due=1, attempt=1, seed=0, folder=folder)
    end_orphans(mark_of(folder), variable=MARK)


def executor(
    program: str,
    *words: str,
    ending_s: float = 30,
    limit_s: float = 3600,
    cwd: Path | None = None,
    **environ: str,
) -> LocalExecutor:
    launch = Launch(
        words=[sys.executable, "-c", program, *words],
        environ={**os.environ, **environ},
        cwd=cwd or Path.cwd(),
        limit_s=limit_s,
    )
    return LocalExecutor(lambda _: launch, ending_s=ending_s)


def ended(one: LocalExecutor, order: Order) -> Seen:
    until(lambda: one.look(order, "").standing.ended)
    return one.look(order, "")


def output(order: Order) -> str:
    return (order.folder / OUTPUT).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "standing"),
    [
        (0, Standing.PASSED),
        (1, Standing.FAILED),
        (2, Standing.FAILED),
        (3, Standing.INCOMPLETE),
        (70, Standing.INCOMPLETE),
    ],
)
def test_an_exit_code_becomes_a_standing(order: Order, code: int, standing: Standing) -> None:
    one = executor("import sys; print('said'); sys.exit(int(sys.argv[1]))", str(code))
    assert one.find(order) is None
    reference = one.start(order)
    assert one.find(order) == reference
    seen = ended(one, order)
    assert (seen.standing, seen.exit_code) == (standing, code)
    assert output(order) == "said\n"


def test_who_was_ended_by_a_signal_is_said_to_have_been(order: Order) -> None:
    one = executor("import os; os.kill(os.getpid(), 9)")
    one.start(order)
    assert ended(one, order) == Seen(standing=Standing.INCOMPLETE, exit_code=-9, said="ended by SIGKILL")


def test_a_program_that_is_not_there_is_told(order: Order) -> None:
    launch = Launch(words=["/no/such/program"], environ=dict(os.environ), cwd=Path.cwd(), limit_s=9)
    one = LocalExecutor(lambda _: launch, ending_s=1)
    one.start(order)
    seen = ended(one, order)
    assert (seen.standing, seen.exit_code) == (Standing.INCOMPLETE, None)
    assert "'/no/such/program' is not installed" in seen.said


def test_the_same_order_started_again_begins_nothing(order: Order, tmp_path: Path) -> None:
    one = executor(
        "import sys, time; open(sys.argv[1], 'a').write('x'); time.sleep(1)", str(tmp_path / "begun")
    )
    references = {one.start(order), one.start(order)}
    ended(one, order)
    references.add(one.start(order))
    assert len(references) == 1
    assert (tmp_path / "begun").read_text(encoding="utf-8") == "x"


def test_it_runs_in_a_session_of_its_own_and_what_it_left_goes_with_it(order: Order) -> None:
    program = "import os; print(os.getsid(0), os.getpid()); os.fork() or __import__('time').sleep(60)"
    one = executor(program)
    one.start(order)
    assert ended(one, order).standing is Standing.PASSED
    session, process = output(order).splitlines()[0].split()
    assert session == process
    assert int(session) != os.getsid(0)
    assert carrying(order) == []


def test_told_to_end_it_hears_ctrl_c_and_ends_in_its_own_way(order: Order) -> None:
    one = executor(POLITE)
    reference = one.start(order)
    until(lambda: output(order) == "up\n")
    one.cancel(order, reference)
    assert ended(one, order).exit_code == 130
    assert output(order) == "up\naccount\n"
    one.cancel(order, reference)


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_who_was_told_to_end_came_to_no_answer_whatever_code_it_ends_with(order: Order, code: int) -> None:
    one = executor(POLITE.replace("130", str(code)))
    reference = one.start(order)
    until(lambda: output(order) == "up\n")
    one.cancel(order, reference)
    assert ended(one, order) == Seen(standing=Standing.INCOMPLETE, exit_code=code, said="was told to end")


@pytest.mark.nightly
@pytest.mark.parametrize("code", [0, 130])
def test_its_limit_holds_without_a_worker(order: Order, code: int) -> None:
    one = executor(POLITE.replace("130", str(code)), limit_s=5)
    one.start(order)
    assert ended(one, order) == Seen(
        standing=Standing.TIMED_OUT, exit_code=3, said="took longer than its 5 s"
    )
    assert output(order) == "up\naccount\n"


@pytest.mark.parametrize("told", [False, True])
def test_what_left_its_group_goes_with_it(order: Order, *, told: bool) -> None:
    program = DEAF.replace("os.setsid()", "os.setsid(); print('away', flush=True); time.sleep(60)")
    leaves = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n"
    one = executor(program if told else leaves, ending_s=0.2)
    reference = one.start(order)
    if told:
        until(lambda: sorted(output(order).split()) == ["away", "up"])
        one.cancel(order, reference)
    assert ended(one, order).standing is (Standing.INCOMPLETE if told else Standing.PASSED)
    assert carrying(order) == []


def test_who_does_not_listen_is_ended_with_its_group_after_its_time(order: Order) -> None:
    one = executor("import os; os.setsid = lambda: 0\n" + DEAF, ending_s=0.5)
    reference = one.start(order)
    until(lambda: output(order) == "up\nup\n")
    begun = time.monotonic()
    one.cancel(order, reference)
    assert ended(one, order).said == "ended by SIGKILL"
    assert time.monotonic() - begun < 30


def test_told_to_end_before_it_began_it_does_not_begin(order: Order) -> None:
    one = executor("print('begun')")
    one.cancel(order, "")
    one.start(order)
    seen = ended(one, order)
    assert (seen.standing, seen.said) == (Standing.INCOMPLETE, "was told to end before it began")
    assert output(order) == ""


def test_when_what_ran_it_is_killed_it_is_gone_and_nothing_of_it_goes_on(order: Order) -> None:
    one = executor(DEAF)
    wrapper = int(one.start(order))
    until(lambda: output(order) == "up\nup\n")
    os.kill(wrapper, signal.SIGKILL)
    seen = ended(one, order)
    assert (seen.standing, seen.exit_code) == (Standing.GONE, None)
    assert carrying(order) == []


def carrying(order: Order) -> list[str]:
    """Processes of a run, also those in a session of their own."""
    found = finish_command(["grep", "-lszF", f"{MARK}={mark_of(order.folder)}", *environs()], timeout_s=30)
    return found.stdout.decode().split()


def environs() -> list[str]:
    return [str(path) for path in Path("/proc").glob("[0-9]*/environ")]


def test_after_a_reboot_it_is_gone_and_who_has_its_number_now_is_left_alone(order: Order) -> None:
    one = executor("pass")
    one.start(order)
    ended(one, order)
    (order.folder / "end.json").unlink()
    begin = (order.folder / BEGIN).read_text(encoding="utf-8")
    number = str(read_json(order.folder / BEGIN, "lane-begin")["pid"])
    # The number is another's: this very process, which would be the first to notice.
    (order.folder / BEGIN).write_text(begin.replace(number, str(os.getpid())), encoding="utf-8")
    reference = one.find(order)
    assert reference == str(os.getpid())
    one.cancel(order, reference)
    assert ended(one, order).standing is Standing.GONE


def test_secrets_are_in_its_environment_and_on_no_command_line(order: Order) -> None:
    one = executor(
        "import os, time; print(os.environ['TOKEN'], flush=True); time.sleep(2)", TOKEN="hush-hush"
    )
    wrapper = one.start(order)
    until(lambda: output(order) == "hush-hush\n")
    for number in (wrapper, *(path.parent.name for path in map(Path, carrying(order)))):
        assert b"hush-hush" not in Path(f"/proc/{number}/cmdline").read_bytes()
    kept = [path for path in order.folder.iterdir() if path.name != OUTPUT and b"hush" in path.read_bytes()]
    assert kept == []
    assert (order.folder / OUTPUT).stat().st_mode & 0o077 == 0


def test_what_it_prints_is_whole_in_its_file(order: Order) -> None:
    one = executor("for number in range(200_000): print(number)")
    one.start(order)
    ended(one, order)
    assert output(order).splitlines()[-1] == "199999"


def test_where_it_cannot_be_begun_that_is_said(order: Order) -> None:
    (order.folder / "lock").mkdir()
    with pytest.raises(CommandError, match=r"ended with code 1: .*(\n.*)*Is a directory"):
        executor("pass").start(order)
