"""Where files of rows are put: a folder, or a bucket of an S3 endpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from ci.core.errors import SettingsError
from ci.core.object_store import SCHEME, Bucket
from test_selection.files import atomic_writer


class ObjectStore(Protocol):
    """Takes files by name."""

    def put(self, name: str, file: Path) -> str:
        """Put a file, over one of its name; returns its address.

        Args:
            name: parts separated by `/`.
            file: what is put.

        Raises:
            SpyreCiError: it cannot be put there.
        """


class FolderStore:
    """A folder; parents are made, and a file is there whole or not at all.

    Args:
        folder: the top.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, file: Path) -> str:
        """See ObjectStore."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source, atomic_writer(path) as target:
            shutil.copyfileobj(source, target)
        return str(path)


class BucketStore:
    """A bucket; see `ci.core.object_store.Bucket`.

    Args:
        address: `s3://bucket` or `s3://bucket/prefix`.

    Raises:
        SettingsError: it names no bucket, or boto3 is not installed or not told where and who.
    """

    def __init__(self, address: str) -> None:
        self._bucket = Bucket(address, where="--to")

    def put(self, name: str, file: Path) -> str:
        """See ObjectStore."""
        return self._bucket.put(name, file, kind="application/json", encoding="gzip")


def object_store(address: str) -> ObjectStore:
    """The store of an address: a folder, or `s3://bucket/prefix`.

    Raises:
        SettingsError: see BucketStore; or the address is a URL of another kind.
    """
    if address.startswith(SCHEME):
        return BucketStore(address)
    if "://" in address:
        raise SettingsError(
            f"{address!r} is no place for files", where="--to", remedy="give a folder or s3://…"
        )
    return FolderStore(Path(address))
