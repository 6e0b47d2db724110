"""`reused.json` of a run folder: that its results are those of another run, and of which."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ci.core.text import one_line
from test_selection.files import convert, read_json, write_json

FILE, KIND = "reused.json", "reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused:
    """Where results were taken from.

    Attributes:
        repository: owner/name.
        run_id: of the CI's run that came to them.
        attempt: of that run.
        sha: the pull request's commit that it was about.
        pull_request: the pull request.
        url: page of that run.
        tree: what was tested, as Git names its content.
    """

    repository: str
    run_id: int
    attempt: int
    sha: str
    pull_request: int
    url: str
    tree: str

    def said(self) -> str:
        """A sentence for every report."""
        which = f"run {self.run_id}, attempt {self.attempt}, of pull request {self.pull_request} ({self.url})"
        same = f"the same tree {self.tree[:12]} with the same tests and image"
        return one_line(f"nothing ran here: these are the results of {which}, which tested {same}", 500)


def write_reused(run_dir: Path, reused: Reused) -> None:
    """Write `reused.json` of a run folder."""
    write_json(run_dir / FILE, KIND, asdict(reused))


def read_reused(run_dir: Path) -> Reused | None:
    """What `reused.json` says; None where the run's results are its own.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    path = run_dir / FILE
    if not path.is_file():
        return None
    remedy = "remove it and the journals beside it, and run the tests"
    return convert(read_json(path, KIND), Reused, where=path, remedy=remedy)
