from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import CommandError, UsageError
from ci.record.journal import read_journals
from ci.runner import work
from ci.runner.orphans import find_orphans
from ci.runner.slot import WorkerSlot
from test_selection.plan import Plan, fingerprint
from test_selection.selection import Expectation

from .small_runs import Runner, make_plan

FAULTS = "test_process_faults.py::TestFaults::"
# By copies, and by processes that import for themselves; what takes long is the gate's, or the night's.
by_both = pytest.mark.parametrize("runner", ["fork", "spawn"], indirect=True)
spawned_at_night = pytest.param("spawn", marks=pytest.mark.nightly)
by_both_in_time = pytest.mark.parametrize("runner", ["fork", spawned_at_night], indirect=True)
by_both_in_the_gate = pytest.mark.parametrize(
    "runner", [pytest.param("fork", marks=pytest.mark.gate), spawned_at_night], indirect=True
)


@by_both_in_time
def test_one_crash_costs_one_test_and_a_history_says_what_hangs(runner: Runner) -> None:
    names = {
        "a_passes": "passed", "b_segfault": "signal", "c_passes": "passed", "d_abort": "signal",
        "e_exit_zero": "exit", "f_killed": "signal", "g_hang": "hang", "h_closes_its_output": "passed",
        "i_changes_folder": "passed", "j_leaves_a_child": "passed", "l_passes": "passed",
        "n_takes_its_time": "passed", "t_holds_the_interpreter": "hang",
    }  # fmt: skip
    expected = {f"{FAULTS}test_{name}": outcome for name, outcome in names.items()}
    *ids, of_file = expected
    plan = make_plan({"test_process_faults.py": ids}, {"test_process_faults.py": [of_file]})
    first, second = plan.shards
    second = replace(second, groups=(replace(second.groups[0], timeout_s=0.7),))
    plan = replace(plan, shards=(first, second))
    own = {f"{FAULTS}test_g_hang": 0.5}
    runner.run(plan, cards=2, test_timeout_s=3600, timeouts=own)
    assert runner.outcomes() == expected
    crashes = {event["id"]: event for event in runner.named("crash")}
    segfault = crashes[f"{FAULTS}test_b_segfault"]
    assert segfault["message"] == "died by SIGSEGV"
    assert "last words" in segfault["detail"]
    assert "test_b_segfault" in segfault["detail"]
    hang = crashes[f"{FAULTS}test_g_hang"]
    assert hang["message"] == "took longer than 0.5 s and was ended"
    assert "in test_g_hang" in hang["detail"]
    assert crashes[of_file]["message"] == "took longer than 0.7 s and was ended"
    assert crashes[f"{FAULTS}test_e_exit_zero"]["message"] == "ended its process with exit code 0"


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False


