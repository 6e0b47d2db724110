"""What of a release is published, while it is being published: for people, errors and the record; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED, SettingsError, SpyreCiError
from ci.package.artifacts import Artifact

State = Literal["absent", "there", "uploaded"]


class UnfinishedError(SpyreCiError):
    """An upload that did not come to its end; the same command continues."""

    exit_code = EXIT_INCOMPLETE


class UploadRefusedError(SpyreCiError):
    """An index that does not take a file, whoever uploads it."""

    exit_code = EXIT_TEST_FAILED


@dataclass(slots=True, kw_only=True)
class Account:
    """Files of a release, each with what became of it.

    Attributes:
        artifacts: all of them, in the order they are uploaded in.
        states: by file name: there before, uploaded by this command, or absent.
        unsure: files an upload was begun of, and the index could not be asked since, or does not show them
            yet.
        proved: whether the index gave every file with its bytes, and what could be was installed.
    """

    artifacts: Sequence[Artifact]
    states: dict[str, State] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    proved: bool = False

    def state(self, one: Artifact) -> State:
        """What became of a file."""
        return self.states.get(one.filename, "absent")

    def names(self, *states: State) -> list[str]:
        """Files in a state."""
        return [one.filename for one in self.artifacts if self.state(one) in states]

    @property
    def complete(self) -> bool:
        """Whether the index has every file."""
        return not self.names("absent")

    @property
    def line(self) -> str:
        """Which files are published and which are not."""
        published = self.names("there", "uploaded")
        doubtful = [name for name in self.names("absent") if name in self.unsure]
        missing = [name for name in self.names("absent") if name not in self.unsure]
        if not published and not doubtful:
            return "nothing was published"
        parts = [f"{len(published)} of {len(self.artifacts)} files {_is(published)} published"]
        parts[0] += f": {', '.join(published)}" if published else ""
        if missing:
            parts.append(f"not published: {', '.join(missing)}")
        if doubtful:
            parts.append(f"it is not known whether {', '.join(doubtful)} {_is(doubtful)}")
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """For machines, and the record."""
        states = {one.filename: self._known(one) for one in self.artifacts}
        return {
            # Twine's word and a page are not what users get.
            "complete": self.complete and self.proved,
            "proved": self.proved,
            "files": [{**one.as_json(), "state": states[one.filename]} for one in self.artifacts],
            "state": {
                state: [name for name, known in states.items() if known == state]
                for state in ("uploaded", "there", "absent", "unsure")
            },
        }

    def _known(self, one: Artifact) -> str:
        state = self.state(one)
        return "unsure" if state == "absent" and one.filename in self.unsure else state


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What twine said of one file.

    Attributes:
        code: its exit code; None where it did not end.
        status: the index's HTTP status; None where there was none.
        untrusted: whether it found nothing to log in with, or the index mints nothing for this job.
        text: its last lines, for people.
    """

    code: int | None
    status: int | None = None
    untrusted: bool = False
    text: str = ""


_LOGIN = frozenset({401, 403})
_CLIENT = range(400, 500)
# Not now: a later try may be taken.
_LATER = frozenset({408, 425, 429})
_SPENT = ("already been used", "already exist", "previously used", "conflict")


def refused(said: Said, one: Artifact, account: Account, *, index: str, upload: str) -> SpyreCiError:
    """The error for a file that twine could not upload and the index does not have.

    Args:
        said: by twine.
        one: the file.
        account: of the release.
        index: its name.
        upload: where twine uploaded to.
    """
    where = f"{index} ({upload})"
    what = f"{one.filename} was not taken{f' ({said.status})' if said.status else ''}; {account.line}"
    told = f"{what}{said.text and chr(10)}{said.text}"
    if said.untrusted or said.status in _LOGIN:
        return SettingsError(
            told,
            where=where,
            remedy="check the token, its user, and that they may upload this project (in a GitHub job "
            "without a token: that it is a trusted publisher there); then the same command continues",
        )
    if said.status in _CLIENT and said.status not in _LATER:
        spent = any(words in said.text.lower() for words in _SPENT)
        return UploadRefusedError(
            told,
            where=where,
            remedy="the name was used before and was deleted: raise the version"
            if spent
            else "mend what the index says; spyre-ci package verify finds most of it",
        )
    return UnfinishedError(told, where=where, remedy="the same command continues when the index is well")


def _is(names: Sequence[object]) -> str:
    return "is" if len(names) == 1 else "are"


def note(
    account: Account, *, about: Mapping[str, Any], installed: Sequence[str], when: str
) -> dict[str, Any]:
    """What is noted of a release on an index.

    Args:
        account: of it.
        about: index, project, version and commit.
        installed: files that were installed from the index and imported.
        when: the moment, in UTC.
    """
    return {**about, "when": when, **account.as_json(), "installed": list(installed)}
