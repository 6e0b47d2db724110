"""What would be tested, and whose each card is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci.doctor.finding import Finding, Level
from ci.doctor.judge.cards import CardFacts, DeviceFacts, Holding, judge_cards, judge_device

HOLDING = Holding(run="nightly-7", pid=4711, user="ann", since=1_785_000_000, host="node9")
FREE = CardFacts(name="0000:1a:00.0", lease="/run/lock/my cards/0000:1a:00.0.lease")


def judged(*cards: CardFacts, kind: str = "real") -> list[Finding]:
    return judge_cards(cards, kind=kind, python="/e/python")


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (DeviceFacts(name="cpu"), Level.OK, "the control"),
        (DeviceFacts(name="spyre", back_end="the emulated device"), Level.OK, "emulated, no card"),
        (
            DeviceFacts(name="spyre", kind="real", back_end="torch_spyre 1"),
            Level.OK,
            "real cards, by torch_spyre",
        ),
        (DeviceFacts(name="spyre", kind="pseudo", cards=8), Level.WARNING, "8 pseudo devices"),
        (DeviceFacts(name="cuda"), Level.FAULT, "cuda is torch's own"),
        (DeviceFacts(name="other"), Level.FAULT, "no package here registers the device other"),
        (DeviceFacts(name="other", registered=["torch_other"]), Level.OK, "other, by torch_other"),
    ],
)
def test_the_device_is_one_the_runner_would_have(facts: DeviceFacts, level: Level, words: str) -> None:
    (found,) = judge_device(facts)
    assert found.level is level
    assert words in found.said


def test_cards_are_counted_by_what_may_be_done_with_them() -> None:
    held, benched = replace(FREE, holding=HOLDING), replace(FREE, benched="benched until noon: RAS")
    found = judged(FREE, held, benched)
    assert (found[0].level, found[0].said) == (Level.OK, "3 real cards, 1 free, 1 held, 1 benched")
    assert [one.level for one in found[1:]] == [Level.WARNING, Level.WARNING]


def test_where_all_are_held_a_run_waits_and_where_none_plays_it_cannot_begin() -> None:
    assert judged(replace(FREE, holding=HOLDING))[0].level is Level.WARNING
    assert judged(replace(FREE, benched="benched until noon"))[0].level is Level.FAULT
    assert judged()[0].said == "none are used"


def test_who_holds_a_card_is_said_with_host_process_run_and_time() -> None:
    said = judged(replace(FREE, holding=HOLDING))[1].said
    assert said.startswith("0000:1a:00.0 is held by run nightly-7 (process 4711 of ann on node9) since 20")


@pytest.mark.parametrize(
    ("holding", "remedy"),
    [
        (replace(HOLDING, same=True), "wait for it; where it is stuck: kill 4711"),
        (HOLDING, "ask ann on node9: from here nobody can tell that process"),
        (replace(HOLDING, host=""), "ask ann: from here nobody can tell that process"),
        (replace(HOLDING, ended=True), "find it: fuser -v '/run/lock/my cards/0000:1a:00.0.lease'"),
        (Holding(), "find out: fuser -v '/run/lock/my cards/0000:1a:00.0.lease'"),
    ],
)
def test_killing_is_advised_only_where_the_number_means_that_process(holding: Holding, remedy: str) -> None:
    found = judged(replace(FREE, holding=holding))[1]
    assert (found.level, found.remedy) == (Level.WARNING, remedy)


def test_a_card_that_was_opened_and_does_not_work_is_a_fault() -> None:
    found = judged(FREE, replace(FREE, name="b", opened="RAS::x"), replace(FREE, name="c", opened=""))
    assert found[0].said == "3 real cards, 2 free, 1 opened and well, 1 sick"
    assert [(one.level, one.said) for one in found[1:]] == [(Level.FAULT, "b does not work: RAS::x")]


def test_a_file_of_strikes_that_cannot_be_read_is_a_warning() -> None:
    (_, found) = judged(replace(FREE, trouble="/l/x.health.json: is not what is known of a card"))
    assert found.level is Level.WARNING


def test_of_very_many_cards_only_some_are_told_one_by_one() -> None:
    found = judged(*(replace(FREE, name=f"c{index}", holding=HOLDING) for index in range(64)))
    assert len(found) == 10
    assert found[-1].said == "and 56 more such lines"


def test_a_card_that_this_user_may_not_open_is_a_fault() -> None:
    first, second = judged(replace(FREE, shut="/dev/vfio/17"))
    assert (first.level, first.said) == (Level.FAULT, "1 real card, 0 free, 1 sick: no run can have one")
    assert (second.level, second.remedy) == (Level.FAULT, "have its group let you: ls -l -- /dev/vfio/17")
    # Whoever holds it may: nothing more is known of it.
    assert judged(replace(FREE, shut="/dev/vfio/17", holding=HOLDING))[0].level is Level.WARNING
