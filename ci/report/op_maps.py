"""What tests called, in the store of results: each test's last trace on each device, with each torch."""

from __future__ import annotations

import json
import sqlite3

from ci.core.errors import MissingInputError
from ci.report.history import DAY_S, History
from ci.store.identity import original, stored
from test_selection.op_map import OpMap, is_function, make_op_map

_KEEP = "INSERT OR REPLACE INTO op_trace VALUES (?, ?, ?, ?, ?, ?)"
_OLD = "DELETE FROM op_trace WHERE at < ?"
_OF_DEVICE = "SELECT name, ops FROM op_trace WHERE device = :device AND pytorch = :pytorch"
_NEWEST = "SELECT pytorch FROM op_trace WHERE device = :device ORDER BY at DESC LIMIT 1"
# Within it every test has run on a device that is in use.
KEPT_S = 90 * DAY_S


def keep_op_map(connection: sqlite3.Connection, op_map: OpMap, *, at: float) -> None:
    """Keep the traces of a run, in place of those of the same tests on the same device with the same torch.

    Functions are noted in few runs: those of an earlier one stay. What is older than `KEPT_S` is removed.

    Args:
        connection: of the store, in a transaction.
        op_map: of the run.
        at: now, in seconds since the epoch.
    """
    of_run = op_map.device, op_map.pytorch
    rows = (
        (*of_run, stored(name), functions, json.dumps(calls), at)
        for name, place in op_map.of.items()
        for functions in (False, True)
        if (calls := [op for op in op_map.calls(place) if is_function(op) is functions])
    )
    connection.executemany(_KEEP, rows)
    connection.execute(_OLD, (at - KEPT_S,))


def export_op_map(history: History, *, device: str, pytorch: str | None = None) -> OpMap:
    """What each test called when it last ran on a device.

    Args:
        history: of past runs.
        device: that the tests ran on.
        pytorch: version of torch; None: the one that was traced last.

    Raises:
        MissingInputError: there is no history yet, or no such run on the device was traced.
        SpyreCiError: as `History.reading` says.
    """
    calls: dict[str, list[str]] = {}
    with history.reading() as (_, file):
        newest = [(pytorch,)] if pytorch else file.tuples(_NEWEST, {"device": device})
        wanted = {"device": device, "pytorch": newest[0][0] if newest else ""}
        for name, ops in file.tuples(_OF_DEVICE, wanted):
            calls.setdefault(original(name), []).extend(json.loads(ops))
    if not calls:
        raise MissingInputError(
            f"no run on {device} has traces of the ops that tests call",
            where=history.path,
            remedy="run tests on the emulated device, and report the run",
        )
    return make_op_map(calls, pytorch=wanted["pytorch"], device=device)
