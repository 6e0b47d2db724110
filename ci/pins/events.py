"""What happens to a track besides releases: requests, upgrades, campaigns, plans, what is said later.

`pins/<track>/events.jsonl`, append-only, an event a line, in the order they were told; nothing is taken
back, a later event says otherwise.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field, TypeAdapter

from ci.pins.record import Flag, Table

KIND = "pin-events"
# What is asked for out of the cycle. A bug and a regression need no release, and no campaign holds them.
Reason = Literal["major", "performance", "bug", "regression"]
URGENT: frozenset[str] = frozenset({"bug", "regression"})
# Characters of what people say at length, and of a campaign's name.
MAX_TEXT, MAX_NAME = 2000, 200
# Far enough from the ends of the calendar that days can be added and taken away, in any time zone.
_FIRST, _BEHIND = datetime(1970, 1, 1, tzinfo=UTC), datetime(9001, 1, 1, tzinfo=UTC)


def within_years(at: datetime) -> datetime:
    """A moment that the protocol can count with; pure.

    Raises:
        ValueError: it is none.
    """
    if not _FIRST <= at < _BEHIND:
        raise ValueError("is not within the years 1970 to 9000")
    return at


Moment = Annotated[AwareDatetime, AfterValidator(within_years)]


class _Event(Table):
    at: Moment


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
    text: str = Field(min_length=1, max_length=MAX_TEXT)
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
    on: Moment | None


class CampaignStarted(_Event):
    """A hardware test window: nothing but bugs changes the pin from `starts` until it ends.

    Attributes:
        name: of the campaign, unique within the track.
        starts: when.
        ends: when, as planned; None: until it is ended.
    """

    kind: Literal["campaign-started"] = "campaign-started"
    name: str = Field(min_length=1, max_length=MAX_NAME)
    starts: Moment
    ends: Moment | None = None


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
    text: str | None = Field(max_length=MAX_TEXT)


Event = Annotated[
    Requested | Withdrawn | Upgraded | Scheduled | CampaignStarted | CampaignEnded | Flagged | TakenBack,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
KINDS = frozenset(EVENT.json_schema()["discriminator"]["mapping"])
