"""Files that lie in a bucket as pieces, put together by their offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ci.core.object_store import Bucket
from ci.jobs.layout import Piece, piece_name, piece_of


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
