"""Comparing webhooks of many repositories with a file, and making them so; one that fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE, SettingsError, SpyreCiError
from ci.core.secrets import secret
from ci.webhooks.difference import Change, Seen, difference
from ci.webhooks.hub import Delivery, Hubs, RepositoryHooks
from ci.webhooks.model import Repository, Webhooks, target, with_token

# How long a ping's delivery is waited for: GitHub sends it at once, and tells of it a moment later.
PING_TRIES = 5
PING_PAUSE_S = 1.0
# GitHub signs with whatever it is given; of this length nobody finds it out by trying.
LEAST_SECRET = 16


class NotAsWishedError(SpyreCiError):
    """GitHub says that it was done, and it was not."""

    exit_code = EXIT_TEST_FAILED


@dataclass(slots=True, kw_only=True)
class Compared:
    """A repository: what there is, what becomes of it, what was done, what went wrong.

    Attributes:
        repository: of the file.
        seen: its hooks, as they were.
        changes: what becomes of each.
        done: those that were done.
        pinged: what became of pings, by hook.
        error: why it could not be asked, or not be done whole.
    """

    repository: Repository
    seen: tuple[Seen, ...] = ()
    changes: tuple[Change, ...] = ()
    done: list[Change] = field(default_factory=list)
    pinged: dict[int, Delivery | None] = field(default_factory=dict)
    error: SpyreCiError | None = None

    @property
    def differs(self) -> bool:
        """Whether anything is still not as in the file."""
        return any(one.differs and one not in self.done for one in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """What is asked for.

    Attributes:
        found: the file.
        hubs: clients by host.
        environ: holds secrets.
        sleep: waits so many seconds.
        prune: whether duplicates and our hooks that a repository is not to have are deleted.
        rotate: whether every hook gets its secret anew.
        ping: whether hooks that were changed are pinged.
    """

    found: Webhooks
    hubs: Hubs
    environ: Mapping[str, str]
    sleep: Callable[[float], object]
    prune: bool = False
    rotate: bool = False
    ping: bool = False


def look(task: SetUp, repositories: Iterable[Repository]) -> list[Compared]:
    """Ask for the hooks of each repository, and compare nothing."""
    return [_looked(task, one) for one in repositories]


def compare(task: SetUp, repositories: Iterable[Repository]) -> list[Compared]:
    """Ask for the hooks of each repository, and decide what becomes of them."""
    return [_compared(task, one) for one in repositories]


def _compared(task: SetUp, repository: Repository) -> Compared:
    one = _looked(task, repository)
    if one.error is None:
        try:
            one.changes = _changes(task, repository, one.seen, rotate=task.rotate)
        except SpyreCiError as error:
            one.error = error
    return one


def _looked(task: SetUp, repository: Repository) -> Compared:
    one = Compared(repository=repository)
    try:
        one.seen = _hooks(task, repository).read()
    except SpyreCiError as error:
        one.error = task.hubs.told(repository, error)
    return one


def apply(task: SetUp, compared: Sequence[Compared], *, say: Callable[[Compared], None]) -> None:
    """Do what has to be done in each repository that could be asked.

    Args:
        task: what is asked for.
        compared: what becomes of which; what was done is noted there.
        say: is told of each repository when it is through.
    """
    for one in compared:
        if one.error is None:
            try:
                _apply(task, one)
            except SpyreCiError as error:
                one.error = task.hubs.told(one.repository, error)
        say(one)


def _apply(task: SetUp, one: Compared) -> None:
    acting = [change for change in one.changes if change.acts]
    # All secrets before the first change: what is half done is worse than what was not begun.
    secrets = {
        change.hook.secret: hook_secret(task.environ, change.hook.secret)
        for change in acting
        if change.hook is not None
    }
    hooks = _hooks(task, one.repository)
    touched = []
    for change in acting:
        value = secrets[change.hook.secret] if change.hook is not None else ""
        hook_id = hooks.apply(change, value)
        one.done.append(change)
        if hook_id is not None:
            touched.append(hook_id)
    if acting:
        _check_done(task, one, hooks)
    if task.ping:
        for hook_id in touched:
            one.pinged[hook_id] = pinged(hooks, hook_id, task.sleep)


def _check_done(task: SetUp, one: Compared, hooks: RepositoryHooks) -> None:
    """A second difference is empty, or GitHub did not do what it said."""
    left = [change for change in _changes(task, one.repository, hooks.read(), rotate=False) if change.acts]
    if left:
        names = ", ".join(field.name for change in left for field in change.fields) or left[0].deed.value
        one.done = [change for change in one.done if change.url not in {other.url for other in left}]
        raise NotAsWishedError(
            f"GitHub took every change, and the webhooks still differ: {names}",
            remedy="`spyre-ci webhooks show` says how they are; somebody may change them at the same time",
        )


def pinged(hooks: RepositoryHooks, hook_id: int, sleep: Callable[[float], object]) -> Delivery | None:
    """Ping a hook and return what became of it; None where GitHub does not tell in time.

    Raises:
        GitHubError: it cannot be pinged.
    """
    before = hooks.last_delivery(hook_id)
    hooks.ping(hook_id)
    for _ in range(PING_TRIES):
        last = hooks.last_delivery(hook_id)
        if last is not None and last != before:
            return last
        sleep(PING_PAUSE_S)
    return None


def _hooks(task: SetUp, repository: Repository) -> RepositoryHooks:
    return RepositoryHooks(task.hubs.client(repository), repository.repository)


def _changes(
    task: SetUp, repository: Repository, seen: Iterable[Seen], *, rotate: bool
) -> tuple[Change, ...]:
    wished = [
        hook if hook.token is None else with_token(hook, hook_secret(task.environ, hook.token))
        for hook in task.found.hooks_of(repository)
    ]
    return difference(
        wished,
        seen,
        ours=frozenset(target(hook.url) for hook in task.found.hooks.values()),
        keep=task.found.keep,
        prune=task.prune,
        rotate=rotate,
    )


def exit_code(compared: Iterable[Compared], *, differing: bool = False) -> int:
    """The exit code of a whole: 2 beats 3, since no second try mends it, and 3 beats 1.

    Args:
        compared: all repositories.
        differing: whether one that differs is a failure.
    """
    codes = {one.error.exit_code for one in compared if one.error is not None}
    if differing and any(one.differs for one in compared):
        codes.add(EXIT_TEST_FAILED)
    if any(one is None or not one.good for each in compared for one in each.pinged.values()):
        codes.add(EXIT_TEST_FAILED)
    order = (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED)
    return next((code for code in order if code in codes), EXIT_OK)


def hook_secret(environ: Mapping[str, str], name: str) -> str:
    """The secret of a webhook, or a token that starts jobs.

    Raises:
        SettingsError: there is none, or one so short that trying finds it out.
        MissingInputError: the file that was named is not there.
    """
    value = secret(environ, name, "secret of the webhook")
    if len(value) < LEAST_SECRET:
        raise SettingsError(
            f"the webhook's secret has fewer than {LEAST_SECRET} characters",
            where=name,
            remedy="make a longer one, such as by `openssl rand -hex 32`, and give it to Jenkins as well",
        )
    return value
