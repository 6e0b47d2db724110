"""Starting a Jenkins job for one head: noted before and after, and never twice as far as Jenkins can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ci.jenkins.client import KEY, Jenkins, connect
from ci.jenkins.errors import JenkinsDeniedError
from ci.webhooks.heads import Head, Note
from ci.webhooks.model import Repository, Start, Webhooks


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What became of a start: whether Jenkins took it now, and that in words."""

    now: bool
    said: str


class Starter:
    """Starts jobs of the Jenkins that a file names, which is connected to when the first is started.

    Args:
        found: the file.
        environ: holds secrets.
        write: writes what is known, whole or not at all.
        timeout_s: of an exchange with Jenkins.
    """

    def __init__(
        self,
        found: Webhooks,
        environ: Mapping[str, str],
        *,
        write: Callable[[], None],
        timeout_s: float,
    ) -> None:
        self._found, self._environ = found, environ
        self._write, self._timeout_s = write, timeout_s
        self._jenkins: Jenkins | None = None

    @property
    def connected(self) -> bool:
        """Whether there is all that is needed to talk to Jenkins."""
        return self._jenkins is not None

    def close(self) -> None:
        """Let go of the connection."""
        if self._jenkins is not None:
            self._jenkins.close()

    def start(
        self, repository: Repository, rule: Start, head: Head, notes: dict[str, Note], *, doubtful: bool
    ) -> Started:
        """Start the job of a rule for a head.

        Noted before and after: whoever is killed between them asks Jenkins next time what came of it.

        Args:
            repository: polled.
            rule: names the job.
            head: that is new.
            notes: what is known of its kind.
            doubtful: whether Jenkins may have taken it before.

        Raises:
            JenkinsError: it is not known to have been taken.
            SettingsError: there are no secrets to show, or none are to be sent there.
            MissingInputError: a file with one is not there.
        """
        jenkins, key, short = self._connected(), f"{repository.name}#{head.sha}", head.sha[:12]
        said = ""
        if doubtful:
            try:
                if jenkins.started_before(rule.job, key):
                    self._note(notes, head, "started")
                    return Started(now=False, said=f"{short} had been started before")
            except JenkinsDeniedError as error:
                said = (
                    f"; whether Jenkins took it before cannot be asked, so it was started again with the "
                    f"same {KEY}: {error.what}"
                )
        self._note(notes, head, "starting")
        where = jenkins.start(rule.job, parameters(repository, head, key))
        self._note(notes, head, "started")
        return Started(now=True, said=f"{short} started: {rule.job}{where and f' ({where})'}{said}")

    def _note(self, notes: dict[str, Note], head: Head, how: str) -> None:
        notes[head.sha] = Note.model_validate({"how": how})
        self._write()

    def _connected(self) -> Jenkins:
        if self._jenkins is None:
            to, environ = self._found.jenkins, self._environ
            if to is None:
                raise TypeError("a file that polls names a Jenkins")
            self._jenkins = connect(environ, to.url, user=to.user, token=to.token, timeout_s=self._timeout_s)
        return self._jenkins


def parameters(repository: Repository, head: Head, key: str) -> dict[str, str]:
    """What a job is told; only names that GitHub and git allow, which the job still takes as data.

    Args:
        repository: polled.
        head: that is new.
        key: the same whenever this start is tried again.
    """
    return {
        "REPOSITORY": repository.repository,
        "HEAD_SHA": head.sha,
        "PULL_REQUEST": "" if head.number is None else str(head.number),
        "BRANCH": head.branch,
        KEY: key,
    }
