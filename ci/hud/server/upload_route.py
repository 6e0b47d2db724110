"""`POST /api/upload/{kind}`: takes JUnit of any runner and files of rows for a job that was reported."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from ci.core.errors import BadFileError
from ci.hud.server.gate import Vouched
from ci.hud.server.http import receive
from ci.hud.server.relay import answered, note_answer
from ci.store.identity import MAX_WHOLE
from ci.store.row_files import read_rows, unpacked
from ci.store.row_layout import TestRun, TestRunSummary
from ci.store.rows import Job, junit_rows
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
    store: Store,
    *,
    admit: Callable[[Request], Awaitable[Vouched]],
    clock: Callable[[], float],
    folder: Path,
) -> None:
    """Add the route.

    Args:
        app: the server.
        uploads: takes what comes.
        store: knows what signed requests were answered.
        admit: what a request's credentials vouch for; refuses it with an HTTPException.
        clock: seconds since the epoch.
        folder: where large bodies wait while they are read.
    """
    workers = anyio.CapacityLimiter(AT_ONCE)

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
                repository=vouched.repository,
                job=query.job,
                kind=kind,
                name=query.name,
                sha256=digest,
                rows=query.rows,
            )
            signed = _Signed(store=store, uploads=uploads, signature=vouched.signature, at=clock())
            return await anyio.to_thread.run_sync(partial(signed.take, incoming, body), limiter=workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """A request that may be a repetition of one that was taken."""

    store: Store
    uploads: Uploads
    signature: str
    at: float

    def take(self, incoming: Incoming, body: IO[bytes]) -> UploadAnswer:
        with self.store.transaction() as connection:
            before = answered(connection, self.signature)
        if before is not None:
            return UploadAnswer.model_validate(before)
        receipt = _take(self.uploads, incoming, body, at=self.at)
        answer = UploadAnswer(ok=True, sent=receipt.sent, stored=receipt.stored, unchanged=receipt.unchanged)
        with self.store.transaction() as connection:
            note_answer(connection, self.signature, answer.model_dump(), at=self.at)
        return answer


def _take(uploads: Uploads, incoming: Incoming, body: IO[bytes], *, at: float) -> Receipt:
    try:
        return uploads.take(incoming, _read(incoming, body), at=at)
    except BadFileError as error:
        raise HTTPException(400, f"{error.where}: {error.what}") from error
    except UploadRefusedError as error:
        raise HTTPException(error.status, str(error)) from error


def _read(incoming: Incoming, body: IO[bytes]) -> Iterator[TestRun] | Iterator[TestRunSummary]:
    source, job, name = unpacked(body), incoming.job, incoming.name
    most = MOST_JUNIT if incoming.kind == "junit" else MOST_UNPACKED
    bounded = Bounded(source, most, packed=None if source is body else body)
    if incoming.kind == "junit":
        return junit_rows(bounded, job, name=name)
    if incoming.kind == "test_run_summary":
        return read_rows(bounded, job, layout=TestRunSummary, name=name)
    return read_rows(bounded, job, layout=TestRun, name=name)


async def _receive(request: Request, body: IO[bytes]) -> str:
    """Take a request's body in; its sha256 in hex."""
    digest = hashlib.sha256()

    def take(chunk: bytes) -> None:
        digest.update(chunk)
        body.write(chunk)

    await receive(
        request, take, limit=MOST_BYTES, timeout_s=UPLOAD_TIMEOUT_S, remedy=": send it in parts, by name"
    )
    return digest.hexdigest()


class Bounded:
    """A stream that ends with an error where it gives more than it may, or is broken.

    Args:
        source: what is read.
        most: bytes it may give.
        packed: what the source is unpacked from; None where it is plain.
    """

    def __init__(self, source: IO[bytes], most: int, *, packed: IO[bytes] | None = None) -> None:
        self._source = source
        self._most = most
        self._packed = packed
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes.

        Raises:
            ValueError: there were more than it may give.
        """
        given = self._source.read(size)
        self._given += len(given)
        if self._given > self._most:
            raise ValueError(f"it unpacks to more than {self._most} bytes")
        if (
            self._packed is not None
            and self._given > ANY_RATIO
            and self._given > MOST_RATIO * self._packed.tell()
        ):
            raise ValueError(f"it unpacks to more than {MOST_RATIO} times its size")
        return given


def _answers() -> dict[int | str, dict[str, str]]:
    return {
        400: {"description": "it cannot be read, or is not what was said to be sent"},
        401: {"description": "missing or wrong bearer token"},
        403: {"description": "nobody vouches for the repository"},
        404: {"description": "the repository reported no such job"},
        409: {"description": "its tests came in another layout, or the same file is sent at this moment"},
        413: {"description": f"the body is larger than {MOST_BYTES} bytes"},
        503: {"description": "the store failed"},
    }


def _body() -> dict[str, object]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {"application/octet-stream": binary}}}
