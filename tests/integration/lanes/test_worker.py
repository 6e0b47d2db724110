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
from typing import Any

import pytest

from tests.calls import until
from tests.integration.lanes.desk import SOON, WAIT_S, Desk, lane

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux")


def kill(one: subprocess.Popen[str]) -> None:
    one.kill()
    one.communicate(timeout=WAIT_S)


def told(one: subprocess.Popen[str], *numbers: int) -> tuple[int, str]:
    for number in numbers:
        one.send_signal(number)
    out, said = one.communicate(timeout=WAIT_S)
    assert said == ""
    return one.returncode, out


def attempts(desk: Desk, name: str) -> list[dict[str, Any]]:
    return [one for run in desk.history() if run["lane"] == name for one in run["attempts"]]


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGTERM, 1), (signal.SIGINT, 130)])
def test_a_run_that_was_told_to_end_with_the_worker_is_begun_again_whatever_code_it_ended_with(
    desk: Desk, number: signal.Signals, code: int
) -> None:
    desk.lanes(polite=lane(f"polite-{code}", retries={"most": 0}))
    one = desk.start("run")
    desk.up("polite")
    ended, out = told(one, number)
    assert ended == 130
    assert "was handed back); the next worker begins it again" in out
    ((folder),) = (desk.state / "polite").iterdir()
    assert "wrote the account" in (folder / "output.log").read_text(encoding="utf-8")
    desk.lanes(polite=lane("code-0", retries={"most": 0}))
    assert desk.call("run", "--once")[0] == 0
    assert [one["standing"] for one in attempts(desk, "polite")] == ["cancelled", "passed"]


@pytest.mark.nightly
def test_who_does_not_listen_is_killed_after_its_time_with_all_it_started(desk: Desk) -> None:
    desk.lanes({"ending_s": 1}, deaf=lane("deaf"))
    one = desk.start("run")
    desk.up("deaf")
    code, out = told(one, signal.SIGTERM)
    assert code == 130
    assert "was handed back" in out
    assert desk.left() == []


@pytest.mark.nightly
def test_told_twice_a_worker_leaves_at_once_and_the_next_one_knows_what_was_asked(desk: Desk) -> None:
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
    assert [one["handed_back"] for one in attempts(desk, "deaf")] == [True, False]
    assert desk.left() == []


@pytest.mark.nightly
def test_a_limit_holds_across_a_killed_worker(desk: Desk) -> None:
    desk.lanes({"ending_s": 1}, slow=lane("sleep-60000", time_limit_s=4, retries={"most": 0}))
    one = desk.start("run")
    until(desk.begun)
    kill(one)
    assert desk.call("run", "--once")[0] == 3
    (found,) = attempts(desk, "slow")
    assert (found["standing"], found["said"].split(";")[0]) == ("timed out", "took longer than its 4 s")
    assert found["ended_at"] - found["begun_at"] < 30
    assert desk.left() == []


def test_a_lane_is_begun_by_hand_whoever_begins_it_else(desk: Desk) -> None:
    ours = lane("code-0", begun_by="ci", where={})
    desk.lanes(ours=ours, off=lane("code-0", enabled=False), other=lane("code-0"))
    for words in (["--now"], ["--once", "--now"], ["--lane", "ours", "--now"]):
        code, _, said = desk.call("run", *words)
        assert (code, "spyre-ci lanes run --once --lane NAME --now" in said) == (2, True)
    code, _, said = desk.call("run", "--once", "--lane", "off", "--now")
    assert (code, "lane off is disabled" in said) == (2, True)
    code, out, said = desk.call("run", "--once", "--lane", "ours", "--now")
    assert (code, said) == (0, "")
    assert "begins: asked for by hand" in out
    assert [one["lane"] for one in desk.begun()] == ["ours"]
    assert [one["why"] for one in desk.history()] == ["asked for by hand"]
    where = {"jenkins": {"url": "https://jenkins.example.com", "job": "nightly"}}
    desk.lanes(there=lane("code-0", begun_by="ci", where=where))
    code, _, said = desk.call("run", "--once", "--lane", "there", "--now")
    assert (code, "runs on jenkins, which is where it is begun by hand" in said) == (2, True)


