"""No sequence of events loses a pending bug, or makes an upgrade twice for the same cause."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ci.pins.events import (
    URGENT,
    CampaignEnded,
    CampaignStarted,
    Event,
    Flagged,
    Reason,
    Requested,
    Scheduled,
    TakenBack,
    Upgraded,
    Withdrawn,
)
from ci.pins.protocol import Decision, Policy, as_event, decide
from ci.pins.record import Flag, Record
from ci.pins.situation import as_told
from tests.pin_tracks import everything, on, release, sha

POLICY = Policy(cycle_days=56, closer_days=14)
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
        return decide(POLICY, self.records, [*self.events, *more], now=on(self.day), supports=everything)

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
        now = on(self.day)
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
        one = release(version, self.day, *flags, build=build)
        if one.sha not in {other.sha for other in self.records}:
            self.records.append(one)

    @precondition(lambda self: self.records)
    @rule(data=st.data(), text=st.none() | st.just("broken"))
    def is_taken_back(self, data: st.DataObject, text: str | None) -> None:
        one = data.draw(st.sampled_from(self.records))
        self.events.append(TakenBack(at=on(self.day), version=one.version, sha=one.sha, text=text))

    @precondition(lambda self: self.records)
    @rule(data=st.data(), flag=st.sampled_from(["major", "performance"]))
    def is_flagged(self, data: st.DataObject, flag: Flag) -> None:
        one = data.draw(st.sampled_from(self.records))
        self.events.append(Flagged(at=on(self.day), version=one.version, sha=one.sha, flags=(flag,)))

    @rule(
        reason=st.sampled_from(["major", "performance", "bug", "regression"]),
        version=st.none() | VERSIONS,
        mend=st.sampled_from(["", "abcdef0123456789", sha("1.0"), sha("1.1", 1)]),
    )
    def is_asked_for(self, reason: Reason, version: str | None, mend: str) -> None:
        number = len(self.requests()) + 1
        self.events.append(
            Requested(at=on(self.day), id=number, reason=reason, text="why", version=version, sha=mend)
        )

    @precondition(lambda self: self.requests())
    @rule(data=st.data())
    def is_told_again(self, data: st.DataObject) -> None:
        again = data.draw(st.sampled_from(self.requests()))
        self.events.append(again.model_copy(update={"at": on(self.day)}))

    @precondition(lambda self: self.requests())
    @rule(data=st.data())
    def is_withdrawn(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.requests())))
        self.events.append(Withdrawn(at=on(self.day), id=number))

    @rule(version=VERSIONS, days=st.none() | DAYS)
    def is_scheduled(self, version: str, days: int | None) -> None:
        day = None if days is None else on(self.day + days)
        self.events.append(Scheduled(at=on(self.day), version=version, on=day))

    @rule(name=st.sampled_from("ab"), starts=DAYS, length=st.none() | st.integers(1, 60))
    def a_campaign_is_told(self, name: str, starts: int, length: int | None) -> None:
        first = on(self.day + starts)
        ends = None if length is None else first + timedelta(days=length)
        self.events.append(CampaignStarted(at=on(self.day), name=name, starts=first, ends=ends))

    @rule(name=st.sampled_from("ab"))
    def a_campaign_ends(self, name: str) -> None:
        self.events.append(CampaignEnded(at=on(self.day), name=name))

    @rule()
    def is_decided_and_done(self) -> None:
        frozen = self.campaigns_on()
        decision = self.decide()
        if decision.action != "upgrade":
            return
        if frozen:
            by_id = {one.id: one.reason for one in self.requests()}
            assert any(by_id[number] in URGENT for number in decision.answers)
        self.events.append(as_event(decision, on(self.day)))
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
        if self.made or any(one.yanked is None for one in as_told(self.records, self.events)):
            assert not bugs & set(decision.pending)
        assert not bugs & set(decision.supersedes)

    @invariant()
    def nothing_is_upgraded_twice_at_one_moment(self) -> None:
        decision = self.decide()
        if decision.action == "upgrade":
            again = self.decide(as_event(decision, on(self.day)))
            assert again.action != "upgrade", (decision, again)

    @invariant()
    def no_scheduled_release_is_waited_for_longer_than_was_said(self) -> None:
        decision = self.decide()
        if any(one.code == "scheduled" for one in decision.reasons):
            assert decision.wait_until is not None
            then = decide(POLICY, self.records, self.events, now=decision.wait_until, supports=everything)
            assert then.campaign or then.action == "upgrade"

    @invariant()
    def no_cause_makes_two_upgrades(self) -> None:
        answered = Counter(number for one in self.made for number in (*one.answers, *one.supersedes))
        assert not [number for number, times in answered.items() if times > 1]
        reasons = Counter((one.code, one.words) for made in self.made for one in made.reasons)
        for flag in ("major", "performance"):
            told = as_told(self.records, self.events)
            flagged = Counter(one.version for one in told if flag in one.flags)
            for version in flagged:
                words = f"release `{version}` is flagged {flag}"
                assert reasons[f"{flag}-release", words] <= flagged[version]
        first = [one for one in self.made if any(reason.code == "first" for reason in one.reasons)]
        assert len(first) <= 1

    @invariant()
    def two_cycles_are_never_closer_than_a_cycle(self) -> None:
        for before, after in zip(self.made, self.made[1:], strict=False):
            if any(reason.code == "cycle" for reason in after.reasons):
                assert after.at - before.at >= timedelta(days=POLICY.cycle_days)

    @invariant()
    def what_waits_says_what_for(self) -> None:
        decision = self.decide()
        assert decision.reasons
        assert (decision.action == "upgrade") == (decision.target is not None)
        assert decision.wait_until is None or decision.wait_until > decision.at


TestTrack = Track.TestCase
TestTrack.settings = settings(stateful_step_count=40)
