"""How pods lay out what they leave in a store, and which names there are taken for theirs.

Below `<store>/<run>/pods/<index>/` stands the pod's run folder as the pod sees it. In a bucket a file is
pieces, `journal/<shard>-<attempt>.jsonl/<offset, 12 digits>`, each of whole lines, put together by offsets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ci.core.object_store import Bucket

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


class PiecedFile:
    """A file of a pod in a bucket.

    Attributes:
        pod: the pod's index.
        file: its name in the pod's run folder.
        size: bytes up to its end, or to the first hole.
        trouble: where that is; empty where there is none.
    """

    def __init__(self, bucket: Bucket, below: str, pieces: Sequence[Piece]) -> None:
        """Take a file's pieces.

        Args:
            bucket: that has them.
            below: where the pods' folders are in it.
            pieces: all of one file, in any order.
        """
        self.pod, self.file = pieces[0].pod, pieces[0].file
        self._bucket, self._name = bucket, f"{below}{self.pod}/{self.file}"
        self._chain, self.size, self.trouble = _chained(pieces)

    def read(self, start: int) -> Iterator[bytes]:
        """What it holds from a byte on, up to its end or the first hole.

        Raises:
            CommandError: the bucket cannot be read.
            MissingInputError: a piece was taken away meanwhile, which no pod does.
        """
        at = start
        for piece in self._chain:
            if piece.offset + piece.size > at:
                # It may have grown since it was listed.
                new = self._bucket.get(piece_name(self._name, piece.offset))[at - piece.offset :]
                at += len(new)
                yield new


def _chained(pieces: Sequence[Piece]) -> tuple[list[Piece], int, str]:
    """The pieces that make up a file's beginning, where that ends, and what is missing behind it."""
    chain: list[Piece] = []
    end = 0
    for piece in sorted(pieces, key=lambda piece: piece.offset):
        if piece.offset > end:
            missing = f"bytes {end:,} to {piece.offset:,} are missing in the bucket"
            return chain, end, f"{missing}, and what follows is left there"
        if piece.offset + piece.size > end:
            chain.append(piece)
            end = piece.offset + piece.size
    return chain, end, ""


class BucketFiles:
    """The files that pods have in a bucket."""

    def __init__(self, bucket: Bucket, below: str, note: Callable[[str], None]) -> None:
        """Look nowhere yet.

        Args:
            bucket: the store.
            below: where the pods' folders are in it, ending in `/`.
            note: told what is nobody's.
        """
        self._bucket, self._below, self._note = bucket, below, note

    def files(self, pod: int | None = None) -> Iterator[PiecedFile]:
        """Each file, in the order of names; the bucket is listed once, page by page.

        Args:
            pod: whose; None: all pods'.

        Raises:
            CommandError: it cannot be listed.
        """
        listed = self._listed(self._below if pod is None else f"{self._below}{pod}/")
        for _, pieces in groupby(listed, key=lambda piece: (piece.pod, piece.file)):
            yield PiecedFile(self._bucket, self._below, list(pieces))

    def _listed(self, below: str) -> Iterator[Piece]:
        for name, size in self._bucket.names(below):
            piece = piece_of(name[len(self._below) :], size)
            if piece is not None:
                yield piece
            elif "/journal/" in name:
                self._note(f"{self._bucket.address(name)!r:.200} is no piece of a journal, and left there")
