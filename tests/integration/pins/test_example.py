"""The year of the fine-tuning image of the examples once more: by its verbs, with its file and real Git."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ci.pins.diary import append_event
from ci.pins.ledger import write_record
from tests.integration.pins.checkout import Checkout
from tests.pin_year import EVENTS, RELEASES, at
from tests.pins_desk import Desk, new_desk

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"
# On which day, and what follows the track in the branch; a version that is built again is its second.
UPGRADES = {
    "2026-03-02": "3.2.0",
    "2026-04-27": "3.3.0",
    "2026-05-06": "3.3.0-2",
    "2026-05-20": "3.4.0",
    "2026-07-03": "3.4.0-2",
    "2026-08-21": "3.6.0",
    "2026-09-15": "4.0.0",
    "2026-11-10": "4.1.0",
    "2026-12-14": "4.2.0",
}


class Year:
    """The example in a repository, from day to day."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.desk: Desk = new_desk(folder, monkeypatch)
        self.checkout = Checkout(folder)
        self.ledger = folder / "pins/fine-tuning"
        shutil.copy(EXAMPLES / "pins-fine-tuning.yaml", folder / "spyre-ci.yaml")
        shutil.copytree(EXAMPLES / "fine-tuning", folder / "fine-tuning")
        self.checkout.git("init", "--quiet", "--initial-branch=main")
        self.checkout.git("config", "user.name", "a")
        self.checkout.git("config", "user.email", "a@example.org")
        self.checkout.commit()
        self.told = 0

    def begin(self, day: str) -> None:
        """Six in the morning: what was released and told until then is in the ledger."""
        self.desk.now = at(day, 6)
        for one in RELEASES:
            if one.at <= self.desk.now:
                write_record(self.ledger, one)
        while self.told < len(EVENTS) and EVENTS[self.told].at <= self.desk.now:
            append_event(self.ledger, EVENTS[self.told])
            self.told += 1

    def decided(self) -> dict[str, Any]:
        document = json.loads(self.desk.pins("decide", "--json"))
        found: dict[str, Any] = document["tracks"]["fine-tuning"]
        return found

    def merged(self) -> str:
        """The upgrade as a branch, and merged as docs say: what was not committed of the ledger is in it."""
        branch: str = json.loads(self.desk.pins("apply", "fine-tuning", "--local", "--json"))["branch"]
        self.checkout.git("clean", "--quiet", "--force", "-d", "pins")
        self.checkout.git("checkout", "--quiet", "--", ".")
        self.checkout.git("merge", "--quiet", "--ff-only", branch)
        return branch


def test_a_year_of_verbs_and_merges_is_the_year_that_was_decided_on_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    year = Year(tmp_path / "tuning", monkeypatch)
    year.begin("2026-01-05")
    year.desk.pins("adopt", "fine-tuning", "--on", "2026-01-05T06:00")
    told = {f"{one.at:%Y-%m-%d}" for one in (*RELEASES, *EVENTS)}
    branches = {}
    for day in sorted({*told, *UPGRADES, "2026-03-01", "2026-08-12", "2026-11-09", "2026-12-13"}):
        if day <= "2026-01-05":
            continue
        year.begin(day)
        if year.decided()["action"] == "upgrade":
            branches[day] = year.merged()
            assert year.decided()["action"] != "upgrade"
    assert branches == {day: f"pins/fine-tuning-{name}" for day, name in UPGRADES.items()}
    # A commit an upgrade, the pin at its place, and nothing of the file but the version is another.
    assert year.checkout.git("rev-list", "--count", "HEAD") == str(1 + len(UPGRADES))
    before = (EXAMPLES / "fine-tuning/values.yaml").read_bytes()
    after = (year.checkout.folder / "fine-tuning/values.yaml").read_bytes()
    assert after == before.replace(b"3.1.0", b"4.2.0")
