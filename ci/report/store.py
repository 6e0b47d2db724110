"""The store of results of a checkout's settings: its SQLite file, and ClickHouse where it is named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci.config import Settings
from ci.config.recipient import check_address
from ci.core.addresses import shown
from ci.core.errors import MissingInputError
from ci.report.history import History

# What reads rows takes a tenth of a second to import, which every verb would pay.
if TYPE_CHECKING:
    from ci.store.clickhouse import Clickhouse
    from ci.store.database import Database
    from ci.store.row_store import RowStore
    from ci.store.store import Store

PASSWORD_VARIABLE = "SPYRE_CI_CLICKHOUSE_PASSWORD"  # noqa: S105  # the variable's name, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A store that is open.

    Attributes:
        store: of the jobs.
        rows: keeps their tests: the store's own file, or ClickHouse.
    """

    store: Store
    rows: RowStore


@contextlib.contextmanager
def open_kept(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], None],
    there: bool = False,
    waits: bool = False,
) -> Iterator[Kept]:
    """The store of the settings, for the length of the block.

    Where ClickHouse is named it keeps the tests and answers questions; what changes in the jobs is copied
    there meanwhile, and once more at the end.

    Args:
        settings: `store.clickhouse` and the state folder.
        environ: may hold ClickHouse's password.
        warn: takes lines for people.
        there: whether it has to be there already; else it is made.
        waits: whether it is opened while ClickHouse is away, which is told and tried again.

    Raises:
        MissingInputError: it is not found.
        SpyreCiError: the store or ClickHouse cannot be used.
    """
    from ci.store.row_store import SqliteRowStore  # noqa: PLC0415
    from ci.store.store import Store  # noqa: PLC0415

    path, address = settings.store_path, settings.model.store.clickhouse
    if there and not path.is_file():
        raise MissingInputError("there is no store of results yet", where=path, remedy="report a run first")
    if address is None:
        with contextlib.closing(Store(path)) as store:
            yield Kept(store=store, rows=SqliteRowStore(store.transaction))
        return
    with contextlib.closing(_clickhouse(settings, environ, address)) as clickhouse:
        _connect(clickhouse, warn if waits else None)
        with _with_clickhouse(path, clickhouse, warn) as kept:
            yield kept


def _connect(clickhouse: Clickhouse, warn: Callable[[str], None] | None) -> None:
    from ci.store.clickhouse import WHERE, unusable  # noqa: PLC0415
    from ci.store.database import StoreUnavailableError  # noqa: PLC0415

    try:
        clickhouse.connect()
    except StoreUnavailableError as error:
        if warn is None:
            raise unusable(str(error)) from error
        warn(
            f"{WHERE} is not reached ({error}): reports are taken and wait to be copied; uploads of "
            "tests and pages get 503 until it is there"
        )


@contextlib.contextmanager
def _with_clickhouse(path: Path, clickhouse: Clickhouse, warn: Callable[[str], None]) -> Iterator[Kept]:
    from ci.store.clickhouse import ClickhouseRowStore  # noqa: PLC0415
    from ci.store.replicate import Copier, copying  # noqa: PLC0415
    from ci.store.store import Store  # noqa: PLC0415

    with (
        contextlib.closing(Store(path, clickhouse)) as store,
        copying(Copier(store, clickhouse, warn=warn)),
    ):
        yield Kept(store=store, rows=ClickhouseRowStore(clickhouse))


def history_of(settings: Settings, environ: Mapping[str, str]) -> History:
    """The store of the settings, to be asked for past runs; nothing is opened before it is asked."""
    address = settings.model.store.clickhouse
    if address is None:
        return History(settings.store_path)
    return History(settings.store_path, partial(_answers, settings, environ, address))


@contextlib.contextmanager
def _answers(settings: Settings, environ: Mapping[str, str], address: str) -> Iterator[Database]:
    with contextlib.closing(_clickhouse(settings, environ, address)) as clickhouse:
        yield clickhouse


def _clickhouse(settings: Settings, environ: Mapping[str, str], address: str) -> Clickhouse:
    from ci.store.clickhouse import Clickhouse  # noqa: PLC0415

    password = environ.get(PASSWORD_VARIABLE, "")
    if password:
        check_address(settings, "store.clickhouse", shown=shown(address), what="password")
    return Clickhouse(address, password=password)
