"""What happens to a track besides releases: requests, upgrades, campaigns, plans, what is said later.

`pins/<track>/events.jsonl`, append-only, an event a line, in the order they were told; nothing is taken
back, a later event says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, TypeAdapter

from ci.pins.record import Flag, Table

KIND = "pin-events"
# What is asked for out of the cycle. A bug and a regression need no release, and no campaign holds them.
Reason = Literal["major", "performance", "bug", "regression"]
URGENT: frozenset[str] = frozenset({"bug", "regression"})


class _Event(Table):
    at: AwareDatetime


class Requested(_Event):
    """Somebody asks for an upgrade.

    Attributes:
        id: unique within the track, from 1.
        version: the release that is wanted; None: the newest there is, or a build of the same with a mend.
        sha: of that release, or of the commit with the mend; empty where there is none.
        text: why, for people.
    """

    kind: Literal["requested"] = "requested"
    id: int = Field(ge=1)
    reason: Reason
    text: str = Field(min_length=1, max_length=2000)
    version: str | None = None
    sha: str = ""


class Withdrawn(_Event):
    """A request nobody wants any more."""

    kind: Literal["withdrawn"] = "withdrawn"
    id: int = Field(ge=1)
    text: str = ""


class Upgraded(_Event):
    """The pin was moved.

    Attributes:
        before: version and SHA before, as `version@sha`; empty for the first.
        version: now pinned.
        sha: of it.
        reasons: why, as the decision wrote them down.
        answers: ids of requests it answers.
        supersedes: ids of requests that a later one has replaced.
        image_changed: whether what is pinned is another than before.
        deprecated: names of suites that it cannot support.
    """

    kind: Literal["upgraded"] = "upgraded"
    before: str = ""
    version: str
    sha: str
    reasons: tuple[str, ...]
    answers: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()
    image_changed: bool = True
    deprecated: tuple[str, ...] = ()


class Scheduled(_Event):
    """A release is to come on a day; told again with another day, it moved; with none, it is off."""

    kind: Literal["scheduled"] = "scheduled"
    version: str
    on: AwareDatetime | None


class CampaignStarted(_Event):
    """A hardware test window: nothing but bugs changes the pin from `starts` until it ends.

    Attributes:
        name: of the campaign, unique within the track.
        starts: when.
        ends: when, as planned; None: until it is ended.
    """

    kind: Literal["campaign-started"] = "campaign-started"
    name: str = Field(min_length=1, max_length=200)
    starts: AwareDatetime
    ends: AwareDatetime | None = None


class CampaignEnded(_Event):
    """A campaign ended, before, at or after the time it was planned to."""

    kind: Literal["campaign-ended"] = "campaign-ended"
    name: str


class Flagged(_Event):
    """What people say of a release that was recorded before they said it."""

    kind: Literal["flagged"] = "flagged"
    version: str
    sha: str
    flags: tuple[Flag, ...] = Field(min_length=1)


class TakenBack(_Event):
    """Its index took a release back after it was recorded, or offers it again.

    Attributes:
        version: of the release.
        sha: of it, as it is recorded.
        text: why, as the index says, perhaps empty; None: it is offered again.
    """

    kind: Literal["taken-back"] = "taken-back"
    version: str
    sha: str
    text: str | None = Field(max_length=2000)


Event = Annotated[
    Requested | Withdrawn | Upgraded | Scheduled | CampaignStarted | CampaignEnded | Flagged | TakenBack,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
KINDS = frozenset(EVENT.json_schema()["discriminator"]["mapping"])
