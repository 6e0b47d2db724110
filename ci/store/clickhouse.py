"""ClickHouse as the keeper of rows and the answerer of queries, through clickhouse-connect.

SQLite stays the ledger of callbacks, states and uploads, for which ClickHouse has no transactions; ClickHouse
holds copies of the jobs and all rows of tests, in tables named as HUD's.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ci.core.addresses import without_secrets
from ci.core.errors import CommandError, SettingsError
from ci.store.database import Row, StoreUnavailableError, Value
from ci.store.row_store import COUNT, OF_UPLOAD, RECOUNT
from ci.store.row_values import StoredRow, Totals
from ci.store.rows import Job
from ci.store.schema import CLICKHOUSE

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.query import QueryResult

TIMEOUT_S = 60
CONNECT_TIMEOUT_S = 10
# After it could not be reached; whoever asks meanwhile is told so at once.
RETRY_S = 5.0
WHERE = "store.clickhouse"
# Deletions are done when they are answered; FINAL is asked for by everybody, so that rows replaced or summed
# later are read as if they were already.
SETTINGS = {"final": 1, "lightweight_deletes_sync": 2, "mutations_sync": 2, "join_use_nulls": 1}
_ENCODER = msgspec.json.Encoder()
_NAMED = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)\b")


class Clickhouse:
    """A connection, made with its tables by whoever asks first; usable from many threads, one at a time.

    Args:
        address: `clickhouse://user@host:8443/database?secure=true`, or `chdb:///folder` for the engine in
            this process.
        password: for the user.
        clock: seconds, monotonic.

    Raises:
        SettingsError: clickhouse-connect is not installed.
    """

    def __init__(
        self, address: str, *, password: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            import clickhouse_connect  # noqa: PLC0415  # an extra
            from clickhouse_connect.driver.exceptions import Error, OperationalError  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                "needs clickhouse-connect",
                where=WHERE,
                remedy="pip install 'spyre-ci[clickhouse]'",
            ) from error
        options: dict[str, Any] = {}
        if not address.startswith("chdb:"):
            options = {"connect_timeout": CONNECT_TIMEOUT_S, "send_receive_timeout": TIMEOUT_S}
            options["autogenerate_session_id"] = False  # sessions would allow one query at a time
            options |= {"password": password} if password else {}
        self._trouble: tuple[type[Exception], ...] = (Error, OSError)
        self._unfit: tuple[type[Exception], ...] = (Error, OSError, ValueError)
        self._away: tuple[type[Exception], ...] = (OperationalError, OSError)
        self._lock, self._connecting = threading.Lock(), threading.Lock()
        self._open = partial(clickhouse_connect.get_client, dsn=address, **options)
        self._client: Client | None = None
        self._clock = clock
        self._failed, self._retry_at = "", float("-inf")

    def connect(self) -> None:
        """Reach it and make its tables now; else the first question does.

        Raises:
            StoreUnavailableError: it is not reached.
            SettingsError: the driver of its kind of address is not installed.
            CommandError: it is there and cannot be used.
        """
        try:
            self._connect()
        except ImportError as error:
            raise SettingsError(
                f"needs more than is installed: {error}", where=WHERE, remedy="install what the address needs"
            ) from error
        except self._away as error:
            raise StoreUnavailableError(_said(error)) from error
        except self._unfit as error:
            raise unusable(_said(error)) from error

    def close(self) -> None:
        """Let it go."""
        if self._client is not None:
            self._client.close()

    def _connect(self) -> Client:
        """The connection; made by one alone, and after a failure not at once again."""
        if self._client is not None:
            return self._client
        # Whoever waited for it would hold a thread of the server each.
        if not self._connecting.acquire(blocking=False):
            raise StoreUnavailableError("ClickHouse is being connected to")
        try:
            if self._client is None:
                if self._clock() < self._retry_at:
                    raise StoreUnavailableError(self._failed)
                self._client = self._made()
            return self._client
        finally:
            self._connecting.release()

    def _made(self) -> Client:
        try:
            client: Client = self._open()
            with ExitStack() as unless_made:
                unless_made.callback(client.close)
                for statement in CLICKHOUSE:
                    client.command(statement)
                unless_made.pop_all()
        except Exception as error:
            self._failed, self._retry_at = _said(error), self._clock() + RETRY_S
            raise
        return client

    @contextmanager
    def _asking(self) -> Iterator[Client]:
        try:
            client = self._connect()
            with self._lock:
                yield client
        except self._trouble as error:
            raise StoreUnavailableError(_said(error)) from error

    def _answer(self, query: str, values: Mapping[str, Value] | None) -> QueryResult:
        text, bound = bind(query, values or {})
        with self._asking() as client:
            return client.query(text, parameters=bound, settings=SETTINGS)

    def rows(self, query: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        """See ci.store.database.Database."""
        found = self._answer(query, values)
        return [dict(zip(found.column_names, row, strict=True)) for row in found.result_rows]

    def tuples(self, query: str, values: Mapping[str, Value] | None = None) -> Sequence[tuple[Any, ...]]:
        """See ci.store.database.Database."""
        return cast("Sequence[tuple[Any, ...]]", self._answer(query, values).result_rows)

    def do(self, statement: str, values: Mapping[str, Value] | None = None) -> None:
        """Carry out a statement that gives no rows."""
        text, bound = bind(statement, values or {})
        with self._asking() as client:
            client.command(text, parameters=bound, settings=SETTINGS)

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows; columns that one leaves out have their default."""
        if rows:
            self.insert_lines(table, _ENCODER.encode_lines(rows))

    def insert_lines(self, table: str, data: bytes) -> None:
        """Add rows, JSON objects a line; columns that one leaves out have their default."""
        settings = {"input_format_skip_unknown_fields": 1, "date_time_input_format": "best_effort"}
        with self._asking() as client:
            client.raw_insert(table, insert_block=data, fmt="JSONEachRow", settings=settings)


