"""The poller: ask GitHub for heads, start Jenkins for those that are new, note what was taken.

What did not change costs nothing of GitHub's rate limit.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from ci.core import interrupts
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_USAGE, SpyreCiError
from ci.core.github.answers import content_of
from ci.core.github.client import PER_PAGE, Client, in_repository
from ci.core.github.errors import GitHubAwayError
from ci.jenkins.errors import JenkinsAwayError, JenkinsDeniedError
from ci.webhooks.heads import (
    BRANCHES,
    PULL_REQUESTS,
    Decision,
    Head,
    Note,
    branch_of,
    decide,
    kept,
    prefixes,
    pull_request_of,
)
from ci.webhooks.hub import Hubs
from ci.webhooks.model import Branches, Poll, PullRequests, Repository, Webhooks
from ci.webhooks.poll_state import Page, RepositoryState, StateFile
from ci.webhooks.starting import Starter

NOT_MODIFIED = 304
MAX_PAGES = 100
# A tenth more or less, so that many pollers do not come at the same moment.
JITTER = 0.1
LONGEST_S = 3600.0
MAX_DOUBLINGS = 6


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
        self._starter = Starter(polling.found, polling.environ, write=file.write, timeout_s=polling.timeout_s)
        self._stopped: SpyreCiError | None = None
        self.passed = Passed()

    def close(self) -> None:
        """Let go of the connection to Jenkins."""
        self._starter.close()

    def note_error(self, repository: Repository, error: SpyreCiError) -> None:
        """Tell of a repository that could not be polled whole."""
        if isinstance(error, GitHubAwayError) and error.retry_s is not None:
            self.passed.retry_s = max(self.passed.retry_s, error.retry_s)
        self.passed.errors.append((repository.name, self._hubs.told(repository, error)))

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
        heads = list(heads)
        first = kind not in state.known
        decision = decide(rule, heads, state.known.get(kind), everything=self._polling.everything)
        notes = kept(state.known.get(kind, {}), {one.sha for one in heads}, now=self._polling.clock())
        state.known[kind] = notes
        notes |= {sha: Note(how="seen") for sha in decision.seen}
        if first and decision.seen:
            # Whoever loses the state between passes, as in a workspace that is emptied, hears it each time.
            noted = f"{kind.replace('_', ' ')} noted that are there ({len(decision.seen)}), none started"
            self._say(repository, f"first pass with this state: {noted}")
        for head in decision.refused:
            notes[head.sha] = Note(how="refused")
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
                self._start(repository, rule, head, notes, doubtful=head.sha in decision.doubtful)

    def _start(
        self,
        repository: Repository,
        rule: PullRequests | Branches,
        head: Head,
        notes: dict[str, Note],
        *,
        doubtful: bool,
    ) -> None:
        # An interrupt waits until Jenkins' answer is noted, and is then what it was.
        with interrupts.noted() as heard:
            try:
                started = self._starter.start(repository, rule, head, notes, doubtful=doubtful)
            except SpyreCiError as error:
                self.passed.waiting += 1
                self.passed.errors.append((f"{repository.name}: {head.name}", error))
                # What is away for one head is away for all.
                if isinstance(error, JenkinsAwayError | JenkinsDeniedError) or not self._starter.connected:
                    self._stopped = error
            else:
                self.passed.started += started.now
                self._say(repository, f"{head.name}: {started.said}")
        if heard:
            signal.raise_signal(heard[0])

    def _say(self, repository: Repository, text: str) -> None:
        self._polling.say(f"{repository.name}: {text}")


def _rules(repository: Repository) -> list[tuple[str, PullRequests | Branches]]:
    poll = repository.poll
    rules = {} if poll is None else {PULL_REQUESTS: poll.pull_requests, BRANCHES: poll.branches}
    return [(kind, rule) for kind, rule in rules.items() if rule is not None]


def _who(head: Head) -> str:
    return head.association or "unknown"


def heads_of(
    client: Client, repository: Repository, pages: Mapping[str, Page]
) -> tuple[dict[str, list[Head]], dict[str, Page]]:
    """The heads of each kind that is polled, and the pages to keep for the next pass.

    A head that moves from a page to one before it while we read is found in the next pass: the first page
    has another ETag then.

    Args:
        client: of its host.
        repository: polled.
        pages: of the last pass.

    Raises:
        GitHubError: not all of them could be asked for.
    """
    poll = repository.poll or Poll.model_construct()
    asking = _Asking(client, pages)
    found: dict[str, list[Head]] = {}
    if poll.pull_requests is not None:
        query: dict[str, str | int] = {"state": "open", "sort": "created", "direction": "asc"}
        found[PULL_REQUESTS] = asking.all_of(
            in_repository(repository.repository, "pulls"),
            query,
            lambda row: pull_request_of(row, repository.repository),
        )
    if poll.branches is not None:
        found[BRANCHES] = _branches(asking, repository.repository, poll.branches)
    return found, asking.kept


def _branches(asking: _Asking, repository: str, rule: Branches) -> list[Head]:
    heads: list[Head] = []
    for begin in prefixes(rule.names):
        path = in_repository(repository, "git", "matching-refs", "heads", *([begin] if begin else []))
        heads += asking.all_of(path, {}, branch_of)
    return heads


class _Asking:
    """Reads lists, with what an earlier pass had of them."""

    def __init__(self, client: Client, pages: Mapping[str, Page]) -> None:
        self._client, self._pages = client, pages
        self.kept: dict[str, Page] = {}

    def all_of(
        self, path: str, query: Mapping[str, str | int], read: Callable[[Mapping[str, Any]], Head]
    ) -> list[Head]:
        """Every page of a list."""
        heads: list[Head] = []
        for number in range(1, MAX_PAGES + 1):
            page = self._page(path, {**query, "per_page": PER_PAGE, "page": number}, read)
            heads += page.heads
            if not page.more:
                return heads
        raise GitHubAwayError(
            f"the list {path} has more than {MAX_PAGES} pages", remedy="name fewer branches under `poll`"
        )

    def _page(
        self, path: str, query: Mapping[str, str | int], read: Callable[[Mapping[str, Any]], Head]
    ) -> Page:
        key = f"{path} {json.dumps(query, sort_keys=True)}"
        before = self._pages.get(key)
        # A last page that is full says the same when another follows it, so it is asked for anew.
        same = before is not None and (before.more or len(before.heads) != PER_PAGE)
        reply = self._client.changed(path, query, etag=before.etag if before is not None and same else "")
        if reply.status == NOT_MODIFIED and before is not None:
            self.kept[key] = before
            return before
        rows = content_of(reply, what=f"GET {path}")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise GitHubAwayError(
                f"the answer to GET {path} is no list", remedy="check the address of the API: `hosts.….api`"
            )
        page = Page(
            etag=reply.headers.get("etag", ""), more=reply.has_next, heads=tuple(read(row) for row in rows)
        )
        self.kept[key] = page
        return page


def pause_s(every_s: float, passed: Passed, *, failures: int, chance: float) -> float:
    """Seconds until the next pass.

    Args:
        every_s: what was asked for.
        passed: what came of the last pass.
        failures: passes in a row at which somebody was away; each doubles the time, up to an hour.
        chance: a number in [0, 1).
    """
    longest = max(LONGEST_S, every_s)
    wait_s = min(every_s * 2.0 ** min(failures, MAX_DOUBLINGS), longest)
    # Not before a limit is over; from then on as before.
    return max(wait_s, passed.retry_s) * (1 + JITTER * (2 * chance - 1)) + JITTER * passed.retry_s


def repeat(
    make: Callable[[], Passed],
    *,
    every_s: float,
    sleep: Callable[[float], object],
    rng: Callable[[], float],
    tell: Callable[[Passed, float], None],
) -> None:
    """Make passes until an interrupt ends it.

    Args:
        make: a pass.
        every_s: seconds from the end of one to the next.
        sleep: waits so many seconds.
        rng: a number in [0, 1).
        tell: is told of each pass, and in how many seconds the next one is.

    Raises:
        KeyboardInterrupt: always, at some time.
    """
    failures = 0
    while True:
        passed = make()
        failures = failures + 1 if passed.away else 0
        wait_s = pause_s(every_s, passed, failures=failures, chance=rng())
        tell(passed, wait_s)
        sleep(wait_s)
