"""How pods lay out what they leave in a store, and which names there are taken for theirs. Pure.

Below `<store>/<run>/pods/<index>/` stands the pod's run folder as the pod sees it. In a bucket a file is
pieces, `journal/<shard>-<attempt>.jsonl/<offset, 12 digits>`, each of whole lines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PODS = "pods"
INPUTS = "inputs"
JOURNAL = ".jsonl"
# How the run was asked to go, and on which back end: whoever goes on compares itself.
SETTINGS = "run-settings.json"
# Folders of a run folder that are gathered, with what their files are called. Attempt 0 is nobody's.
_JOURNAL = re.compile(r"(\d{1,6})-[1-9]\d{0,5}\.jsonl")
_LOG = re.compile(r"(?:\d{1,6}-[1-9]\d{0,5}|pod-\d{1,6}-[1-9]\d{0,5})\.log")
KINDS = {"journal": _JOURNAL, "logs": _LOG, "control/journal": _JOURNAL, "control/logs": _LOG}
_POD = re.compile(r"0|[1-9]\d{0,5}")
_OFFSET = re.compile(r"\d{12}")
# No journal of an honest shard comes near it.
MOST_BYTES = 4 << 30
# What a piece holds at most; what is larger was not put there by a pod.
PIECE_BYTES = 8 << 20


class Piece(NamedTuple):
    """A part of a file in a bucket."""

    pod: int
    file: str
    offset: int
    size: int


def is_pod(name: str) -> bool:
    """Whether a folder is a pod's."""
    return _POD.fullmatch(name) is not None


def is_file(kind: str, name: str) -> bool:
    """Whether a file of such a folder is one that pods leave."""
    return KINDS[kind].fullmatch(name) is not None


def shard_of(file: str) -> int | None:
    """The shard a journal is of; None for a log."""
    name = file.rpartition("/")[2]
    return int(name.partition("-")[0]) if name.endswith(JOURNAL) else None


def piece_name(file: str, offset: int) -> str:
    """The name of a piece below the pod's folder."""
    return f"{file}/{offset:012}"


def piece_of(name: str, size: int) -> Piece | None:
    """What an object below `pods/` is; None for what no pod has put there.

    Args:
        name: behind `pods/`.
        size: in bytes.
    """
    pod, _, rest = name.partition("/")
    way, _, offset = rest.rpartition("/")
    kind, _, file = way.rpartition("/")
    if not (is_pod(pod) and kind in KINDS and is_file(kind, file) and _OFFSET.fullmatch(offset)):
        return None
    if size > PIECE_BYTES or int(offset) + size > MOST_BYTES:
        return None
    return Piece(pod=int(pod), file=way, offset=int(offset), size=size)
