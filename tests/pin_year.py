"""A year of the fine-tuning image of the examples: what was released, and what was told."""

from __future__ import annotations

from datetime import UTC, datetime

from ci.pins.events import CampaignStarted, Event, Reason, Requested, Scheduled
from ci.pins.record import Flag, Parameter, Record

TRAIN = "tuning.sft_trainer:train"
MENDED, MENDED_AGAIN = "a" * 40, "b" * 40


def at(day: str, hour: int = 0) -> datetime:
    """An hour of a day, in UTC."""
    return datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)


def _release(version: str, day: str, packages: dict[str, str], train: str, *flags: Flag) -> Record:
    signature = tuple(
        Parameter(
            name=name.rstrip("="), kind="positional or keyword", default="None" if "=" in name else None
        )
        for name in train.split()
    )
    return Record(
        track="fine-tuning",
        version=version,
        sha=version.encode().hex().ljust(64, "0"),
        source="registry.example.com/tuning/fms-hf-tuning",
        released_at=at(day),
        recorded_at=at(day),
        flags=flags,
        packages=packages,
        direct={name: packages.get(name) for name in ("torch", "transformers", "accelerate", "flash-attn")},
        signatures={TRAIN: signature},
    )


def _packages(torch: str, transformers: str, accelerate: str, flash_attn: str | None) -> dict[str, str]:
    found = {"torch": torch, "transformers": transformers, "accelerate": accelerate}
    return found if flash_attn is None else {**found, "flash-attn": flash_attn}


_OLD, _NEW = "model data training", "model data training callbacks="

RELEASES = (
    _release("3.1.0", "2025-12-18", _packages("2.7.1", "4.55.4", "1.8.1", "2.8.0"), _OLD),
    _release("3.2.0", "2026-02-10", _packages("2.7.1", "4.56.2", "1.10.1", "2.8.3"), _OLD),
    _release("3.3.0", "2026-04-15", _packages("2.8.0", "4.57.1", "1.11.0", "2.8.3"), _NEW),
    _release("3.4.0", "2026-05-20", _packages("2.9.0", "4.57.1", "1.11.0", "2.8.3"), _NEW, "performance"),
    _release("3.5.0", "2026-07-08", _packages("2.9.1", "4.57.3", "1.12.0", "2.8.3"), _NEW),
    _release("3.6.0", "2026-08-21", _packages("2.10.0", "4.57.6", "1.12.0", "2.8.3"), _NEW),
    _release("4.0.0", "2026-09-15", _packages("2.11.0", "5.1.0", "1.13.0", "2.8.3"), _NEW, "major"),
    # Without flash-attn, and `train` is called otherwise.
    _release("4.1.0", "2026-10-20", _packages("2.11.0", "5.2.0", "1.13.0", None), "model data settings"),
    _release("4.2.0", "2026-12-02", _packages("2.12.0", "5.3.0", "1.14.0", "2.9.0"), "model data settings"),
)


def _asked(
    number: int, day: str, reason: Reason, text: str, *, version: str | None = None, sha: str = ""
) -> Requested:
    return Requested(at=at(day, 5), id=number, reason=reason, text=text, version=version, sha=sha)


# In the order they were told.
EVENTS: tuple[Event, ...] = (
    _asked(1, "2026-05-06", "bug", "checkpoints of LoRA adapters are empty", sha=MENDED),
    CampaignStarted(
        at=at("2026-06-15"), name="summer window", starts=at("2026-07-01"), ends=at("2026-08-12")
    ),
    _asked(2, "2026-07-03", "regression", "the loss is not a number after a restart", sha=MENDED_AGAIN),
    _asked(3, "2026-07-10", "performance", "packing of short samples", version="3.5.0"),
    _asked(4, "2026-07-20", "major", "tokenizers of the new models"),
    Scheduled(at=at("2026-07-25"), version="3.6.0", on=at("2026-08-19")),
    _asked(5, "2026-08-03", "performance", "a faster attention"),
    # It comes two days later than it was to.
    Scheduled(at=at("2026-08-17"), version="3.6.0", on=at("2026-08-21")),
    CampaignStarted(
        at=at("2026-11-02"), name="winter window", starts=at("2026-11-30"), ends=at("2026-12-14")
    ),
    Scheduled(at=at("2026-11-20"), version="4.3.0", on=at("2026-12-30")),
    _asked(6, "2026-12-03", "performance", "torch.compile of the whole step"),
)
