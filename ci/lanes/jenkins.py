"""A lane's runs as builds of a Jenkins job, known by the parameter that carries the order's id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ci.addresses import without_secrets
from ci.config.lanes_model import JenkinsJob
from ci.errors import MissingInputError, SpyreCiError
from ci.jenkins.access import connect
from ci.jenkins.answers import whole_of
from ci.jenkins.builds import (
    Build,
    Item,
    build_of,
    file_path,
    files_of,
    find_start,
    item_in,
    item_of,
    leave,
    stop,
)
from ci.jenkins.client import KEY, Jenkins
from ci.jenkins.errors import JenkinsAwayError
from ci.lanes.budget import Budget, never
from ci.lanes.ends import ended, of_jenkins
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.remote import Brought
from ci.lanes.remote_errors import NotFindableError
from ci.lanes.results import brought_of, limit_of, roots_of
from test_selection.files import read_json, write_json

KIND, FILE = "lane-build", "build.json"


class JenkinsFar:
    """A job of a Jenkins; nothing is asked of it before somebody wants to know.

    A reference is the number of the item in Jenkins' queue, or of the build where that is known: `item 12`,
    `build 34`. Which build an item became is noted in the order's folder, since items are forgotten.

    Args:
        to: the job.
        environ: holds user and token.
        open_jenkins: makes the client.
        stop: says that an interrupt was heard.

    Raises:
        SettingsError: there is no user or token, or none is to be sent there.
        MissingInputError: a file with one is not there.
    """

    # Longer than any answer is waited for, and a queue that is full.
    settle_s = 120.0

    def __init__(
        self,
        to: JenkinsJob,
        environ: Mapping[str, str],
        *,
        open_jenkins: Callable[[Mapping[str, str], str], Jenkins] = connect,
        stop: Callable[[], bool] = never,
    ) -> None:
        self._to, self._jenkins = to, open_jenkins(environ, to.url)
        self._stop = stop
        self.place = f"{without_secrets(to.url)} job {to.job}"

    def check(self, order: Order) -> None:  # noqa: ARG002  # for this place all are alike
        """Refuse a job that drops what it is started with: Jenkins does so without a word.

        Raises:
            NotFindableError: it does not declare the parameter that carries the order's id.
            SpyreCiError: it does not declare another one, or Jenkins does not say.
        """
        declared = self._jenkins.declared(self._to.job)
        if KEY not in declared:
            raise NotFindableError(
                f"the job declares no parameter {KEY}: a start whose answer is lost would be started twice",
                where=self._to.job,
                remedy=f"give the job a string parameter {KEY}",
            )
        if missing := sorted(self._to.parameters.keys() - declared):
            raise SpyreCiError(
                f"the job declares no parameter {', '.join(missing)}, which Jenkins would drop",
                where=self._to.job,
                remedy="give the job these parameters, or take them out of the lane's `where.jenkins`",
            )

    def find(self, order: Order) -> str | None:
        """The reference of what was started for an order; see `Far`."""
        found = find_start(self._jenkins, self._to.job, order.id)
        return None if found is None else _reference(found)

    def start(self, order: Order) -> str:
        """Start the job, and give its reference; see `Far`.

        Raises:
            JenkinsError: it was not taken, or nobody knows.
        """
        where = self._jenkins.start(self._to.job, {**self._to.parameters, KEY: order.id})
        if (item := item_in(where)) is not None:
            return f"item {item}"
        # Some proxies drop where an answer leads to.
        if (found := self.find(order)) is not None:
            return found
        raise JenkinsAwayError(
            "Jenkins took the start and does not say where it waits", where=self._to.job,
            remedy="it is looked for by its order's id",
        )  # fmt: skip

    def look(self, order: Order, reference: str) -> Seen:
        """Where it stands; see `Far`."""
        build = self._build(order, reference)
        return build if isinstance(build, Seen) else of_jenkins(build.result, build.url)

    def cancel(self, order: Order, reference: str) -> None:
        """Take it out of the queue, or stop its build; see `Far`."""
        for _ in range(2):
            build = self._build(order, reference)
            if isinstance(build, Build):
                stop(self._jenkins, self._to.job, build.number)
                return
            item = _number(reference, "item")
            if build.standing.ended or item is None:
                return
            # It may become a build meanwhile.
            leave(self._jenkins, item)

    def bring(self, order: Order, reference: str) -> Brought:
        """Bring back what runs of tests the build archived; see `Far`."""
        build = self._build(order, reference)
        if isinstance(build, Seen):
            return Brought()
        files, budget = files_of(self._jenkins, self._to.job, build.number), Budget(self._stop)

        def fetch(root: str, into: Path) -> bool:
            for file in (one for one in files if one.startswith(root)):
                limit, here = limit_of(file[len(root) :]), into / file[len(root) :]
                if limit is None:
                    continue
                budget.count(0)  # what is too much already grows no more
                if not here.is_file():  # it may have come the last time
                    path = file_path(self._to.job, build.number, file)
                    self._jenkins.download(path, here, most_bytes=limit, stop=budget.over)
                budget.count(here.stat().st_size)
            return True

        return brought_of(order.folder, roots_of(files), fetch)

    def _build(self, order: Order, reference: str) -> Build | Seen:
        """An order's build, and nobody else's; before and without one, where it stands."""
        number = _number(reference, "build") or _noted(order.folder)
        if number is None:
            found = self._item_or_build(order, reference)
            if isinstance(found, Seen):
                return found
            number = found
            write_json(order.folder / FILE, KIND, {"build": number})
        build = build_of(self._jenkins, self._to.job, number)
        if build is None:
            return ended(Standing.GONE, f"build {number} was deleted, or discarded by the job")
        if build.key != order.id:
            return ended(Standing.GONE, f"build {number} is of another start: the job was made anew")
        return build

    def _item_or_build(self, order: Order, reference: str) -> int | Seen:
        number = _number(reference, "item")
        item = None if number is None else item_of(self._jenkins, number)
        if item is None or item.key != order.id:
            # Forgotten five minutes after it left, or a Jenkins that was set up anew.
            by_key = find_start(self._jenkins, self._to.job, order.id)
            if isinstance(by_key, Build):
                return by_key.number
            if by_key is None:
                return ended(Standing.GONE, "it is neither in Jenkins' queue nor among the job's last builds")
            item = by_key
        if item.cancelled:
            return ended(Standing.CANCELLED, "somebody took it out of Jenkins' queue")
        return item.build or Seen(standing=Standing.STARTING, said=item.why)


def _reference(found: Item | Build) -> str:
    return f"item {found.number}" if isinstance(found, Item) else f"build {found.number}"


def _number(reference: str, kind: str) -> int | None:
    word, _, number = reference.partition(" ")
    return int(number) if word == kind and number.isdecimal() else None


def _noted(folder: Path) -> int | None:
    try:
        return whole_of(read_json(folder / FILE, KIND), "build")
    except MissingInputError:
        return None
