"""A card that serves one process at a time and is opened by importing torch: no parent may keep it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

import ci
from ci.runner.collect import CollectOptions, collect

from .small_runs import Runner, make_plan
from .test_collect import environment

CARD = "test_card.py::TestCard::test_"
STAND_IN = Path(__file__).parent / "exclusive_card"


@pytest.fixture
def card(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "card"
    file.touch()
    monkeypatch.setenv("EXCLUSIVE_CARD", str(file))
    monkeypatch.setenv("CARD_DEVICE", "spyre")
    monkeypatch.setattr(runner, "path", f"{STAND_IN}{os.pathsep}{runner.path}")
    return file


def free(card: Path) -> bool:
    with card.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.nightly
def test_a_worker_that_has_the_card_open_lets_go_of_it_and_spawns(runner: Runner, card: Path) -> None:
    ids = [f"{CARD}0", f"{CARD}without_the_card"]
    runner.run(make_plan({"test_card.py": ids}), device="spyre", may_change=True, preflight_timeout_s=60)
    assert runner.outcomes() == dict.fromkeys(ids, "passed")
    # The same worker, at the same shard, begun once.
    assert len(runner.named("shard_start")) == 1
    assert [event["ok"] for event in runner.named("card_check")] == [True] * len(runner.named("card_check"))
    said = (runner.run_dir / "logs" / "0-1.log").read_text(encoding="utf-8")
    assert "(the device is initialized): they are spawned instead" in said
    assert free(card)


@pytest.mark.nightly
def test_who_asks_for_copies_has_them_and_no_card(runner: Runner, card: Path) -> None:
    ids = [f"{CARD}without_the_card"]
    runner.run(make_plan({"test_card.py": ids}), device="spyre", may_change=False, restarts=0)
    assert runner.outcomes() == {ids[0]: "not_run"}
    assert free(card)


@pytest.mark.nightly
@pytest.mark.parametrize("may_change", [True, False])
def test_a_collector_that_has_the_card_open_lets_go_of_it_and_spawns_one_at_a_time(
    runner: Runner, card: Path, may_change: bool
) -> None:
    environ = {
        **environment("spyre"),
        "PYTHONPATH": f"{STAND_IN}{os.pathsep}{Path(ci.__file__).parent.parent}",
    }
    options = CollectOptions(
        device="spyre",
        environ=environ,
        workers=2,
        timeout_s=60,
        method="fork",
        may_change=may_change,
    )
    files = ["test_card.py", "test_outcomes.py"]
    found = collect(
        runner.tree / "test", files, version="2.13.0", options=options, cache=None, progress=lambda *_: None
    )
    errors = found.catalog.collect_errors
    assert errors == {} if may_change else set(errors) == set(files)
    assert free(card)
