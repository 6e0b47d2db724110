"""`POST /api/upload/{kind}`: takes JUnit of any runner and files of rows for a job that was reported."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import IO, Annotated

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect

from ci.errors import BadFileError
from ci.hud.callback import MAX_WHOLE
from ci.hud.junit_rows import junit_rows
from ci.hud.row_files import read_rows, unpacked
from ci.hud.rows import Job, Row
from ci.hud.server.gate import Vouched
from ci.hud.server.uploads import Incoming, Receipt, UploadKind, UploadRefusedError, Uploads

UPLOAD_PATH = "/api/upload"
MOST_BYTES = 256 * 1024 * 1024
# What a file may unpack to. JUnit is less, because the text of one element is held in memory.
MOST_UNPACKED = 4 * 1024 * 1024 * 1024
MOST_JUNIT = 512 * 1024 * 1024
# A quarter of a gigabyte on a slow line.
UPLOAD_TIMEOUT_S = 900.0
IN_MEMORY = 4 * 1024 * 1024


# Says in the OpenAPI document how a request shows who it is; the routes check it themselves.
BEARER = HTTPBearer(auto_error=False)


class UploadQuery(BaseModel):
    """Whose rows a file holds, and what it is compared with."""

    model_config = ConfigDict(extra="forbid")

    workflow_id: Annotated[int, Field(ge=1, le=MAX_WHOLE)]
    workflow_run_attempt: Annotated[int, Field(ge=1, le=2**32 - 1)]
    job_id: Annotated[int, Field(ge=1, le=MAX_WHOLE)]
    name: Annotated[str, Field(min_length=1, max_length=1024, description="of the file, within its job")]
    rows: Annotated[int | None, Field(ge=0, le=MAX_WHOLE, description="how many it should hold")] = None
    sha256: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$", description="it should have")] = None

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


def add_uploads(
    app: FastAPI,
    uploads: Uploads,
    *,
    admit: Callable[[Request], Awaitable[Vouched]],
    clock: Callable[[], float],
    folder: Path,
) -> None:
    """Add the route.

    Args:
        app: the server.
        uploads: takes what comes.
        admit: what a request's credentials vouch for; refuses it with an HTTPException.
        clock: seconds since the epoch.
        folder: where large bodies wait while they are read.
    """

    async def authorize(request: Request) -> None:
        # A dependency, so that a stranger learns nothing of what a request should look like.
        request.state.vouched = await admit(request)

    @app.post(
        f"{UPLOAD_PATH}/{{kind}}",
        responses=_answers(),
        openapi_extra=_body(),
        dependencies=[Depends(BEARER), Depends(authorize)],
    )
    async def upload(
        kind: UploadKind,
        request: Request,
        query: Annotated[UploadQuery, Query()],
    ) -> UploadAnswer:
        """Take a job's tests: JUnit or rows, plain or gzip. The same file again changes nothing."""
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, mode="w+b", dir=str(folder)) as body:
            digest = await _receive(request, body)
            vouched: Vouched = request.state.vouched
            vouched.check(digest)
            if query.sha256 not in {None, digest}:
                raise HTTPException(400, f"the body's sha256 is {digest}: it was cut or changed on its way")
            incoming = Incoming(
                repository=vouched.repository, job=query.job, kind=kind, name=query.name, sha256=digest
            )
            receipt = await run_in_threadpool(_take, uploads, incoming, body, at=clock(), told=query.rows)
        return UploadAnswer(ok=True, sent=receipt.sent, stored=receipt.stored, unchanged=receipt.unchanged)


def _take(uploads: Uploads, incoming: Incoming, body: IO[bytes], *, at: float, told: int | None) -> Receipt:
    try:
        return uploads.take(incoming, _counted(_read(incoming, body), told), at=at)
    except BadFileError as error:
        raise HTTPException(400, f"{error.where}: {error.what}") from error
    except UploadRefusedError as error:
        raise HTTPException(error.status, str(error)) from error


def _read(incoming: Incoming, body: IO[bytes]) -> Iterator[Row]:
    source = unpacked(body)
    if incoming.kind == "junit":
        return junit_rows(Bounded(source, MOST_JUNIT), incoming.job, name=incoming.name)
    layout = incoming.kind
    return read_rows(Bounded(source, MOST_UNPACKED), incoming.job, kind=layout, name=incoming.name)


def _counted(rows: Iterator[Row], told: int | None) -> Iterator[Row]:
    number = 0
    for row in rows:
        number += 1
        yield row
    if told is not None and number != told:
        raise UploadRefusedError(400, f"{told} rows were said to be sent, and the file has {number}")


async def _receive(request: Request, body: IO[bytes]) -> str:
    """Take a request's body in; its sha256 in hex."""
    told = request.headers.get("content-length", "")
    refused = HTTPException(413, f"the body is larger than {MOST_BYTES} bytes: send it in parts, by name")
    if told.isdecimal() and int(told[:20]) > MOST_BYTES:
        raise refused
    digest, size = hashlib.sha256(), 0
    try:
        async with asyncio.timeout(UPLOAD_TIMEOUT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise refused
                digest.update(chunk)
                body.write(chunk)
    except TimeoutError as error:
        raise HTTPException(408, f"the body took longer than {UPLOAD_TIMEOUT_S:g} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the body ended before it was whole") from error
    return digest.hexdigest()


class Bounded:
    """A stream that ends with an error where it gives more than it may.

    Args:
        source: what is read.
        most: bytes it may give.
    """

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source = source
        self._left = self._most = most

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes.

        Raises:
            ValueError: there were more than it may give.
        """
        return self._bounded(self._source.read(size))

    def readline(self, size: int = -1) -> bytes:
        """A line, or its first so many bytes.

        Raises:
            ValueError: there were more than it may give.
        """
        return self._bounded(self._source.readline(size))

    def _bounded(self, read: bytes) -> bytes:
        self._left -= len(read)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {self._most} bytes")
        return read


def _answers() -> dict[int | str, dict[str, str]]:
    return {
        400: {"description": "it cannot be read, or is not what was said to be sent"},
        401: {"description": "missing or wrong bearer token"},
        403: {"description": "the job is another repository's"},
        404: {"description": "no such job was reported"},
        409: {"description": "its tests came in another layout, or the same file is sent at this moment"},
        413: {"description": f"the body is larger than {MOST_BYTES} bytes"},
        503: {"description": "the store failed"},
    }


def _body() -> dict[str, object]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {"application/octet-stream": binary}}}
