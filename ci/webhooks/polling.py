"""One pass of the poller: ask GitHub for heads, start Jenkins for those that are new, note what was taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from ci import interrupts
from ci.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_USAGE, SpyreCiError
from ci.github.errors import GitHubAwayError
from ci.webhooks.asking import heads_of
from ci.webhooks.calls import Caller
from ci.webhooks.heads import BRANCHES, PULL_REQUESTS, Decision, Head, Note, decide, kept
from ci.webhooks.hubs import Hubs
from ci.webhooks.jenkins import KEY, Jenkins
from ci.webhooks.jenkins_errors import JenkinsAwayError, JenkinsDeniedError
from ci.webhooks.model import Branches, PullRequests, Repository, Webhooks
from ci.webhooks.poll_state import RepositoryState, StateFile
from ci.webhooks.secrets import check_recipient, secret


@dataclass(slots=True, kw_only=True)
class Passed:
    """What came of a pass.

    Attributes:
        started: starts that Jenkins took.
        waiting: heads that are kept for the next pass.
        errors: what went wrong, with the repository's name.
        retry_s: the longest time a host asked for; 0 where none did.
    """

    started: int = 0
    waiting: int = 0
    errors: list[tuple[str, SpyreCiError]] = field(default_factory=list)
    retry_s: float = 0.0

    @property
    def exit_code(self) -> int:
        """2 beats 3: no second try mends it."""
        codes = {error.exit_code for _, error in self.errors} | ({EXIT_INCOMPLETE} if self.waiting else set())
        return next((code for code in (EXIT_USAGE, EXIT_INCOMPLETE) if code in codes), EXIT_OK)

    @property
    def away(self) -> bool:
        """Whether somebody was away or asked for patience, so that coming back later helps."""
        return any(error.exit_code == EXIT_INCOMPLETE for _, error in self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """What is polled, and how.

    Attributes:
        found: the file.
        repositories: those of it that are polled.
        environ: holds secrets.
        clock: seconds since the epoch.
        say: takes a line for people.
        everything: whether a first pass starts what is there.
        dry_run: whether nothing is started or noted.
        hubs: makes the clients of a pass.
        timeout_s: of an exchange with Jenkins.
    """

    found: Webhooks
    repositories: tuple[Repository, ...]
    environ: Mapping[str, str]
    clock: Callable[[], float]
    say: Callable[[str], None]
    hubs: Callable[[], Hubs]
    everything: bool = False
    dry_run: bool = False
    timeout_s: float = 30


def one_pass(polling: Polling, file: StateFile) -> Passed:
    """Ask for every repository once, and start what is new; what fails stops no other repository."""
    job = _Pass(polling, file)
    with closing(job):
        for repository in polling.repositories:
            try:
                job.poll(repository)
            except SpyreCiError as error:
                job.note_error(repository, error)
    return job.passed


class _Pass:
    """The hands of a pass."""

    def __init__(self, polling: Polling, file: StateFile) -> None:
        self._polling, self._file = polling, file
        # Made anew for each pass: tokens may have been renewed, limits may be over.
        self._hubs = polling.hubs()
        self._jenkins: Jenkins | None = None
        self._stopped: SpyreCiError | None = None
        self.passed = Passed()

    def close(self) -> None:
        """Let go of the connection to Jenkins."""
        if self._jenkins is not None:
            self._jenkins.close()

    def note_error(self, repository: Repository, error: SpyreCiError) -> None:
        """Tell of a repository that could not be polled whole."""
        self._hubs.note(repository, error)
        if isinstance(error, GitHubAwayError) and error.retry_s is not None:
            self.passed.retry_s = max(self.passed.retry_s, error.retry_s)
        self.passed.errors.append((repository.name, error))

    def poll(self, repository: Repository) -> None:
        """Ask for a repository's heads, and start what is new."""
        state = self._file.state.of(repository.name)
        heads, state.pages = heads_of(self._hubs.client(repository), repository, state.pages)
        for kind, rule in _rules(repository):
            self._kind(repository, kind, rule, heads[kind], state)
        if not self._polling.dry_run:
            self._file.write()

    def _kind(
        self,
        repository: Repository,
        kind: str,
        rule: PullRequests | Branches,
        heads: Iterable[Head],
        state: RepositoryState,
    ) -> None:
        heads, now = list(heads), self._polling.clock()
        first = kind not in state.known
        decision = decide(rule, heads, state.known.get(kind), everything=self._polling.everything)
        notes = kept(state.known.get(kind, {}), {one.sha for one in heads}, now=now)
        state.known[kind] = notes
        notes |= {sha: Note(how="seen", at=now) for sha in decision.seen}
        if first and decision.seen:
            # Whoever loses the state between passes, as in a workspace that is emptied, hears it each time.
            self._say(
                repository,
                f"first pass with this state: {len(decision.seen)} heads of {kind} noted, none started",
            )
        for head in decision.refused:
            notes[head.sha] = Note(how="refused", at=now)
            self._say(repository, f"{head.name} is a stranger's and not started ({_who(head)})")
        self._start_all(repository, rule, decision, notes)

    def _start_all(
        self,
        repository: Repository,
        rule: PullRequests | Branches,
        decision: Decision,
        notes: dict[str, Note],
    ) -> None:
        for head in decision.start:
            if self._polling.dry_run:
                self._say(repository, f"{head.name}: {head.sha[:12]} would be started: {rule.job}")
            elif self._stopped is not None:
                self.passed.waiting += 1
            else:
                try:
                    self._start(repository, rule, head, notes, doubtful=head.sha in decision.doubtful)
                except SpyreCiError as error:
                    self.passed.waiting += 1
                    self.passed.errors.append((f"{repository.name}: {head.name}", error))
                    if isinstance(error, JenkinsAwayError | JenkinsDeniedError) or self._jenkins is None:
                        self._stopped = error

    def _start(
        self,
        repository: Repository,
        rule: PullRequests | Branches,
        head: Head,
        notes: dict[str, Note],
        *,
        doubtful: bool,
    ) -> None:
        jenkins, key = self._connected(), f"{repository.name}#{head.sha}"
        trigger = secret(self._polling.environ, rule.trigger, "token of the trigger") if rule.trigger else ""
        if doubtful and self._was_taken(jenkins, rule.job, key, repository, head):
            notes[head.sha] = Note(how="started", at=self._polling.clock())
            self._file.write()
            self._say(repository, f"{head.name}: {head.sha[:12]} had been started before")
            return
        # Noted before and after: whoever is killed between them asks Jenkins what came of it. An interrupt
        # waits until the answer is noted.
        with interrupts.noted() as heard:
            notes[head.sha] = Note(how="starting", at=self._polling.clock())
            self._file.write()
            where = jenkins.start(rule.job, parameters(repository, head, key), trigger=trigger)
            notes[head.sha] = Note(how="started", at=self._polling.clock())
            self._file.write()
        self.passed.started += 1
        self._say(repository, f"{head.name}: {head.sha[:12]} started: {rule.job}{where and f' ({where})'}")
        if heard:
            raise KeyboardInterrupt

    def _was_taken(self, jenkins: Jenkins, job: str, key: str, repository: Repository, head: Head) -> bool:
        """Whether Jenkins has a start whose answer was lost."""
        try:
            return jenkins.has(job, key)
        except JenkinsDeniedError as error:
            self._say(
                repository,
                f"{head.name}: whether Jenkins took it before cannot be asked, so it is started again with "
                f"the same {KEY}: {error.what}",
            )
            return False

    def _connected(self) -> Jenkins:
        if self._jenkins is None:
            to, environ = self._polling.found.jenkins, self._polling.environ
            if to is None:
                raise TypeError("a file that polls names a Jenkins")
            check_recipient(environ, to.url, "token for Jenkins")
            self._jenkins = Jenkins(
                Caller(
                    to.url,
                    user=secret(environ, to.user, "user for Jenkins"),
                    token=secret(environ, to.token, "token for Jenkins"),
                    timeout_s=self._polling.timeout_s,
                )
            )
        return self._jenkins

    def _say(self, repository: Repository, text: str) -> None:
        self._polling.say(f"{repository.name}: {text}")


def parameters(repository: Repository, head: Head, key: str) -> dict[str, str]:
    """What a job is told; only names that GitHub and git allow, which the job still takes as data.

    Args:
        repository: polled.
        head: that is new.
        key: the same whenever this start is tried again.
    """
    base, branch = (head.branch, "") if head.number is not None else ("", head.branch)
    return {
        "REPOSITORY": repository.repository,
        "COMMIT": head.sha,
        "PULL_REQUEST": "" if head.number is None else str(head.number),
        "BASE": base,
        "BRANCH": branch,
        KEY: key,
    }


def _rules(repository: Repository) -> list[tuple[str, PullRequests | Branches]]:
    poll = repository.poll
    rules = {} if poll is None else {PULL_REQUESTS: poll.pull_requests, BRANCHES: poll.branches}
    return [(kind, rule) for kind, rule in rules.items() if rule is not None]


def _who(head: Head) -> str:
    return head.association or "unknown"