def test_where_no_worker_was_yet_status_says_so_and_who_begins_lanes(desk: Desk) -> None:
    desk.lanes(ours=lane("code-0", begun_by="ci", where={}), other=lane("code-0"))
    code, out, said = desk.call("status")
    assert (code, said) == (0, "")
    assert out == (
        "no lane was begun by a worker here yet\nbegun by their CI, which knows what became of them: ours\n"
    )
    code, out, _ = desk.call("status", "--json")
    assert (code, json.loads(out)) == (
        0, {"schema": "spyre-ci/lane-history/1", "runs": [], "begun_by_ci": ["ours"]},
    )  # fmt: skip
    assert not desk.state.exists()


def test_the_log_stays_short_whatever_a_run_prints(desk: Desk) -> None:
    desk.lanes(loud=lane("loud-50000"))
    code, out, _ = desk.call("run", "--once")
    assert (code, len(out.splitlines())) == (0, 4)
    (folder,) = (desk.state / "loud").iterdir()
    assert (folder / "output.log").read_text(encoding="utf-8").splitlines()[-1] == "line 49999"


def test_a_lane_that_is_not_there_and_settings_without_lanes_are_told(desk: Desk) -> None:
    desk.lanes(nightly=lane("code-0"))
    code, _, said = desk.call("run", "--lane", "nightli")
    assert (code, "there is no lane 'nightli'" in said, "did you mean nightly?" in said) == (2, True, True)
    code, _, said = desk.call("run", "--lane", "xyz")
    assert (code, "lanes are nightly" in said) == (2, True)
    desk.lanes()
    code, _, said = desk.call("run")
    assert (code, "there are no lanes in the settings" in said) == (2, True)


def test_a_lane_of_a_ci_that_begins_its_own_is_not_the_workers(desk: Desk) -> None:
    where = {"jenkins": {"url": "https://jenkins.example.com", "job": "nightly"}}
    desk.lanes(far=lane("code-0", where=where), here=lane("code-0"))
    code, out, said = desk.call("run", "--once")
    assert (code, out, desk.begun()) == (2, "", [])
    assert "where is jenkins, which begins its own: write `begun_by: ci`" in said


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
    desk.lanes(
        {"ending_s": 60}, long={**lane("long"), "run": {"session": {"name": "long", "noxfile": "noxfile.py"}}}
    )
    one = desk.start("run")
    desk.up("long")
    code, out = told(one, signal.SIGTERM)
    assert (code, "was handed back" in out) == (130, True)
    (output,) = desk.state.glob("long/*/output.log")
    assert "wrote the account" in output.read_text(encoding="utf-8")
    assert desk.left() == []


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.nightly
def test_killed_again_and_again_nothing_begins_twice_and_nothing_is_forgotten(desk: Desk, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  # when to kill is no secret
    tries = {"most": 1, "first_s": 0.2, "jitter": 0}
    desk.lanes(
        {"poll_s": 0.05},
        quick=lane("code-0", SOON), slow=lane("sleep-700", SOON), lost=lane("code-3", SOON, retries=tries),
        red=lane("code-1", SOON), off=lane("code-0", SOON, enabled=False),
    )  # fmt: skip
    for _ in range(25):
        one = desk.start("run")
        # From before it has read its settings to some time after it began.
        time.sleep(rng.uniform(0.3, 3))
        kill(one)
    # The last one sees to what is left, and begins nothing new.
    desk.lanes(
        {"poll_s": 0.05},
        quick=lane("code-0"), slow=lane("sleep-700"), lost=lane("code-3", retries=tries), red=lane("code-1"),
    )  # fmt: skip
    assert desk.call("run", "--once")[0] in {0, 1, 3}
    begun = Counter(f"{one['lane']}/{one['run']}" for one in desk.begun())
    assert set(begun.values()) == {1}
    history = desk.history()
    noted = {f"{one['lane']}/{one['due']}-{one['number']}": one for run in history for one in run["attempts"]}
    assert set(begun) == set(noted)
    codes = {"quick": 0, "slow": 0, "lost": 3, "red": 1}
    assert {(one["lane"], one["exit_code"]) for one in noted.values()} == set(codes.items())
    assert {run["state"] for run in history} == {"ended"}
    assert {len(run["attempts"]) for run in history if run["lane"] == "lost"} == {2}
    assert len(begun) > 40
