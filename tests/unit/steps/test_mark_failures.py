"""Marks as a step: which quarantine file, and what is done without one that can be read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.core.errors import MissingInputError, SettingsError
from ci.record.events import End, ShardStart, Start
from ci.record.journal_line import line_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.reconcile import Account
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.mark_failures import check_quarantine, mark_step, quarantine_file
from test_selection.plan import Group, Plan, Shard

ENTRY = (
    "quarantine:\n- {test: 'a.py::x', reason: r, issue: 'https://e.test/1', owner: o, expires: 1970-01-02}\n"
)
PLAN = Plan(
    fingerprint="f", bound_s=1, makespan_s=1, binds="cards",
    shards=(Shard(index=0, expected_s=1, groups=(Group(file="a.py", ids=("a.py::x",)),)),),
)  # fmt: skip
ACCOUNT = Account(results=(Result(id="a.py::x", verdict=Verdict.FAILED, attempts=1),), expected_s={0: 1.0})


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


def context(tmp_path: Path, said: io.StringIO, **flags: object) -> Context:
    return Context(
        settings=load_settings(path=None, environ={}, flags=flags, cwd=tmp_path), environ={},
        clock=lambda: 0.0, monotonic=lambda: 0.0, console=Console(file=said, width=200), cores=1,
    )  # fmt: skip


def test_the_file_is_the_one_named_or_the_one_beside_the_settings(tmp_path: Path, said: io.StringIO) -> None:
    assert quarantine_file(context(tmp_path, said)) is None
    (tmp_path / "quarantine.yaml").write_text("")
    assert quarantine_file(context(tmp_path, said)) == tmp_path / "quarantine.yaml"
    named = context(tmp_path, said, **{"run.quarantine": "other.yaml"})
    assert quarantine_file(named) == tmp_path / "other.yaml"
    with pytest.raises(MissingInputError):
        check_quarantine(named)


def test_the_day_the_run_began_decides_whenever_it_is_reported(tmp_path: Path, said: io.StringIO) -> None:
    (tmp_path / "quarantine.yaml").write_text(ENTRY)
    folder = RunFolder(path=tmp_path / "run")
    for began_at, forgiven in ((0.0, 1), (86_400.0, 1), (2 * 86_400.0, 0)):
        made = mark_step(context(tmp_path, said), ACCOUNT, PLAN, folder, began_at=began_at)
        assert made.failures.forgiven == forgiven


def test_a_file_that_broke_since_the_run_began_costs_the_quarantine_and_not_the_account(
    tmp_path: Path, said: io.StringIO
) -> None:
    (tmp_path / "quarantine.yaml").write_text("quarantine: 3\n")
    with pytest.raises(SettingsError):
        check_quarantine(context(tmp_path, said))
    made = mark_step(context(tmp_path, said), ACCOUNT, PLAN, RunFolder(path=tmp_path), began_at=0.0)
    assert made.results == ACCOUNT.results
    assert made.quarantine is not None
    assert "quarantine is 3, not a list" in made.quarantine.error
    assert "quarantine: not read, so nothing is quarantined" in said.getvalue()


def test_a_broken_catalog_leaves_entries_unchecked(tmp_path: Path, said: io.StringIO) -> None:
    (tmp_path / "quarantine.yaml").write_text(ENTRY.replace("a.py::x", "a.py::gone"))
    folder = RunFolder(path=tmp_path / "run")
    folder.path.mkdir()
    folder.catalog.write_bytes(b"no catalog")
    made = mark_step(context(tmp_path, said), ACCOUNT, PLAN, folder, began_at=0.0)
    assert made.quarantine is not None
    assert [one.state for one in made.quarantine.entries] == ["idle"]
    assert "entries are not looked up in the catalog" in said.getvalue()


def test_control_journals_mark_failures(tmp_path: Path, said: io.StringIO) -> None:
    folder = RunFolder(path=tmp_path)
    (tmp_path / "control" / "journal").mkdir(parents=True)
    told = [
        ShardStart(t=2, fingerprint="f"),
        Start(t=2, id="a.py::x"),
        End(t=3, id="a.py::x", outcome="failed", message="there too"),
    ]
    (tmp_path / "control" / "journal" / "0-1.jsonl").write_bytes(b"torn\n".join(map(line_of, told)))
    made = mark_step(context(tmp_path, said), ACCOUNT, PLAN, folder, began_at=0.0)
    assert (made.control, [one.upstream for one in made.results]) == ("cpu", [True])
