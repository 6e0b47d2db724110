"""Whether another pod could do more than the one that ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.jobs.cli_pod import only_cards_failed
from ci.record.journal import Journal
from ci.runner.retries import NO_OTHER_CARD
from test_selection.plan import Group, Plan, Shard, fingerprint
from tests.journal_rows import Row, events_from

SHARDS = (Shard(index=0, expected_s=1, groups=(Group(file="test_x.py", ids=("a", "b")),)),)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=1, makespan_s=1, binds="balance", shards=SHARDS)


def journal(*rows: tuple[str, str], number: int = 1) -> Journal:
    events: list[Row] = [
        {"e": "shard_start", "t": 0.0, "fingerprint": PLAN.fingerprint, "boot": f"boot {number}"}
    ]
    for name, outcome in rows:
        more = {"try": number} if number > 1 else {}
        events.append({"e": "start", "t": float(number), "id": name, **more})
        events.append({"e": "end", "t": float(number), "id": name, "outcome": outcome})
        if outcome == "hardware":
            events.append({"e": "no_retry", "ids": [name], "message": NO_OTHER_CARD})
    events.append({"e": "shard_end", "status": "done"})
    return Journal(
        path=Path(f"journal/0-{number}.jsonl"), shard=0, attempt=number, events=events_from(events)
    )


BAD = journal(("a", "passed"), ("b", "hardware"))
AGAIN = journal(("b", "hardware"), number=2)


@pytest.mark.parametrize(
    ("journals", "ended"),
    [
        # Another node's card may do it.
        ([BAD], False),
        ([BAD, AGAIN], True),
        # It passed there, and says so of its first card for good.
        ([BAD, journal(("b", "passed"), number=2)], True),
        ([journal(("b", "hardware")), AGAIN], False),
        ([journal(("a", "passed"), ("b", "failed"))], False),
        ([], False),
    ],
)
def test_the_pod_ends_for_good_where_only_cards_failed(journals: list[Journal], ended: bool) -> None:
    assert only_cards_failed(PLAN, journals, 1) is ended


def test_without_second_tries_no_other_card_is_tried() -> None:
    assert only_cards_failed(PLAN, [BAD], 0)
