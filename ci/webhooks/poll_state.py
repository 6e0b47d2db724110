"""What a poller knows from one pass to the next: GitHub's answers with their ETags, and what was started.

One file, `spyre-ci/polls/1`, written whole or not at all; one poller works with it at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ci.core.errors import EXIT_INCOMPLETE, BadFileError, SpyreCiError
from ci.core.locks import alone
from ci.webhooks.heads import Head, Note
from test_selection.files import read_json, write_json

KIND = "polls"


class PollerBusyError(SpyreCiError):
    """Another poller is at work with the same state; two would start everything twice."""

    exit_code = EXIT_INCOMPLETE


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Page(_Table):
    """A page of a list, as GitHub gave it last; what it holds is used again where GitHub says 304."""

    etag: str
    more: bool
    heads: tuple[Head, ...]


class RepositoryState(_Table):
    """What is known of a repository.

    Attributes:
        pages: by what was asked for.
        known: by kind and commit; a kind that is not there was never asked for.
    """

    pages: dict[str, Page] = {}
    known: dict[str, dict[str, Note]] = {}


class State(_Table):
    """What is known of all repositories, by name."""

    repositories: dict[str, RepositoryState] = {}

    def of(self, name: str) -> RepositoryState:
        """What is known of a repository."""
        return self.repositories.setdefault(name, RepositoryState())


class StateFile:
    """The file, written only where something changed.

    Args:
        path: of the file; it need not be there.

    Raises:
        BadFileError: it is there and holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.state = _read(path) if path.exists() else State()
        self._written = self.state.model_dump_json() if path.exists() else ""

    def write(self) -> None:
        """Write the state."""
        text = self.state.model_dump_json()
        if text != self._written:
            write_json(self._path, KIND, self.state.model_dump(mode="json"))
            self._written = text


def _read(path: Path) -> State:
    content = read_json(path, KIND)
    content.pop("schema")
    try:
        return State.model_validate(content)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise BadFileError(
            f"is no state of a poller: {place}: {error.errors()[0]['msg']}",
            where=path,
            remedy="put a copy back, or remove it: the next pass notes what is there and starts none of it "
            "without --all",
        ) from None


def working_alone(path: Path) -> AbstractContextManager[None]:
    """Be the only poller with a state; the kernel lets go of it when the process ends, however that ends.

    Raises:
        PollerBusyError: there is another.
    """
    busy = PollerBusyError(
        "another poller is at work with this state", where=path, remedy="wait until it ends, or end it"
    )
    return alone(path.with_name(f".{path.name}.lock"), busy)
