"""Opening the server of a checkout's settings: its store, ClickHouse where it is named, and its routes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.config import Settings
from ci.core.addresses import shown
from ci.core.errors import MissingInputError
from ci.core.secrets import checked_token, read_secret
from ci.hud.token import check_recipient, embedded_token

# The framework takes a quarter of a second, which every verb would pay; so what serves is imported late.
if TYPE_CHECKING:
    from fastapi import FastAPI

    from ci.store.clickhouse import Clickhouse
    from ci.store.row_store import RowStore
    from ci.store.store import Store

STORE_FILE = "hud.sqlite"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Kept):
    """A server that is ready to serve.

    Attributes:
        app: its routes.
    """

    app: FastAPI


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
        settings: `hud.clickhouse` and the state folder.
        environ: may hold ClickHouse's password.
        warn: takes lines for people.
        there: whether it has to be there already; else it is made.
        waits: whether it is opened while ClickHouse is away, which is told and tried again.

    Raises:
        MissingInputError: it is not there.
        SpyreCiError: the store or ClickHouse cannot be used.
    """
    from ci.store.row_store import SqliteRowStore  # noqa: PLC0415
    from ci.store.store import Store  # noqa: PLC0415

    path, address = settings.state_dir / STORE_FILE, settings.model.hud.clickhouse
    if there and not path.is_file():
        raise MissingInputError("there is no HUD store yet", where=path, remedy="report a run first")
    if address is None:
        with contextlib.closing(Store(path)) as store:
            yield Kept(store=store, rows=SqliteRowStore(store.transaction))
        return
    from ci.store.clickhouse import Clickhouse, ClickhouseRowStore  # noqa: PLC0415
    from ci.store.replicate import Copier, copying  # noqa: PLC0415

    password = environ.get(PASSWORD_VARIABLE, "")
    if password:
        check_recipient(settings, "hud.clickhouse", shown=shown(address), what="password")
    with contextlib.closing(Clickhouse(address, password=password)) as clickhouse:
        _connect(clickhouse, warn if waits else None)
        with (
            contextlib.closing(Store(path, clickhouse)) as store,
            copying(Copier(store, clickhouse, warn=warn)),
        ):
            yield Kept(store=store, rows=ClickhouseRowStore(clickhouse))


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
def open_server(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    clock: Callable[[], float],
    warn: Callable[[str], None],
) -> Iterator[Server]:
    """The server of the settings, for the length of the block.

    Args:
        settings: of the checkout.
        environ: may hold ClickHouse's password.
        clock: seconds since the epoch.
        warn: takes lines for people.

    Raises:
        SpyreCiError: the store or a file of the settings cannot be used, or ClickHouse is there and cannot.
    """
    from ci.hud.server.app import create_app  # noqa: PLC0415
    from ci.hud.server.auth import auth_of  # noqa: PLC0415

    token = own_token(settings, warn=warn)
    auth = auth_of(settings, token=token, clock=clock, warn=warn)
    repository = settings.model.report.repository
    with open_kept(settings, environ, warn=warn, waits=True) as kept:
        app = create_app(
            kept.store, token=token, repository=repository, clock=clock, auth=auth, rows=kept.rows
        )
        yield Server(store=kept.store, rows=kept.rows, app=app)


def own_token(settings: Settings, *, warn: Callable[[str], None]) -> str:
    """The write token of the settings' own server: from hud.write_token, else made in the state folder.

    Raises:
        SpyreCiError: there is no such file, or it holds no token.
    """
    file = settings.model.hud.write_token
    if file is None:
        return embedded_token(settings.state_dir, warn=warn)
    path = settings.resolve(file)
    return checked_token(read_secret(path, "token"), f"{path} (hud.write_token)")
