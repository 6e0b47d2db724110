"""A real repository with a pin, its ledger and its events, as people have it checked out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ci.config.pins_model import PinPlace
from ci.pins.change import Change
from ci.pins.diary import append_event
from ci.pins.events import Requested, Upgraded
from tests.repositories import commit, git

NOW = datetime(2026, 11, 23, 8, tzinfo=UTC)
PIN = "# what runs\nvariants:\n  pinned:\n    version: '2.9' # see pins/\n"
SHA = "b" * 64
TEXT = "# Checklist\n\n- [ ] it is done\n"


@dataclass(frozen=True)
class Checkout:
    """It has a branch main with a pin at 2.9, in `stack.yaml`."""

    folder: Path

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def commit(self) -> str:
        return commit(self.folder)

    @property
    def state(self) -> tuple[str, str, str, str]:
        """What nobody but the user may change: files, index and what is checked out."""
        return (
            self.git("status", "--porcelain", "--untracked-files=all"),
            self.git("ls-files", "--stage"),
            self.git("diff"),
            (self.folder / ".git/HEAD").read_text(),
        )


def new_checkout(folder: Path) -> Checkout:
    folder.mkdir(parents=True)
    made = Checkout(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    for key, value in {"user.name": "a", "user.email": "a@example.org"}.items():
        made.git("config", key, value)
    made.write("stack.yaml", PIN)
    made.write("README.md", "# demo\n")
    made.commit()
    ledger = folder / "pins/torch"
    append_event(
        ledger, Upgraded(at=datetime(2026, 9, 1, tzinfo=UTC), version="2.9", sha="a" * 64, reasons=())
    )
    append_event(ledger, Requested(at=NOW, id=1, reason="bug", text="it is wrong"))
    return made


def change_in(folder: Path, version: str = "2.10", sha: str = SHA, *, file: str = "stack.yaml") -> Change:
    event = Upgraded(
        at=NOW, before=f"2.9@{'a' * 64}", version=version, sha=sha, reasons=("a bug",), answers=(1,)
    )
    pin = PinPlace(file=folder / file, key="variants.pinned.version")
    return Change(track="torch", folder=folder / "pins/torch", pin=pin, event=event, text=TEXT)
