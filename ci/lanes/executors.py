"""Who carries out the lanes that run far away, by kind; connected to when they are first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from ci.config.load import Settings
from ci.core.errors import SettingsError, UsageError
from ci.lanes.order import Executor, Order, Seen
from ci.lanes.remote import Far, Remote

KIND = "openshift"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where lanes run that run far away; nothing is read, imported or asked before it is wanted.

    Attributes:
        settings: of the lanes.
        environ: what a lane's place is reached with, by the lane's name: the environment and secrets.
        clock: seconds since the epoch.
        stop: says that an interrupt was heard; what takes long is left for another time then.
    """

    settings: Settings
    environ: Callable[[str], Mapping[str, str]]
    clock: Callable[[], float]
    stop: Callable[[], bool] = lambda: False

    def executors(self) -> Mapping[str, Executor]:
        """The executors, by kind."""
        return {KIND: ByLane(of=cache(self._executor))}

    def check(self, names: Iterable[str]) -> None:
        """Refuse lanes far away that miss something on this machine: a library, a token, a trusted host.

        Args:
            names: of those that are begun; others may miss what they like.

        Raises:
            SettingsError: there is no token, or none is to be sent there.
            CommandError: an extra is not installed.
        """
        for name in names:
            if self.settings.model.lanes[name].where.kind == KIND:
                self._far(name)

    def _executor(self, name: str) -> Executor:
        """The executor of a lane.

        Raises:
            UsageError: there is no such lane any more, or it runs here.
            SettingsError: what it wants to connect is missing.
            CommandError: an extra is not installed.
        """
        lane = self.settings.model.lanes.get(name)
        if lane is None or lane.where.kind != KIND:
            raise UsageError(
                f"there is no lane {name} far away any more",
                where=self.settings.path,
                remedy="what was started of it goes on there; see its page",
            )
        return Remote(
            far=self._far(name),
            clock=self.clock,
            wants_results=lane.run.pytorch is not None,
            history=self.settings.state_dir / self.settings.model.history.path,
        )

    def _far(self, name: str) -> Far:
        """The place where a lane runs, with what it wants of this machine found.

        Raises:
            SettingsError: there is no token, or none is to be sent there.
            CommandError: an extra is not installed.
        """
        try:
            return self._place(name)
        except SettingsError as error:
            remedy = f"{error.remedy}, in the environment or in the file of secrets (`lane_worker.secrets`)"
            raise SettingsError(f"lane {name}: {error.what}", where=error.where, remedy=remedy) from error

    def _place(self, name: str) -> Far:
        where = self.settings.model.lanes[name].where.openshift
        from ci.lanes.openshift import OpenShiftFar  # noqa: PLC0415  # its client takes a second

        assert where is not None  # noqa: S101  # so says its kind
        return OpenShiftFar(
            where,
            self.environ(name),
            base=self.settings.base,
            runs=self.settings.resolve(self.settings.model.runs),
            settings=self.settings.path,
            stop=self.stop,
        )
