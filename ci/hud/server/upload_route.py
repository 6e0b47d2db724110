"""`POST /api/upload/{kind}`: takes JUnit of any runner and files of rows for a job that was reported."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Annotated

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from ci.core.errors import BadFileError
from ci.hud.server.auth import Auth, Bearer, Writer
from ci.hud.server.http import receive
from ci.store.identity import MAX_WHOLE
from ci.store.row_files import read_rows, unpacked
from ci.store.rows import Job, TestRun, junit_rows
from ci.store.store import Store
from ci.store.uploads import Incoming, Receipt, UploadKind, UploadRefusedError, Uploads

UPLOAD_PATH = "/api/upload"
MOST_BYTES = 256 * 1024 * 1024
# What a file may unpack to. JUnit is less, because the text of one element is held in memory.
MOST_UNPACKED = 4 * 1024 * 1024 * 1024
MOST_JUNIT = 512 * 1024 * 1024
# No writer packs so well by chance: a repeated log reaches 300, gzip's end is 1032. Small files may.
MOST_RATIO = 400
ANY_RATIO = 4 * 1024 * 1024
# Each may take hundreds of megabytes, and the threads of all other routes are not theirs to take.
AT_ONCE = 4
# A quarter of a gigabyte on a slow line.
UPLOAD_TIMEOUT_S = 900.0
IN_MEMORY = 4 * 1024 * 1024


BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class UploadQuery(BaseModel):
    """Whose rows a file holds, and what it is compared with."""

    model_config = ConfigDict(extra="forbid")

    workflow_id: Annotated[int, Field(ge=1, le=MAX_WHOLE)]
    workflow_run_attempt: Annotated[int, Field(ge=1, le=2**32 - 1)]
    job_id: Annotated[int, Field(ge=1, le=MAX_WHOLE)]
    name: Annotated[str, Field(min_length=1, max_length=1024, description="file name, unique within the job")]
    rows: Annotated[int | None, Field(ge=0, le=MAX_WHOLE, description="expected number of rows")] = None
    sha256: Annotated[
        str | None, Field(pattern="^[0-9a-f]{64}$", description="expected SHA-256 of the body")
    ] = None

    @property
    def job(self) -> Job:
        """The three numbers."""
        return Job(
            workflow_id=self.workflow_id,
            workflow_run_attempt=self.workflow_run_attempt,
            job_id=self.job_id,
        )


class UploadAnswer(BaseModel):
    """What came of an upload: rows in the file, and rows of it in the store, counted there."""

    ok: bool
    sent: int
    stored: int
    unchanged: str


def add_uploads(app: FastAPI, uploads: Uploads, store: Store, auth: Auth, clock: Callable[[], float]) -> None:
    """Add the route; large bodies wait beside the store while they are read."""
    workers = anyio.CapacityLimiter(AT_ONCE)

    async def admit(request: Request, bearer: Bearer) -> None:
        # A dependency, so that a stranger learns nothing of what a request should look like.
        request.state.writer = await auth.admit(bearer)

    @app.post(f"{UPLOAD_PATH}/{{kind}}", openapi_extra=BODY, dependencies=[Depends(admit)])
    async def upload(
        kind: UploadKind,
        request: Request,
        query: Annotated[UploadQuery, Query()],
    ) -> UploadAnswer:
        """Take a job's tests: JUnit or rows, plain or gzip. The same file again changes nothing."""
        writer: Writer = request.state.writer
        folder = str(store.path.parent)
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, mode="w+b", dir=folder) as body:
            digest = await _receive(request, body)
            if query.sha256 not in {None, digest}:
                raise HTTPException(
                    400, f"the body's sha256 is {digest}: it was truncated or changed in transit"
                )
            incoming = Incoming(
                repository=writer.repository,
                job=query.job,
                kind=kind,
                name=query.name,
                sha256=digest,
                rows=query.rows,
            )
            receipt = await anyio.to_thread.run_sync(
                partial(_take, uploads, incoming, body, at=clock()), limiter=workers
            )
        return UploadAnswer(ok=True, sent=receipt.sent, stored=receipt.stored, unchanged=receipt.unchanged)


def _take(uploads: Uploads, incoming: Incoming, body: IO[bytes], *, at: float) -> Receipt:
    try:
        return uploads.take(incoming, _read(incoming, body), at=at)
    except BadFileError as error:
        raise HTTPException(400, f"{error.where}: {error.what}") from error
    except UploadRefusedError as error:
        raise HTTPException(error.status, str(error)) from error


def _read(incoming: Incoming, body: IO[bytes]) -> Iterator[TestRun]:
    source, job, name = unpacked(body), incoming.job, incoming.name
    most = MOST_JUNIT if incoming.kind == "junit" else MOST_UNPACKED
    bounded = Bounded(source=source, most=most, packed=None if source is body else body)
    if incoming.kind == "junit":
        return junit_rows(bounded, job, name=name)
    return read_rows(bounded, job, name=name)


async def _receive(request: Request, body: IO[bytes]) -> str:
    """Take a request's body in; its sha256 in hex."""
    digest = hashlib.sha256()

    def take(chunk: bytes) -> None:
        digest.update(chunk)
        body.write(chunk)

    await receive(
        request,
        take,
        limit=MOST_BYTES,
        timeout_s=UPLOAD_TIMEOUT_S,
        remedy=": send it in parts, each with a name of its own",
    )
    return digest.hexdigest()


@dataclass(slots=True, kw_only=True)
class Bounded:
    """A stream that ends with an error where it gives more than it may, or is broken.

    Attributes:
        source: what is read.
        most: bytes it may give.
        packed: what the source is unpacked from; None where it is plain.
    """

    source: IO[bytes]
    most: int
    packed: IO[bytes] | None
    _given: int = 0

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes.

        Raises:
            ValueError: there were more than it may give.
        """
        given = self.source.read(size)
        self._given += len(given)
        if self._given > self.most:
            raise ValueError(f"it unpacks to more than {self.most} bytes")
        if self.packed is not None and self._given > max(ANY_RATIO, MOST_RATIO * self.packed.tell()):
            raise ValueError(f"it unpacks to more than {MOST_RATIO} times its size")
        return given