@by_both_in_the_gate
def test_whatever_a_test_does_costs_that_test_and_is_told_once(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strays = tmp_path / "strays"
    monkeypatch.setenv("STRAY_FILE", str(strays))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option-of-the-users-own-pytest")
    names = {
        "m_ends_late": "passed", "n_takes_its_time": "passed",
        "o_dies_by_a_signal_without_a_name": "signal", "p_raises_what_ctrl_c_raises": "failed",
        "q_ends_the_session": "failed", "r_forks_and_comes_back_twice": "passed",
        "s_leaves_a_daemon": "passed", "t_holds_the_interpreter": "hang",
        "u_closes_every_file": "exit", "v_passes": "passed",
    }  # fmt: skip
    expected = {f"{FAULTS}test_{name}": outcome for name, outcome in names.items()}
    runner.run(make_plan({"test_process_faults.py": list(expected)}), test_timeout_s=3)
    assert runner.outcomes() == expected
    messages = {event["id"].rpartition("test_")[2]: event["message"] for event in runner.named("end")}
    assert messages["p_raises_what_ctrl_c_raises"] == "ended the session: KeyboardInterrupt"
    assert messages["q_ends_the_session"].endswith("Exit: enough")
    details = {event["id"].rpartition("test_")[2]: event["detail"] for event in runner.named("crash")}
    assert "in test_t_holds_the_interpreter" in details["t_holds_the_interpreter"]
    # What an earlier test left in the log says nothing of this one.
    assert "test_t_holds_the_interpreter" not in details["u_closes_every_file"]
    assert [pid for pid in strays.read_text(encoding="ascii").split() if alive(int(pid))] == []


def test_what_a_test_finds_of_its_worker_delays_nobody_and_what_it_leaves_is_ended(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line in every pipe it can write to; a process with its own session and an empty environment."""
    strays = tmp_path / "strays"
    monkeypatch.setenv("STRAY_FILE", str(strays))
    names = ("a_says_half_a_line", "b_leaves_a_daemon_without_a_name", "c_passes")
    ids = [f"test_costly.py::TestReachesOut::test_{name}" for name in names]
    began = time.monotonic()
    runner.run(make_plan({"test_costly.py": ids}), setup_timeout_s=30)
    assert time.monotonic() - began < 25
    assert runner.outcomes() == dict.fromkeys(ids, "passed")
    assert [pid for pid in strays.read_text(encoding="ascii").split() if alive(int(pid))] == []


@by_both
def test_a_test_that_deletes_the_journal_costs_no_other_its_verdict(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNALS", str(runner.run_dir / "journal"))
    names = {
        "a_passes": "passed", "b_segfault": "signal", "w_deletes_the_journals": "passed",
        "v_passes": "passed", "d_abort": "signal",
    }  # fmt: skip
    expected = {f"{FAULTS}test_{name}": outcome for name, outcome in names.items()}
    runner.run(make_plan({"test_process_faults.py": list(expected)}))
    assert runner.outcomes() == expected


def test_more_open_files_than_select_knows_cost_no_test(runner: Runner) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    with contextlib.ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            held.enter_context(Path(os.devnull).open("rb"))
        ids = [f"{FAULTS}test_a_passes", f"{FAULTS}test_b_segfault"]
        runner.run(make_plan({"test_process_faults.py": ids}))
    assert runner.outcomes() == {ids[0]: "passed", ids[1]: "signal"}


def test_the_parent_that_forks_has_one_thread_and_its_children_compute_in_parallel(runner: Runner) -> None:
    pids: list[int] = []
    threads: list[int] = []

    def count(_shard: int, event: Mapping[str, Any]) -> None:
        if event["e"] == "shard_start":
            pids.append(event["pid"])
        if event["e"] == "group_ready":
            threads.append(len(list(Path(f"/proc/{pids[0]}/task").iterdir())))

    ids = [f"{FAULTS}test_x_computes_in_parallel"]
    runner.run(make_plan({"test_process_faults.py": ids}), threads=2, listen=count, real_torch=True)
    assert runner.outcomes() == {ids[0]: "passed"}
    assert threads == [1]


@by_both_in_time
def test_a_file_that_cannot_be_set_up_is_not_run_with_its_error(runner: Runner) -> None:
    files = {f"test_import_{what}.py": [f"test_import_{what}.py::test_x"] for what in ("error", "crash")}
    files["test_outcomes.py"] = ["test_outcomes.py::TestOutcomes::test_passes"]
    runner.run(make_plan(files))
    outcomes = runner.outcomes()
    assert outcomes.pop("test_outcomes.py::TestOutcomes::test_passes") == "passed"
    assert set(outcomes.values()) == {"not_run"}
    errors = {event["file"]: event["message"] for event in runner.named("file_error")}
    assert errors["test_import_error.py"].startswith("ImportError: ")
    assert errors["test_import_crash.py"].endswith("died by SIGSEGV")
    again = {"test_import_crash.py"} if runner.method == "fork" else set()
    assert {event["file"] for event in runner.named("respawn")} == again


@by_both_in_the_gate
def test_a_file_whose_set_up_hangs_is_not_run_and_the_rest_runs(runner: Runner) -> None:
    files = {
        "test_import_hang.py": ["test_import_hang.py::test_x"],
        "test_outcomes.py": ["test_outcomes.py::TestOutcomes::test_passes"],
    }
    runner.run(make_plan(files), setup_timeout_s=3)
    assert sorted(runner.outcomes().values()) == ["not_run", "passed"]
    (error,) = runner.named("file_error")
    assert error["message"].endswith("took longer than 3 s and was ended")


def test_a_test_that_is_gone_is_not_run_and_the_rest_runs(runner: Runner) -> None:
    ids = ["test_outcomes.py::TestOutcomes::test_passes", "test_outcomes.py::TestOutcomes::test_gone"]
    runner.run(make_plan({"test_outcomes.py": ids}))
    assert runner.outcomes() == {ids[0]: "passed", ids[1]: "not_run"}
    assert "collect again" in runner.named("not_run")[0]["message"]


def test_an_order_of_tests_that_are_all_gone_leaves_the_file_to_others(runner: Runner) -> None:
    plan = make_plan({"test_outcomes.py": ["test_outcomes.py::TestOutcomes::test_gone"]})
    runner.run(plan)
    assert set(runner.outcomes().values()) == {"not_run"}
    assert runner.named("file_error") == []


@by_both
def test_what_a_suite_file_declares_is_enforced(runner: Runner) -> None:
    cls = "test_outcomes.py::TestOutcomes::"
    ids = [f"{cls}test_fails", f"{cls}test_passes", f"{cls}test_errors"]
    expectations = {
        ids[0]: Expectation(mode="xfail", reason="known gap"),
        ids[1]: Expectation(mode="xfail_strict", reason="should fail"),
        ids[2]: Expectation(mode="skip", reason="no card for it"),
    }
    runner.run(make_plan({"test_outcomes.py": ids}), expectations=expectations)
    assert runner.outcomes() == {ids[0]: "xfailed", ids[1]: "failed", ids[2]: "skipped"}
    assert {event["message"] for event in runner.named("end")} >= {"known gap", "no card for it"}


def test_what_a_spawned_process_imports_is_part_of_the_set_up_of_its_file(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly = "import time\nfrom ci.runner.instantiation import when_imported\n"
    slowly += "when_imported('torch', lambda _: time.sleep(1))\n"
    (tmp_path / "sitecustomize.py").write_text(slowly, encoding="utf-8")
    monkeypatch.setattr(runner, "path", f"{tmp_path}:{runner.path}")
    ids = ["test_outcomes.py::TestOutcomes::test_passes"]
    runner.run(make_plan({"test_outcomes.py": ids}), method="spawn")
    assert runner.outcomes() == dict.fromkeys(ids, "passed")
    assert runner.named("group_ready")[0]["setup_s"] > 1


def test_a_shard_that_needs_two_cards_holds_two_and_runs_nowhere_with_fewer(runner: Runner) -> None:
    cls = "test_outcomes.py::TestOutcomes::"
    narrow, wide = make_plan(
        {"test_outcomes.py": [f"{cls}test_fails"]}, {"test_outcomes.py": [f"{cls}test_passes"]}
    ).shards
    made = (narrow, replace(wide, cards=2))
    plan = Plan(fingerprint=fingerprint(made), bound_s=1, makespan_s=1, binds="balance", shards=made)
    with pytest.raises(UsageError, match="shard 1 needs 2 cards at once, and here are 1"):
        runner.run(plan, cards=1)
    runner.run(plan, cards=2)
    assert sorted(event["card"] for event in runner.named("shard_start")) == ["cpu:0", "cpu:0+cpu:1"]
    assert set(runner.outcomes().values()) == {"passed", "failed"}


@pytest.mark.parametrize("static", [True, False])
def test_a_file_that_cannot_be_set_up_in_a_forked_process_is_set_up_in_a_fresh_one(
    runner: Runner, static: bool
) -> None:
    cls = "test_unforkable.py::TestUnforkable::test_"
    plan = make_plan({"test_unforkable.py": [f"{cls}passes", f"{cls}fails"]})
    runner.run(plan, static=static)
    assert runner.outcomes() == {f"{cls}passes": "passed", f"{cls}fails": "failed"}
    (told,) = runner.named("respawn")
    assert told["message"].endswith("died by SIGABRT; once more in a fresh one")
    assert runner.named("file_error") == []


def test_a_worker_that_never_speaks_is_replaced_and_then_given_up(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(9)\n", encoding="utf-8")
    monkeypatch.setattr(runner, "path", f"{tmp_path}:{runner.path}")
    ids = ["test_outcomes.py::TestOutcomes::test_passes"]
    runner.run(make_plan({"test_outcomes.py": ids}))
    assert runner.outcomes() == {ids[0]: "not_run"}
    assert [event["message"] for event in runner.named("worker_lost")] == [
        "the worker on cpu:0 ended with code 9"
    ] * 2


def test_a_worker_that_is_stuck_is_ended_and_replaced(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "SILENCE_MARGIN_S", 0.0)
    pids: dict[int, int] = {}

    def stop_the_first(_shard: int, event: Mapping[str, Any]) -> None:
        if event["e"] == "shard_start" and not pids:
            pids[0] = event["pid"]
            os.kill(event["pid"], signal.SIGSTOP)

    ids = ["test_outcomes.py::TestOutcomes::test_passes"]
    runner.run(
        make_plan({"test_outcomes.py": ids}),
        listen=stop_the_first,
        test_timeout_s=2,
        setup_timeout_s=2,
        grace_s=1,
        restarts=5,  # a busy machine may stop one more for so long
    )
    assert runner.outcomes() == {ids[0]: "passed"}
    assert "died by SIGKILL" in runner.named("worker_lost")[0]["message"]


@pytest.mark.gate
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function Popen.__del__"
)  # it runs on, as it should
def test_a_worker_that_no_signal_ends_costs_its_card_and_nothing_else(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "SILENCE_MARGIN_S", 0.0)
    monkeypatch.setattr("ci.runner.slot.KILL_S", 0.0)
    # As a process in a driver is: killed, and there all the same.
    monkeypatch.setattr(WorkerSlot, "kill", lambda self: setattr(self, "killed_at", time.monotonic()))
    pids: list[int] = []

    def stop_the_first(_shard: int, event: Mapping[str, Any]) -> None:
        if event["e"] == "shard_start" and not pids:
            pids.append(event["pid"])
            os.kill(event["pid"], signal.SIGSTOP)

    ids = ["test_outcomes.py::TestOutcomes::test_passes"]
    try:
        runner.run(
            make_plan({"test_outcomes.py": ids}),
            cards=2,
            listen=stop_the_first,
            test_timeout_s=10,
            setup_timeout_s=10,
        )
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    assert runner.outcomes() == {ids[0]: "passed"}
    (lost,) = runner.named("worker_lost")
    assert lost["message"] == "the worker on cpu:0 cannot be ended: it hangs in the kernel"


def test_a_listener_that_fails_leaves_no_worker_behind(runner: Runner) -> None:
    pids: list[int] = []

    def fail(_shard: int, event: Mapping[str, Any]) -> None:
        pids.append(event["pid"])
        raise ValueError("a bug")

    ids = [f"{FAULTS}test_g_hang"]
    with pytest.raises(ValueError, match="a bug"):
        runner.run(make_plan({"test_process_faults.py": ids}), listen=fail)
    assert not alive(pids[0])


def test_a_run_folder_that_cannot_be_written_is_told_with_the_remedy(runner: Runner) -> None:
    runner.run_dir.mkdir()
    (runner.run_dir / "logs").write_text("", encoding="ascii")
    with pytest.raises(CommandError, match="check the space and the rights of"):
        runner.run(make_plan({"test_outcomes.py": ["test_outcomes.py::TestOutcomes::test_passes"]}))


@by_both_in_time
def test_killing_the_supervisor_leaves_nothing_behind(runner: Runner, tmp_path: Path) -> None:
    strays = tmp_path / "strays"
    ids = [f"{FAULTS}test_{name}" for name in ("s_leaves_a_daemon", "g_hang")]

    def die(_shard: int, event: Mapping[str, Any]) -> None:
        if event["e"] == "start" and event["id"] == ids[1]:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        os.environ["STRAY_FILE"] = str(strays)
        runner.run(make_plan({"test_process_faults.py": ids}), listen=die)
        os._exit(0)
    os.waitpid(pid, 0)
    journal = read_journals(runner.run_dir)[0].path
    wait_for(lambda: b'"shard_end"' in journal.read_bytes())
    wait_for(lambda: find_orphans(f"{pid}:{journal}", spare=()) == [])


def wait_for(true: Callable[[], bool]) -> None:
    """Wait for what another process does, a minute at most."""
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("it did not come about within a minute")


def kill_worker_when(event_name: str, test: str) -> Any:
    """A listener that kills the worker (once a shard) when it hears of a test."""
    pids: dict[int, int] = {}

    def listen(shard: int, event: Mapping[str, Any]) -> None:
        if event["e"] == "shard_start":
            pids[shard] = event["pid"]
        if event["e"] == event_name and event.get("id") == test:
            os.kill(pids[shard], signal.SIGKILL)

    return listen


def test_a_shard_whose_workers_keep_going_is_given_up_with_a_reason(runner: Runner) -> None:
    ids = [f"{FAULTS}test_{name}" for name in ("g_hang", "l_passes")]
    runner.run(
        make_plan({"test_process_faults.py": ids}), restarts=0, listen=kill_worker_when("start", ids[0])
    )
    assert runner.outcomes() == {ids[0]: "infrastructure", ids[1]: "not_run"}
    assert "worker was lost 1 time" in runner.named("not_run")[0]["message"]
