"""The store's file: whose it must be, and its tables in both engines."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, SpyreCiError
from ci.store.schema import RESULTS, VERSION
from ci.store.store import Store


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", f"version {VERSION + 1}, not {VERSION}"),
        ("CREATE TABLE others (a)", "a database of another program"),
        (None, "store of results"),
    ],
)
def test_a_file_that_is_none_of_this_version_is_refused(tmp_path: Path, made: str | None, said: str) -> None:
    path = tmp_path / "results.sqlite"
    if made is None:
        path.write_text("not a database, but long enough to be read as one" * 100)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(made)
    with pytest.raises(BadFileError, match=said) as caught:
        Store(path)
    assert caught.value.remedy == "set `store.path` to another file, or move this one away"


def test_a_store_is_opened_again_with_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "hud.sqlite"
    store = Store(path)
    store.put({"dynamoKey": "k", "run_id": "7"}, {"lane": "nightly"}, at=0.5)
    store.close()
    again = Store(path)
    (row,) = again.database.rows(
        "SELECT run_id, run_attempt, event_type, _inserted_at FROM crcr_workflow_job"
    )
    again.close()
    assert tuple(row.values()) == ("7", 1, "pull_request", "1970-01-01T00:00:00.500Z")


def test_a_store_that_cannot_be_opened_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(SpyreCiError, match="cannot be used: unable to open") as caught:
        Store(tmp_path)
    assert caught.value.where == str(tmp_path)


def test_both_engines_have_the_same_tables() -> None:
    for table in RESULTS:
        made = table.clickhouse()
        assert all(f"{name} {column.clickhouse}" in made for name, column in table.columns.items())
        assert made.endswith(f"ORDER BY ({', '.join(table.order or table.key)})")