def unusable(said: str) -> CommandError:
    """The error of a ClickHouse that has to be there and is not, or cannot be used."""
    return CommandError(
        f"ClickHouse cannot be used: {said.removeprefix('ClickHouse: ')}",
        where=WHERE,
        remedy="check that it runs, the address and the password",
    )


def _said(error: Exception) -> str:
    return f"ClickHouse: {without_secrets(str(error))[:300]}"


class ClickhouseRowStore:
    """Rows of tests in ClickHouse.

    Args:
        clickhouse: where.
    """

    # An insert makes a part on the disk, so they are few and large.
    chunk_rows = 50_000
    remote = True

    def __init__(self, clickhouse: Clickhouse) -> None:
        self._clickhouse = clickhouse

    def show(self, uploads: Iterable[int]) -> None:
        """See RowStore."""
        if numbers := ", ".join(map(str, uploads)):
            self._clickhouse.do(f"DELETE FROM upload_hidden WHERE id IN ({numbers})")  # noqa: S608  # numbers

    def hide(self, uploads: Iterable[int]) -> None:
        """See RowStore."""
        self._clickhouse.insert("upload_hidden", [{"id": upload} for upload in uploads])

    def pack(self, rows: Sequence[StoredRow]) -> bytes:
        """See RowStore."""
        return _ENCODER.encode_lines(rows)

    def insert(self, pieces: Sequence[bytes]) -> None:
        """See RowStore."""
        self._clickhouse.insert_lines("test_run", b"".join(pieces))

    def remove(self, job: Job, upload: int) -> None:
        """See RowStore."""
        self._clickhouse.do(f"DELETE {OF_UPLOAD}", job.keys() | {"upload_id": upload})

    def count(self, job: Job, upload: int) -> int:
        """See RowStore."""
        return int(self._clickhouse.rows(COUNT, job.keys() | {"upload_id": upload})[0]["number"])

    def recount(self, job: Job, _: Totals | None = None, /) -> None:
        """See RowStore."""
        for statement in RECOUNT:
            self._clickhouse.do(statement, job.keys())


def bind(query: str, values: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """A query with `:name`s as ClickHouse binds values: `{name:Type}`, and NULL where there is none.

    Args:
        query: SQL of ours.
        values: by name.
    """

    def bound(found: re.Match[str]) -> str:
        value = values[found[1]]
        if value is None:
            return "NULL"
        kind = {bool: "Bool", int: "Int64", float: "Float64"}.get(type(value), "String")
        return f"{{{found[1]}:{kind}}}"

    return _NAMED.sub(bound, query), {name: value for name, value in values.items() if value is not None}
