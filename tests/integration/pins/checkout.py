"""A real repository with a pin and its ledger, as people have it checked out, and its remote."""

from __future__ import annotations

from pathlib import Path

from tests.repositories import Repository


class Checkout(Repository):
    """A checkout of a remote named origin, which is beside it."""

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    @property
    def state(self) -> tuple[str, ...]:
        """What nobody but the user may change: files, index and what is checked out."""
        asked = ("status", "--porcelain", "--untracked-files=all"), ("ls-files", "--stage"), ("diff",)
        return (*(self.git(*words) for words in asked), (self.folder / ".git/HEAD").read_text())

    def tip(self, branch: str) -> str:
        """The commit of a branch at the remote; empty where it is not found."""
        return self.git("ls-remote", "origin", f"refs/heads/{branch}").partition("\t")[0]


def new_checkout(folder: Path) -> Checkout:
    """Commit what is in a folder, and make a remote of it."""
    made = Checkout(folder)
    made.commit()
    origin = folder.parent / "origin"
    made.git("clone", "--quiet", "--bare", str(folder), str(origin))
    made.git("remote", "add", "origin", origin.as_uri())
    return made


def fresh(checkout: Checkout, name: str) -> Checkout:
    """As a CI checks it out."""
    folder = checkout.folder.parent / name
    checkout.git("clone", "--quiet", "--depth=1", (checkout.folder.parent / "origin").as_uri(), str(folder))
    return Checkout(folder)
