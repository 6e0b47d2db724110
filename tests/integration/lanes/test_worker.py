"""Workers as processes of their own, with runs that are: killed at any moment, told to end, two at once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.lanes.desk import SOON, WAIT_S, Desk, lane

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux")


def told(one: subprocess.Popen[str], *numbers: int) -> tuple[int, str]:
    for number in numbers:
        one.send_signal(number)
    out, said = one.communicate(timeout=WAIT_S)
    assert said == ""
    return one.returncode, out


@pytest.mark.nightly
def test_told_twice_a_worker_leaves_at_once_and_the_next_one_finds_what_was_told_to_end(desk: Desk) -> None:
    desk.lanes({"ending_s": 15}, deaf=lane("deaf", retries={"most": 0}))
    one = desk.start("run")
    desk.up("deaf")
    one.send_signal(signal.SIGTERM)
    time.sleep(1)  # the worker has to hear the first before there is a second
    begun = time.monotonic()
    code, out = told(one, signal.SIGTERM)
    assert (code, "is left to the next worker" in out) == (130, True)
    assert time.monotonic() - begun < 10
    desk.lanes(deaf=lane("code-0", retries={"most": 0}))
    assert desk.call("run", "--once")[0] == 0
    (run,) = desk.history()
    assert [(one["status"], one["counts"]) for one in run["attempts"]] == [
        ("cancelled", False),
        ("passed", True),
    ]
    assert desk.left() == []


def test_a_lane_is_begun_by_hand_whoever_begins_it_else(desk: Desk) -> None:
    ours = lane("code-0", begun_by={"github": "nightly.yml"})
    desk.lanes(ours=ours, off=lane("code-0", enabled=False), other=lane("code-0"))
    for words in (["--now"], ["--once", "--now"], ["--lane", "ours", "--now"]):
        code, _, said = desk.call("run", *words)
        assert (code, "spyre-ci lanes run --once --lane NAME --now" in said) == (2, True)
    code, _, said = desk.call("run", "--once", "--lane", "off", "--now")
    assert (code, "lane off is disabled" in said) == (2, True)
    code, out, said = desk.call("run", "--once", "--lane", "ours", "--now")
    assert (code, said) == (0, "")
    assert "starts: requested by hand" in out
    assert [one["lane"] for one in desk.begun()] == ["ours"]
    assert [one["why"] for one in desk.history()] == ["requested by hand"]


def test_what_is_next_and_what_ran_is_told_and_looking_changes_nothing(desk: Desk) -> None:
    desk.lanes(
        ours=lane("code-0", {"cron": "1 1 * * *"}, begun_by={"jenkins": "nightly"}), red=lane("code-1")
    )
    code, out, said = desk.call("status")
    assert (code, said) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["lane", "red", "ours"]
    assert "is due" in out
    assert "is started by its CI" in out
    assert not desk.state.exists()
    assert desk.call("run", "--once")[0] == 1
    code, out, _ = desk.call("status", "--lane", "red")
    assert out.splitlines()[-1].split()[:6] == ["red", *out.splitlines()[-1].split()[1:4], "1", "failed"]
    document = json.loads(desk.call("status", "--json", "--at", "2035-01-01T00:00+01:00")[1])
    assert [(one["lane"], one["time"]) for one in document["lanes"]] == [
        ("red", "2034-12-31T23:00:00+00:00"),
        ("ours", "2035-01-01T01:01:00+00:00"),
    ]
    assert [run["status"] for run in document["runs"]] == ["failed"]
    assert Path(document["runs"][0]["attempts"][0]["folder"], "output.log").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--lane", "nightli"], "did you mean 'nightly'?"),
        (["status", "--lane", "xyz"], "lanes are nightly"),
        (["status", "--at", "1066-10-14T09:00"], "'1066-10-14T09:00' is not a time"),
        (["status", "--at", "tomorrow"], "write it as 2026-03-29T02:30"),
    ],
)
def test_what_cannot_be_asked_for_is_told(desk: Desk, words: list[str], said: str) -> None:
    desk.lanes(nightly=lane("code-0"))
    code, _, told = desk.call(*words)
    assert (code, said in told) == (2, True), told
    desk.lanes()
    code, _, told = desk.call("run")
    assert (code, "there are no lanes in the settings" in told) == (2, True)


@pytest.mark.nightly
def test_real_nox_told_to_end_waits_for_the_account_of_what_it_started(desk: Desk) -> None:
    (desk.folder / "bin" / "nox").unlink()
    program = desk.folder / "account.py"
    program.write_text(
        "import signal, sys, time\n"
        "def end(*_):\n    time.sleep(1)\n    print('wrote the account', flush=True)\n    sys.exit(130)\n"
        "signal.signal(signal.SIGINT, end)\nprint('up', flush=True)\ntime.sleep(600)\n",
        encoding="utf-8",
    )
    (desk.folder / "noxfile.py").write_text(
        "import nox\n@nox.session(venv_backend='none')\ndef long(session):\n"
        f"    session.run({sys.executable!r}, {str(program)!r}, external=True, interrupt_timeout=60)\n",
        encoding="utf-8",
    )
    work = {"session": {"name": "long", "noxfile": "noxfile.py"}}
    desk.lanes({"ending_s": 60}, long={**lane("long"), "run": work})
    one = desk.start("run")
    desk.up("long")
    code, out = told(one, signal.SIGTERM)
    assert (code, "CANCELLED" in out) == (130, True)
    (output,) = desk.state.glob("long/*/output.log")
    assert "wrote the account" in output.read_text(encoding="utf-8")
    assert desk.left() == []


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_again_and_again_nothing_begins_twice_and_nothing_is_forgotten(desk: Desk, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  # when to kill is no secret
    tries = {"most": 1, "first_s": 0.2, "jitter": 0}
    work = {"quick": "code-0", "slow": "sleep-700", "lost": "code-3", "red": "code-1"}
    again = {name: lane(session, SOON, retries=tries) for name, session in work.items()}
    desk.lanes({"poll_s": 0.05}, **again, off=lane("code-0", SOON, enabled=False))
    kills = 0
    while kills < 25 or (len(desk.begun()) <= 40 and kills < 100):
        kills += 1
        one = desk.start("run")
        # From before it has read its settings to some time after it began.
        time.sleep(rng.uniform(0.3, 3))
        one.kill()
        one.communicate(timeout=WAIT_S)
    # The last one sees to what is left, and begins nothing new.
    desk.lanes({"poll_s": 0.05}, **{name: lane(session, retries=tries) for name, session in work.items()})
    assert desk.call("run", "--once")[0] in {0, 1, 3}
    begun = Counter(f"{one['lane']}/{one['run']}" for one in desk.begun())
    assert set(begun.values()) == {1}
    history = desk.history()
    noted = {
        f"{one['lane']}/{one['due']}-{one['attempt']}": one for run in history for one in run["attempts"]
    }
    assert set(begun) == set(noted)
    codes = {"quick": 0, "slow": 0, "lost": 3, "red": 1}
    assert {(one["lane"], one["exit_code"]) for one in noted.values()} == set(codes.items())
    assert not any(one["status"] == "running" or one["retry_at"] for one in noted.values())
    assert {len(run["attempts"]) for run in history if run["lane"] == "lost"} == {2}
    assert len(begun) > 40
