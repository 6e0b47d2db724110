"""Who carries out the lanes that run far away, by kind; connected to when they are first asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from ci.config.lanes_model import Lane
from ci.config.load import Settings
from ci.errors import SettingsError, UsageError
from ci.extras import wanted
from ci.lanes.budget import never
from ci.lanes.order import Executor, Order, Seen
from ci.lanes.remote import Far, Remote

KINDS = ("jenkins", "github", "openshift")


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLane:
    """The executors of all lanes of a kind, as one.

    Attributes:
        of: the executor of a lane, which is made when it is first asked for.
    """

    of: Callable[[str], Executor]

    def find(self, order: Order) -> str | None:
        """See `Executor`."""
        return self.of(order.lane).find(order)

    def start(self, order: Order) -> str:
        """See `Executor`."""
        return self.of(order.lane).start(order)

    def look(self, order: Order, reference: str) -> Seen:
        """See `Executor`."""
        return self.of(order.lane).look(order, reference)

    def cancel(self, order: Order, reference: str) -> None:
        """See `Executor`."""
        self.of(order.lane).cancel(order, reference)

    def fetch(self, order: Order, reference: str) -> None:
        """See `Executor`."""
        self.of(order.lane).fetch(order, reference)


def executors(
    settings: Settings,
    environ: Callable[[str], Mapping[str, str]],
    *,
    clock: Callable[[], float],
    stop: Callable[[], bool] = never,
) -> Mapping[str, Executor]:
    """The executors of lanes that run far away, by kind; nothing is read, imported or asked yet.

    Args:
        settings: of the lanes.
        environ: what a lane's place is reached with, by the lane's name: the environment and secrets.
        clock: seconds since the epoch.
        stop: says that an interrupt was heard; what takes long is left for another time then.
    """

    @cache
    def of(name: str) -> Executor:
        return _executor(settings, name, environ(name), clock, stop=stop)

    return dict.fromkeys(KINDS, ByLane(of=of))


def check_lanes(
    settings: Settings,
    environ: Callable[[str], Mapping[str, str]],
    *,
    clock: Callable[[], float],
    names: list[str],
) -> None:
    """Refuse lanes far away that miss something on this machine: a library, a token, a trusted host.

    Args:
        settings: of the lanes.
        environ: what a lane's place is reached with, by the lane's name: the environment and secrets.
        clock: seconds since the epoch.
        names: of those that are begun; others may miss what they like.

    Raises:
        SettingsError: there is no token, or none is to be sent there.
        CommandError: an extra is not installed.
    """
    for name in names:
        if settings.model.lanes[name].where.kind != "local":
            _far(settings, settings.model.lanes[name], name, environ(name), clock, stop=never)


def _executor(
    settings: Settings,
    name: str,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    *,
    stop: Callable[[], bool],
) -> Executor:
    """The executor of a lane.

    Raises:
        UsageError: there is no such lane any more, or it runs here.
        SettingsError: what it wants to connect is missing.
        CommandError: an extra is not installed.
    """
    lane = settings.model.lanes.get(name)
    if lane is None or lane.where.kind == "local":
        raise UsageError(
            f"there is no lane {name} far away any more",
            where=settings.path,
            remedy="what was started of it goes on there; see its page",
        )
    return Remote(
        far=_far(settings, lane, name, environ, clock, stop=stop),
        clock=clock,
        wants_results=lane.run.pytorch is not None,
        history=settings.state_dir / settings.model.history.path,
    )


def _far(
    settings: Settings,
    lane: Lane,
    name: str,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    *,
    stop: Callable[[], bool],
) -> Far:
    """The place where a lane runs, with what it wants of this machine found.

    Raises:
        SettingsError: there is no token, or none is to be sent there.
        CommandError: an extra is not installed.
    """
    try:
        return _place(settings, lane, name, environ, clock, stop=stop)
    except SettingsError as error:
        remedy = f"{error.remedy}, in the environment or in the file of secrets (`lane_worker.secrets`)"
        raise SettingsError(f"lane {name}: {error.what}", where=error.where, remedy=remedy) from error


def _place(
    settings: Settings,
    lane: Lane,
    name: str,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    *,
    stop: Callable[[], bool],
) -> Far:
    where = lane.where
    if where.jenkins is not None:
        from ci.lanes.jenkins import JenkinsFar  # noqa: PLC0415  # each brings a client of its own

        return JenkinsFar(where.jenkins, environ, stop=stop)
    if where.github is not None:
        with wanted(f"the lane {name} wants", extra="github"):
            from ci.lanes.github import GitHubFar  # noqa: PLC0415  # with PyGithub

        return GitHubFar(where.github, environ, clock=clock, stop=stop)
    from ci.lanes.openshift import OpenShiftFar  # noqa: PLC0415  # its client takes a second

    assert where.openshift is not None  # noqa: S101  # one of the three
    model = settings.model
    return OpenShiftFar(
        where.openshift,
        environ,
        base=settings.base,
        runs=settings.resolve(model.runs),
        settings=settings.path,
        stop=stop,
    )
