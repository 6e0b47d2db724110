"""No sequence of events loses a pending bug, or makes an upgrade twice for the same cause."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ci.pins.decide import Decision, as_event
from ci.pins.events import (
    URGENT,
    CampaignEnded,
    CampaignStarted,
    Event,
    Reason,
    Requested,
    Upgraded,
    Withdrawn,
)
from ci.pins.record import Flag, Record
from ci.pins.state import fold
from tests import pin_tracks as paper

VERSIONS = st.sampled_from(["1.0", "1.1", "1.2rc1", "1.2", "2.0", "nightly"])
DAYS = st.integers(-40, 40)


class Track(RuleBasedStateMachine):
    """Things happen to a track in any order; now and then somebody decides, and does what is decided."""

    def __init__(self) -> None:
        super().__init__()
        self.day = 0.0
        self.records: list[Record] = []
        self.events: list[Event] = []
        # What was decided beside each upgrade.
        self.made: list[Decision] = []

    def decide(self, *more: Event) -> Decision:
        return paper.decided(self.records, [*self.events, *more], self.day)

    def told(self) -> list[Record]:
        """The records, with what was said of them since."""
        return list(fold(self.records, self.events, now=paper.on(self.day)).records.values())

    def requests(self) -> list[Requested]:
        return [one for one in self.events if isinstance(one, Requested)]

    def campaigns_on(self) -> bool:
        """Told by the events alone, in another way than the code's."""
        found: dict[str, CampaignStarted] = {}
        for one in self.events:
            if isinstance(one, CampaignStarted):
                found[one.name] = one
            elif isinstance(one, CampaignEnded):
                found.pop(one.name, None)
        now = paper.on(self.day)
        begun = [one for one in found.values() if one.starts <= max(now, one.at)]
        return any(one.ends is None or now < one.ends for one in begun)

    @rule(days=st.one_of(st.floats(0, 3), st.sampled_from([7, 30, 56, 70, -1, -30, -400, 400])))
    def time_passes(self, days: float) -> None:
        self.day += days

    @rule(
        version=VERSIONS,
        build=st.integers(0, 1),
        flags=st.lists(st.sampled_from(["major", "performance"]), max_size=1),
    )
    def is_released(self, version: str, build: int, flags: list[Flag]) -> None:
        one = paper.release(version, self.day, *flags, build=build)
        if one.sha not in {other.sha for other in self.records}:
            self.records.append(one)

    @precondition(lambda self: self.records)
    @rule(data=st.data(), text=st.none() | st.just("broken"))
    def is_taken_back(self, data: st.DataObject, text: str | None) -> None:
        one = data.draw(st.sampled_from(self.records))
        self.events.append(paper.taken_back(self.day, one, text))

    @precondition(lambda self: self.records)
    @rule(data=st.data(), flag=st.sampled_from(["major", "performance"]))
    def is_flagged(self, data: st.DataObject, flag: Flag) -> None:
        self.events.append(paper.flagged(self.day, data.draw(st.sampled_from(self.records)), flag))

    @rule(
        reason=st.sampled_from(["major", "performance", "bug", "regression"]),
        version=st.none() | VERSIONS,
        mend=st.sampled_from(["", "abcdef0123456789", paper.sha("1.0"), paper.sha("1.1", 1)]),
    )
    def is_asked_for(self, reason: Reason, version: str | None, mend: str) -> None:
        number = len(self.requests()) + 1
        self.events.append(paper.asked(number, reason, self.day, version, mend=mend))

    @precondition(lambda self: self.requests())
    @rule(data=st.data())
    def is_told_again(self, data: st.DataObject) -> None:
        again = data.draw(st.sampled_from(self.requests()))
        self.events.append(again.model_copy(update={"at": paper.on(self.day)}))

    @precondition(lambda self: self.requests())
    @rule(data=st.data())
    def is_withdrawn(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.requests())))
        self.events.append(paper.withdrawn(number, self.day))

    @rule(version=VERSIONS, days=st.none() | DAYS)
    def is_scheduled(self, version: str, days: int | None) -> None:
        self.events.append(paper.scheduled(version, None if days is None else self.day + days, self.day))

    @rule(name=st.sampled_from("ab"), starts=DAYS, length=st.none() | st.integers(1, 60))
    def a_campaign_is_told(self, name: str, starts: int, length: int | None) -> None:
        first = self.day + starts
        self.events.append(paper.campaign(name, first, None if length is None else first + length, self.day))

    @rule(name=st.sampled_from("ab"))
    def a_campaign_ends(self, name: str) -> None:
        self.events.append(paper.ended(name, self.day))

    @rule()
    def is_decided_and_done(self) -> None:
        frozen = self.campaigns_on()
        decision = self.decide()
        if decision.action != "upgrade":
            return
        if frozen:
            by_id = {one.id: one.reason for one in self.requests()}
            assert any(by_id[number] in URGENT for number in decision.answers)
        self.events.append(as_event(decision, paper.on(self.day)))
        self.made.append(decision)

    @invariant()
    def nothing_that_was_asked_for_is_lost(self) -> None:
        """Each request is pending, or told to be withdrawn, answered or superseded."""
        upgrades = [one for one in self.events if isinstance(one, Upgraded)]
        done = {number for one in upgrades for number in (*one.answers, *one.supersedes)}
        done |= {one.id for one in self.events if isinstance(one, Withdrawn)}
        decision = self.decide()
        told = {*decision.pending, *decision.answers, *decision.supersedes}
        assert told == {one.id for one in self.requests()} - done

    @invariant()
    def no_bug_waits_where_there_is_anything_to_build(self) -> None:
        decision = self.decide()
        bugs = {one.id for one in self.requests() if one.reason in URGENT}
        if self.made or any(one.yanked is None for one in self.told()):
            assert not bugs & set(decision.pending)
        assert not bugs & set(decision.supersedes)

    @invariant()
    def nothing_is_upgraded_twice_at_one_moment(self) -> None:
        decision = self.decide()
        if decision.action == "upgrade":
            again = self.decide(as_event(decision, paper.on(self.day)))
            assert again.action != "upgrade", (decision, again)

    @invariant()
    def no_scheduled_release_is_waited_for_longer_than_was_said(self) -> None:
        decision = self.decide()
        if any(one.code == "scheduled" for one in decision.reasons):
            assert decision.wait_until is not None
            later = (decision.wait_until - paper.on(0)) / timedelta(days=1)
            then = paper.decided(self.records, self.events, later)
            assert then.campaign or then.action == "upgrade"

    @invariant()
    def no_cause_makes_two_upgrades(self) -> None:
        answered = Counter(number for one in self.made for number in (*one.answers, *one.supersedes))
        assert not [number for number, times in answered.items() if times > 1]
        reasons = Counter((one.code, one.words) for made in self.made for one in made.reasons)
        for flag in ("major", "performance"):
            flagged = Counter(one.version for one in self.told() if flag in one.flags)
            for version in flagged:
                words = f"release `{version}` is flagged {flag}"
                assert reasons[f"{flag}-release", words] <= flagged[version]
        first = [one for one in self.made if any(reason.code == "first" for reason in one.reasons)]
        assert len(first) <= 1

    @invariant()
    def two_cycles_are_never_closer_than_a_cycle(self) -> None:
        for before, after in zip(self.made, self.made[1:], strict=False):
            if any(reason.code == "cycle" for reason in after.reasons):
                assert after.at - before.at >= timedelta(days=paper.PINS.cycle_days)

    @invariant()
    def what_waits_says_what_for(self) -> None:
        decision = self.decide()
        assert decision.reasons
        assert (decision.action == "upgrade") == (decision.target is not None)
        assert decision.wait_until is None or decision.wait_until > decision.at


TestTrack = Track.TestCase
TestTrack.settings = settings(stateful_step_count=40)
