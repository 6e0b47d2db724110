"""Where files of rows are put: a folder, or a bucket of an S3 endpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from ci.errors import CommandError, SettingsError
from test_selection.files import atomic_writer

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
TRIES = 5


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
    """A bucket; keys, region and endpoint are the environment's, as boto3 reads them (`AWS_…`).

    Args:
        address: `s3://bucket` or `s3://bucket/prefix`.

    Raises:
        SettingsError: it names no bucket, or boto3 is not installed or not told where and who.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._bucket, self._prefix = parts.netloc, parts.path.strip("/")
        if not self._bucket or "@" in self._bucket:
            raise SettingsError(
                f"{address!r} names no bucket", where="--to", remedy="give s3://bucket or s3://bucket/prefix"
            )
        try:
            import boto3  # noqa: PLC0415  # an extra
            from botocore.config import Config  # noqa: PLC0415
            from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                "s3:// needs boto3", where="--to", remedy="pip install 'spyre-ci[s3]'"
            ) from error
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"max_attempts": TRIES, "mode": "standard"},
        )
        try:
            self._client = boto3.client("s3", config=config)
        except (BotoCoreError, ValueError) as error:
            raise SettingsError(
                f"S3 cannot be used: {error}",
                where="the environment's AWS_ variables",
                remedy="set AWS_DEFAULT_REGION and, where it is not AWS, AWS_ENDPOINT_URL_S3",
            ) from error

    def put(self, name: str, file: Path) -> str:
        """See ObjectStore."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # as above

        key = f"{self._prefix}/{name}" if self._prefix else name
        address = f"s3://{self._bucket}/{key}"
        try:
            with file.open("rb") as body:
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=key,
                    Body=body,
                    ContentType="application/json",
                    ContentEncoding="gzip",
                )
        except (BotoCoreError, ClientError) as error:
            raise CommandError(
                f"it cannot be put there: {error}", where=address, remedy="check the bucket and its keys"
            ) from error
        return address


def object_store(address: str) -> ObjectStore:
    """The store of an address: a folder, or `s3://bucket/prefix`.

    Raises:
        SettingsError: see BucketStore; or the address is a URL of another kind.
    """
    if address.startswith("s3://"):
        return BucketStore(address)
    if "://" in address:
        raise SettingsError(
            f"{address!r} is no place for files", where="--to", remedy="give a folder or s3://…"
        )
    return FolderStore(Path(address))
