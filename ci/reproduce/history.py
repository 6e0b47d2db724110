"""What the journals of a run tell of one test: its tries, where each ran, and what ran before it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ci.record.failure_signature import Failure
from ci.record.journal import OUTCOMES, Journal, count_of, seed_of, text_of
from ci.record.verdict import NO_OUTCOME, Verdict

MOST_NAMES = 200
_OUTCOMES = {name: Verdict(name) for name in (*OUTCOMES, "hardware")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a worker said of itself.

    Attributes:
        card: the accelerator.
        back_end: what made the device.
        torch: its version.
        python: its version.
        image: name@sha256:…; empty where nobody said.
        environ: variables that may matter.
        threads: of the CPU it might use; 0 where it did not say.
        run_seed: the run's; None in old journals.
    """

    card: str = ""
    back_end: str = ""
    torch: str = ""
    python: str = ""
    image: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0
    run_seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One try of the test.

    Attributes:
        number: from 1; the try whose seed it had.
        seed: the test's; None where nobody noted one.
        end: how it ended; infrastructure where nothing tells.
        before: the tests that ran before it in the same process, and which try of each, in their order.
        place: where it ran.
    """

    number: int
    seed: int | None
    end: Failure
    before: tuple[tuple[str, int], ...]
    place: Place


def tries_of(name: str, journals: Iterable[Journal]) -> list[Tried]:
    """Every try of a test, in the order of journals and lines.

    Args:
        name: its canonical id.
        journals: of the run.
    """
    return [one for journal in journals for one in _in_journal(name, journal)]


def _in_journal(name: str, journal: Journal) -> list[Tried]:
    found: list[Tried] = []
    before: list[tuple[str, int]] = []
    place = Place()
    for event in journal.events:
        match event.get("e"):
            case "shard_start":
                place = _place(event)
            case "group_start":
                before = []  # a new process
            case "start" if (id_ := text_of(event.get("id"))) == name:
                found.append(_begun(event, before, place))
                before.append((id_, found[-1].number))
            case "start":
                before.append((id_, count_of(event.get("as", event.get("try", 1)))))
            case "end" | "crash" | "worker_lost" if found and event.get("id") == name:
                found[-1] = replace(found[-1], end=_end(event))
    return found


def _begun(event: Mapping[str, Any], before: Sequence[tuple[str, int]], place: Place) -> Tried:
    return Tried(
        number=count_of(event.get("as", event.get("try", 1))),
        seed=seed_of(event.get("seed")),
        end=Failure(verdict=Verdict.INFRASTRUCTURE, message="no journal tells how it ended"),
        before=tuple(before),
        place=place,
    )


def _end(event: Mapping[str, Any]) -> Failure:
    message, cause = text_of(event.get("message")), text_of(event.get("cause"))
    if event["e"] == "worker_lost":
        return Failure(verdict=Verdict.INFRASTRUCTURE, message=message)
    if event["e"] == "crash":
        hardware = cause == Verdict.HARDWARE
        return Failure(
            verdict=Verdict.HARDWARE if hardware else Verdict.FAILED,
            cause="" if hardware else cause or "exit",
            message=message,
        )
    outcome = text_of(event.get("outcome"))
    return Failure(verdict=_OUTCOMES.get(outcome, Verdict.INFRASTRUCTURE), message=message)


def _place(event: Mapping[str, Any]) -> Place:
    environ = event.get("environ")
    threads = event.get("threads")
    return Place(
        card=text_of(event.get("card")),
        back_end=text_of(event.get("back_end")),
        torch=text_of(event.get("torch")),
        python=text_of(event.get("python")),
        image=text_of(event.get("image")),
        environ={
            name: value
            for name, value in (list(environ.items())[:MOST_NAMES] if isinstance(environ, dict) else [])
            if isinstance(name, str) and isinstance(value, str)
        },
        threads=threads if type(threads) is int and 0 < threads <= 4096 else 0,  # noqa: PLR2004  # CPUs
        run_seed=seed_of(event.get("seed")),
    )


def chosen(tries: Sequence[Tried], number: int) -> Tried | None:
    """The try that is brought back: the one of that number; of 0, the last that failed, else the last.

    Args:
        tries: of `tries_of`.
        number: from 1; 0: nobody asks for one.
    """
    if number:
        return next((one for one in reversed(tries) if one.number == number), None)
    bad = [one for one in tries if one.end.bad]
    told = [one for one in tries if one.end.verdict not in NO_OUTCOME]
    best = bad or told or tries
    return best[-1] if best else None
