"""What tests called, in the store of results: each test's last trace on each device."""

from __future__ import annotations

import hashlib
import json
import sqlite3

from ci.core.errors import MissingInputError
from ci.report.history import History
from ci.store.identity import original, stored
from test_selection.op_map import OpMap, make_op_map

_OF_DEVICE = """
SELECT t.name, s.ops FROM op_trace AS t JOIN op_set AS s ON s.key = t.op_set
WHERE t.device = :device AND t.pytorch = :pytorch
"""
_NEWEST = "SELECT pytorch FROM op_trace WHERE device = :device ORDER BY at DESC LIMIT 1"


def keep_op_map(connection: sqlite3.Connection, op_map: OpMap, *, at: float) -> None:
    """Keep the traces of a run; those of the same tests on the same device are replaced.

    Args:
        connection: of the store, in a transaction.
        op_map: of the run.
        at: now, in seconds since the epoch.
    """
    texts = [json.dumps([op_map.ops[place] for place in places]) for places in op_map.sets]
    keys = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]
    rows = (
        (op_map.device, stored(name), op_map.pytorch, keys[place], at) for name, place in op_map.of.items()
    )
    connection.executemany("INSERT OR IGNORE INTO op_set VALUES (?, ?)", zip(keys, texts, strict=True))
    connection.executemany("INSERT OR REPLACE INTO op_trace VALUES (?, ?, ?, ?, ?)", rows)


def export_op_map(history: History, *, device: str) -> OpMap:
    """What each test called when it last ran on a device, with the torch that was traced last.

    Raises:
        MissingInputError: there is no history yet, or no run on the device was traced.
        SpyreCiError: as `History.reading` says.
    """
    with history.reading() as (_, file):
        newest = file.tuples(_NEWEST, {"device": device})
        if not newest:
            raise MissingInputError(
                f"no run on {device} has traces of the ops that tests call",
                where=history.path,
                remedy="run tests on the emulated device, and report the run",
            )
        ((pytorch,),) = newest
        rows = file.tuples(_OF_DEVICE, {"device": device, "pytorch": pytorch})
    return make_op_map(
        {original(name): json.loads(ops) for name, ops in rows}, pytorch=pytorch, device=device
    )
