"""The page in a real browser: hostile text stays text, and the page fits a phone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ci.core.commands import run_command
from ci.record import events
from ci.record.identity import RunIdentity
from ci.record.journal import JournalWriter, journal_path, read_journals
from ci.report.reconcile import reconcile
from ci.report.write import write_report
from test_selection.plan import Group, Plan, Shard, fingerprint
from test_selection.selection import Selection

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
ATTACKS = [
    "a.py::T::<script>document.title='owned'</script>",
    "a.py::T::<img src=x onerror=\"document.title='owned'\">",
    "a.py::T::</title></style></code></pre><script>document.title='owned'</script>",
    "a.py::T::" + "long" * 200,
]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page made from a journal on disk, by the same calls the command line makes."""
    shards = (Shard(index=0, expected_s=1.0, groups=(Group(file="a.py", ids=tuple(ATTACKS)),)),)
    plan = Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="cards", shards=shards)
    moments = iter(range(1_770_000_000, 1_770_001_000))
    journal = JournalWriter(journal_path(tmp_path, 0, 1), clock=lambda: float(next(moments)))
    journal.write(events.ShardStart(shard=0, attempt=1, card="spyre:0", fingerprint=plan.fingerprint))
    for name in ATTACKS:
        journal.write(events.Start(id=name))
        journal.write(
            events.End(id=name, outcome="failed", seconds=1.0, message=name, detail=f"Traceback\n{name}")
        )
    journal.write(events.ShardEnd(status="done"))
    journal.close()
    identity = RunIdentity(
        run="r",
        run_id=1,
        run_attempt=1,
        device="cpu",
        pytorch_version="2",
        pytorch_sha="0",
        stage=1,
        percent=5.0,
        started_at=1_770_000_000.0,
    )
    selection = Selection(stage=1, percent=5.0, ids=ATTACKS, in_scope=80)
    write_report(
        tmp_path, account=reconcile(plan, read_journals(tmp_path)), identity=identity, selection=selection
    )
    return tmp_path / "report.html"


def browse(page: Path, profile: Path, *arguments: str) -> str:
    assert BROWSER is not None
    return run_command(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--no-first-run", f"--user-data-dir={profile}"),
            *arguments,
            page.as_uri(),
        ],
        timeout_s=120,
    )


@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
def test_hostile_text_runs_nothing(page: Path, tmp_path: Path) -> None:
    tree = browse(page, tmp_path / "profile", "--dump-dom")
    assert re.search(r"<title>(.*?)</title>", tree, re.DOTALL).group(1) == "r: exit 1"  # type: ignore[union-attr]  # a page without a title fails here too
    assert tree.count("document.title='owned'") >= len(ATTACKS) - 1
    assert "<script" not in tree
    assert "<img" not in tree


@pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
def test_nothing_is_wider_than_the_page(page: Path, tmp_path: Path) -> None:
    # The page's own policy would stop this probe, so it measures a copy without the policy.
    probe = tmp_path / "probe.html"
    script = "<script>document.title='wide:'+(document.documentElement.scrollWidth-innerWidth)</script>"
    text = page.read_text(encoding="utf-8").replace("Content-Security-Policy", "no-policy")
    probe.write_text(text.replace("</body>", f"{script}</body>"), encoding="utf-8")
    tree = browse(probe, tmp_path / "profile", "--window-size=500,900", "--dump-dom")
    found = re.search(r"<title>wide:(-?\d+)</title>", tree)
    assert found is not None
    assert int(found[1]) <= 0
