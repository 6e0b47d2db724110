"""The events of a run for other tools: a JSON object a line, as `events.schema.json` beside this has them.

What is worth having of its peers: as with pytest-reportlog every line stands by itself, is written at once,
and kinds and keys a reader does not know are to be passed over; as with Go's test2json a test that was
planned has an end, whatever happened. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci.record.verdict import Verdict
from ci.report.live.news import CardLost, Ended, FileBroken, FileEnded, News, Retried, WorkerLost
from ci.report.live.state import State

VERSION = 1
Row = dict[str, Any]


def run_start(state: State, *, run: str, fingerprint: str) -> Row:
    """The first event.

    Args:
        state: of the run.
        run: the readable run id.
        fingerprint: of the plan.
    """
    return {
        "event": "run_start",
        "run": run,
        "fingerprint": fingerprint,
        "planned": state.planned,
        "shards": state.shards,
        "cards": list(state.cards),
    }


def run_end(counts: Mapping[Verdict, int] | Mapping[str, int], exit_code: int) -> Row:
    """The last event.

    Args:
        counts: how many planned tests came to each verdict.
        exit_code: what the command ends with.
    """
    given: dict[str, int] = {str(verdict): number for verdict, number in counts.items()}
    every = {verdict.value: given.get(verdict, 0) for verdict in Verdict}
    return {"event": "run_end", "counts": every, "exit": exit_code}


def row(news: News) -> Row:
    """One piece of news."""
    match news:
        case Ended():
            return _test(news)
        case Retried():
            return {
                "event": "retry",
                "id": news.id,
                "file": news.file,
                "card": news.card,
                "attempt": news.attempt,
            }
        case FileEnded():
            tally = news.tally
            counts = {verdict.value: tally.counts[verdict] for verdict in Verdict if tally.counts[verdict]}
            return {
                "event": "file_end",
                "file": tally.file,
                "counts": counts,
                "seconds": round(tally.seconds, 3),
                "cards": list(tally.cards),
            }
        case FileBroken():
            return {"event": "file_error", "file": news.file, "card": news.card, "message": news.message}
        case WorkerLost():
            return {
                "event": "worker_lost",
                "shard": news.shard,
                "card": news.card,
                "id": news.id,
                "message": news.message,
            }
        case CardLost():
            return {"event": "card_lost", "card": news.card, "message": news.message}


def _test(told: Ended) -> Row:
    found: Row = {
        "event": "test",
        "id": told.id,
        "file": told.file,
        "outcome": told.outcome.value,
        "verdict": told.verdict.value,
        "seconds": round(told.seconds, 4),
        "card": told.card or None,
        "attempt": told.attempt,
    }
    if told.message:
        found["message"] = told.message
    if told.cause:
        found["cause"] = told.cause
    return found
