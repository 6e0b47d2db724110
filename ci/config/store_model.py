"""The settings of the one store of results, which the history and HUD's pages read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from ci.config.section import Section


def _clickhouse_url(text: str) -> str:
    """`clickhouse://user@host:8443/database?secure=true`, or `chdb:///folder`; never with a password."""
    parts = urlsplit(text)
    # It is looked at only when it is asked for.
    if parts.netloc and parts.port == 0:
        raise ValueError("names port 0")
    if parts.scheme not in {"clickhouse", "chdb"}:
        raise ValueError("is no clickhouse:// address")
    if parts.scheme == "clickhouse" and not parts.hostname:
        raise ValueError("names no host")
    if parts.password is not None:
        raise ValueError("contains a password: give it in SPYRE_CI_CLICKHOUSE_PASSWORD")
    return text


class Store(Section):
    """The store of results."""

    path: Path = Field(default=Path("store.sqlite"), description="SQLite file, relative to the state folder")
    keep_days: int = Field(
        default=180, ge=1, le=36_500, description="after which a run and its tests leave the store"
    )
    clickhouse: Annotated[str, AfterValidator(_clickhouse_url)] | None = Field(
        default=None,
        description="ClickHouse that keeps the tests and answers, such as "
        "clickhouse://user@host:8443/hud?secure=true; its password is SPYRE_CI_CLICKHOUSE_PASSWORD, "
        "sent only where the environment gives the address; none: all is in SQLite",
    )
