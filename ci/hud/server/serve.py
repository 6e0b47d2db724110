"""Running the server in the foreground.

Meanwhile it sweeps silent jobs, cleans up uploads that were cut off, and prunes once a day.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI

from ci.core.errors import PortInUseError
from ci.core.progress import ticking
from ci.core.text import counted
from ci.hud.server.states import sweep
from ci.store.database import StoreUnavailableError
from ci.store.prune import DAY_S, give_back, prune
from ci.store.row_store import RowStore
from ci.store.store import Store
from ci.store.uploads import Uploads

STOP_S = 30.0


def serve(
    host: str,
    port: int,
    app: FastAPI,
    *,
    echo: Callable[[str], None],
    chores: AbstractContextManager[None] | None = None,
) -> None:
    """Serve until Ctrl-C; the first line says where.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one, and says which.
        app: the server.
        echo: takes lines for people.
        chores: done meanwhile.

    Raises:
        PortInUseError: it cannot listen there.
    """
    with listen(host, port) as listener:
        address, chosen = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        echo(f"HUD on http://{shown}:{chosen}/ (Ctrl-C ends it)")
        if address in {"0.0.0.0", "::"}:  # noqa: S104  # it is told, not bound
            echo("  it listens on every address: anyone who reaches this machine can read the results")
        # uvicorn ends its requests first, then hands the interrupt on.
        with chores or contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt):
            uvicorn_server(app).run(sockets=[listener])


def uvicorn_server(app: FastAPI) -> uvicorn.Server:
    """Uvicorn as it serves the application: it says nothing but errors."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            server_header=False,
            timeout_graceful_shutdown=5,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        PortInUseError: it cannot.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address, family=family, backlog=128)
    except (OSError, ValueError) as error:
        what = f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, socket.gaierror | ValueError) or error.errno == errno.EADDRNOTAVAIL:
            where, remedy = "hud.host", "give an address of this machine"
        else:
            where, remedy = "hud.port", "stop what listens there, or give another port (--port 0: a free one)"
        raise PortInUseError(what, where=where, remedy=remedy) from error
    # asyncio sets this only on sockets that name their protocol. Without it every response but a connection's
    # first waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Chores:
    """The chores of one store.

    Attributes:
        store: it.
        rows: keeps its rows of tests.
        warn: takes lines for people.
        sweep_every_s: seconds between two sweeps.
        keep_days: after which a job is pruned, once a day.
    """

    store: Store
    rows: RowStore
    warn: Callable[[str], None]
    sweep_every_s: float
    keep_days: int
    _done: dict[str, float] = field(default_factory=dict)

    def doing(self, clock: Callable[[], float]) -> AbstractContextManager[None]:
        """Do them beside a server: at the start, then as often as they are due."""
        return ticking(
            lambda: self.tick(clock()), self.sweep_every_s, at_once=True, name="hud-chores", stop_s=STOP_S
        )

    def tick(self, at: float) -> None:
        """Do what is due; a chore that fails is said and comes again with the next tick."""
        chores: dict[str, tuple[float, Callable[[float], None]]] = {
            "sweep": (self.sweep_every_s, self._sweep),
            "clean": (self.sweep_every_s, self._clean),
            "prune": (DAY_S, self._prune),
        }
        for name, (every_s, work) in chores.items():
            # A clock that was ahead once must not keep them undone until then.
            if 0 <= at - self._done.get(name, float("-inf")) < every_s:
                continue
            try:
                work(at)
            except (sqlite3.Error, StoreUnavailableError) as error:
                self.warn(f"store: {name} failed and will be retried: {error}")
            else:
                self._done[name] = at

    def _sweep(self, at: float) -> None:
        ended = sweep(self.store, at=at)
        if ended:
            self.warn(f"store: {counted(ended, 'job')} timed out, without a report for 6 hours")

    def _clean(self, at: float) -> None:
        Uploads(self.store, self.rows).clean(at=at)

    def _prune(self, at: float) -> None:
        gone = prune(self.store, self.rows, before=at - self.keep_days * DAY_S, at=at)
        if gone.jobs or gone.uploads:
            give_back(self.store)
            self.warn(f"store: {counted(gone.jobs, 'job')} older than {self.keep_days} days pruned")
