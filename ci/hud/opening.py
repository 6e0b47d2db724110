"""Opening the server of a checkout's settings: its store, ClickHouse where it is named, and its routes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.config import Settings
from ci.core.secrets import checked_token, read_secret
from ci.hud.token import embedded_token
from ci.report.store import Kept, open_kept

# The framework takes a quarter of a second, which every verb would pay; so what serves is imported late.
if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Kept):
    """A server that is ready to serve.

    Attributes:
        app: its routes.
    """

    app: FastAPI


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
    with open_kept(settings, environ, warn=warn, waits=True) as kept:
        app = create_app(kept.store, kept.rows, auth, clock)
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
