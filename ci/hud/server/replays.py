"""A signed request that is repeated is answered as it was, and changes nothing.

Our client signs each try anew, but by the second: a try again within one second is the very same request,
so a repetition is no mistake to refuse. What was answered is kept in the store, beside what the request
wrote: so it outlives a restart, and all processes of a store know of it.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from ci.hud.hmac_auth import WINDOW_S

# A signature may be dated ahead by the window, and holds until as much after its date.
KEPT_S = 2 * WINDOW_S


def answered(connection: sqlite3.Connection, signature: str) -> Any | None:
    """What a signed request was answered when it was taken; None where it was not, or has no signature."""
    query = "SELECT answer FROM signed_request WHERE signature = ?"
    found = connection.execute(query, (signature,)).fetchone() if signature else None
    return None if found is None else json.loads(found[0])


def note_answer(connection: sqlite3.Connection, signature: str, answer: Any, *, at: float) -> None:
    """Keep what a signed request is answered, for as long as its signature holds.

    Args:
        connection: in a transaction; the one of what the request wrote, where that is one.
        signature: of the request; empty where it has none.
        answer: JSON.
        at: seconds since the epoch.
    """
    if signature:
        connection.execute("DELETE FROM signed_request WHERE at < ?", (at - KEPT_S,))
        values = (signature, json.dumps(answer), at)
        connection.execute("INSERT OR REPLACE INTO signed_request VALUES (?, ?, ?)", values)
