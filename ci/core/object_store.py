"""A bucket of an S3 endpoint: files and bytes by name, with time-outs and second tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ci.core.errors import BucketAwayError, CommandError, MissingInputError, SettingsError
from test_selection.files import atomic_writer

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
TRIES = 5
SCHEME = "s3://"
# A large object is sent in parts of so many bytes; its ETag follows from them.
PART_BYTES = 16 * 1024 * 1024
# Parts of one object under way at once, and what of them waits for the disk, in quarters of a MiB.
_PARTS_AT_ONCE = 4
_WAITING = 64
# What S3 answers where there is no such object.
_MISSING = {"404", "NoSuchKey"}
# What it answers where another time may do; every 5xx as well.
_BUSY = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An object as a listing tells of it."""

    name: str
    size: int
    etag: str


class Bucket:
    """A bucket, or what is below a prefix of it; keys, region and endpoint are the environment's (`AWS_…`).

    Args:
        address: `s3://bucket` or `s3://bucket/prefix`.
        where: what errors name: the flag or setting the address is from.

    Raises:
        SettingsError: it names no bucket, or boto3 is not installed or not told where and who.
    """

    def __init__(self, address: str, *, where: str) -> None:
        parts = urlsplit(address)
        self._bucket, self._prefix = parts.netloc, parts.path.strip("/")
        if parts.scheme != "s3" or not self._bucket or "@" in self._bucket:
            raise SettingsError(
                f"{address!r} names no bucket", where=where, remedy="give s3://bucket or s3://bucket/prefix"
            )
        self._client = _client(where)

    def address(self, name: str = "") -> str:
        """`s3://bucket/prefix/name`."""
        return f"{SCHEME}{self._bucket}/{self._key(name)}".rstrip("/")

    def put(
        self,
        name: str,
        content: bytes | Path,
        *,
        kind: str = "",
        encoding: str = "",
        seen: Callable[[int], object] | None = None,
    ) -> str:
        """Put bytes or a file, over what has its name; returns its address.

        Args:
            name: parts separated by `/`.
            content: bytes, or a file that is sent without being read whole.
            kind: content type.
            encoding: content encoding, such as gzip.
            seen: told, from other threads, of so many more bytes of a file that were sent.

        Raises:
            BucketAwayError: the endpoint is not reached, or busy.
            CommandError: it cannot be put there.
        """
        more = ({"ContentType": kind} if kind else {}) | ({"ContentEncoding": encoding} if encoding else {})
        with self._told(name):
            if isinstance(content, bytes):
                self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=content, **more)
            else:
                # In parts, side by side, where it is large.
                with content.open("rb") as stream:
                    self._client.upload_fileobj(
                        stream, self._bucket, self._key(name), more, Callback=seen, Config=_in_parts()
                    )
        return self.address(name)

    def get(self, name: str) -> bytes:
        """What an object holds.

        Raises:
            MissingInputError: there is none.
            BucketAwayError: the endpoint is not reached, or busy.
            CommandError: it cannot be had.
        """
        with self._told(name):
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._key(name))["Body"].read()
            return body

    def download(self, name: str, path: Path, *, seen: Callable[[int], object] | None = None) -> None:
        """Write an object to a file, whole or not at all.

        Args:
            name: of the object.
            path: of the file; its folder is made.
            seen: told, from other threads, of so many more bytes that came.

        Raises:
            MissingInputError: there is none.
            BucketAwayError: the endpoint is not reached, or busy, or the connection broke too often.
            CommandError: it cannot be had.
        """
        with self._told(name), atomic_writer(path) as stream:
            self._client.download_fileobj(
                self._bucket, self._key(name), stream, Callback=seen, Config=_in_parts()
            )

    def names(self, below: str = "") -> Iterator[tuple[str, int]]:
        """Name and size in bytes of every object below a name; see `objects`."""
        return ((one.name, one.size) for one in self.objects(below))

    def objects(self, below: str = "") -> Iterator[Held]:
        """Every object below a name, as below a folder, in the order of names, page by page.

        Raises:
            BucketAwayError: the endpoint is not reached, or busy.
            CommandError: they cannot be listed.
        """
        cut = len(self._prefix) + 1 if self._prefix else 0
        start = self._key(below).strip("/")
        with self._told(below):
            pages = self._client.get_paginator("list_objects_v2")
            # With its slash: `model` is not told of what is below `model-2`.
            for page in pages.paginate(Bucket=self._bucket, Prefix=f"{start}/" if start else ""):
                for row in page.get("Contents", ()):
                    yield Held(name=row["Key"][cut:], size=row["Size"], etag=row["ETag"].strip('"'))

    def delete(self, names: list[str]) -> None:
        """Delete objects; one that is not found is no error.

        Raises:
            CommandError: they cannot be deleted.
        """
        with self._told(""):
            for first in range(0, len(names), 1000):  # what one call takes
                keys = [{"Key": self._key(name)} for name in names[first : first + 1000]]
                self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True})

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}".strip("/") if self._prefix else name

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Say of what the endpoint refuses where that was."""
        from boto3.exceptions import Boto3Error  # noqa: PLC0415  # an extra
        from botocore import exceptions as botocore  # noqa: PLC0415  # as above
        from s3transfer.exceptions import RetriesExceededError  # noqa: PLC0415  # as above

        try:
            yield
        except botocore.ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in _MISSING:
                raise MissingInputError(
                    "there is no such object", where=self.address(name), remedy="check the name"
                ) from error
            raise self._refused(error, name, away=code in _BUSY or status >= _SERVER_ERROR) from error
        except (
            botocore.ConnectionError,
            botocore.HTTPClientError,
            botocore.IncompleteReadError,
            RetriesExceededError,
        ) as error:
            raise self._refused(error, name, away=True) from error
        except (botocore.BotoCoreError, Boto3Error) as error:
            raise self._refused(error, name, away=False) from error

    def _refused(self, error: Exception, name: str, *, away: bool) -> CommandError:
        kind, said, remedy = (
            (BucketAwayError, "cannot be reached", "check that its endpoint is up, then try again")
            if away
            else (CommandError, "refuses", "check the bucket and its keys")
        )
        return kind(f"the bucket {said}: {error}", where=self.address(name), remedy=remedy)


def _in_parts() -> Any:
    from boto3.s3.transfer import TransferConfig  # noqa: PLC0415  # an extra

    return TransferConfig(
        multipart_threshold=PART_BYTES,
        multipart_chunksize=PART_BYTES,
        max_concurrency=_PARTS_AT_ONCE,
        max_io_queue=_WAITING,
    )


def _client(where: str) -> Any:
    try:
        import boto3  # noqa: PLC0415  # an extra
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError("s3:// needs boto3", where=where, remedy="pip install 'spyre-ci[s3]'") from error
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"max_attempts": TRIES, "mode": "standard"},
    )
    try:
        return boto3.client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise SettingsError(
            f"S3 cannot be used: {error}",
            where="the environment's AWS_ variables",
            remedy="set AWS_DEFAULT_REGION and, where it is not AWS, AWS_ENDPOINT_URL_S3",
        ) from error
