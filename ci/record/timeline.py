"""When an attempt at a shard did what, for those who draw it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTiming:
    """When a worker was busy with the tests of one file.

    Attributes:
        file: the test file.
        setup_s: seconds of its import and collection; None when it never became ready.
        started_at: seconds since the epoch.
        ended_at: seconds since the epoch; the journal's last word where the group has no end.
    """

    file: str
    setup_s: float | None
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTimeline:
    """What one attempt at one shard did, and when (seconds since the epoch).

    Attributes:
        shard: its index.
        attempt: from 1.
        card: the accelerator it held.
        host: where it ran.
        started_at: its first event.
        ended_at: its last event.
        status: done, interrupted, stopped, or empty where the journal breaks off.
        groups: in the order of running.
    """

    shard: int
    attempt: int
    card: str | None
    host: str
    started_at: float
    ended_at: float
    status: str
    groups: tuple[GroupTiming, ...]
