"""A lane's runs as jobs on Kubernetes or OpenShift, submitted, watched and collected as `spyre-ci job` does.

A submit is known by its run, which is the order's id, and makes nothing twice; `job.json` of the run's folder
says what it is called.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ci.config.lanes_model import OpenShiftJob
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    CommandError,
    MissingInputError,
    UsageError,
)
from ci.core.process import Ended, finish_command
from ci.core.text import escaped
from ci.jobs.board import Board
from ci.jobs.cancel import cancel
from ci.jobs.cluster import Cluster, open_cluster
from ci.jobs.fate import Phase
from ci.jobs.labels import selector
from ci.jobs.paths import path_of
from ci.jobs.record import JobRecord, read_record
from ci.jobs.spec import read_spec
from ci.jobs.standing import standing_of
from ci.jobs.watch import ending_of
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.remote import Brought, NotSubmittedError, SubmitAwayError, ended, of_code
from ci.report.results import SUMMARY_FILE

PATIENCE_S = 20.0
# An image may be built and pushed first.
SUBMIT_S = 3600.0
COLLECT_S = 1800.0
SAID = 600
LOGS = "logs"


class OpenShiftFar:
    """A cluster, of which nothing is asked before somebody wants to know; a reference is the job's name.

    Args:
        to: the job.
        environ: says which cluster is meant, and is handed to what submits and collects.
        base: folder of the settings; the spec's path begins there.
        runs: folder of the runs.
        settings: file of the settings; None where there is none.
        open_there: makes the client.
        stop: says that an interrupt was heard, which ends a submit or collect.

    Raises:
        CredentialsError: nothing says which cluster is meant.
        CommandError: the extra is not installed.
    """

    # A submit that comes twice makes nothing twice.
    settle_s = 0.0

    def __init__(
        self,
        to: OpenShiftJob,
        environ: Mapping[str, str],
        *,
        base: Path,
        runs: Path,
        settings: Path | None,
        open_there: Callable[..., Cluster] = open_cluster,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._to, self._environ, self._stop = to, environ, stop
        self._base, self._runs, self._settings = base, runs, settings
        self._cluster = open_there(environ, namespace=to.namespace, context=to.context, patience_s=PATIENCE_S)
        self.place = f"context {to.context or 'of the kubeconfig'}, namespace {self._cluster.namespace}"

    def check(self, order: Order) -> None:  # noqa: ARG002  # for this place all are alike
        """Refuse a spec that is not there, or whose results nobody here could see.

        Raises:
            MissingInputError: it is not there.
            SettingsError: it is none.
            UsageError: its results are in a volume, and nobody says where that is seen.
        """
        if not self._spec.is_file():
            raise MissingInputError(
                "there is no spec of a job", where=self._spec, remedy="check `where.openshift.spec`"
            )
        spec = read_spec(self._spec)
        volume = None if spec.kind != "tests" or spec.store is None else spec.store.volume
        if volume is not None and self._to.store is None:
            raise UsageError(
                f"its results will be in the volume {volume}, and nobody says where that is seen from here",
                where=self._spec, remedy="name the folder where it is mounted: `where.openshift.store`",
            )  # fmt: skip

    def find(self, order: Order) -> str | None:
        """The job's name, where it was made; see `Far`."""
        record = self._record(order)
        if record is None or self._cluster.get(self._job_path(record.name)) is None:
            return None
        return record.name

    def start(self, order: Order) -> str:
        """Submit the job, and give its name; see `Far`.

        Raises:
            SubmitAwayError: the cluster is away, or refuses for now.
            NotSubmittedError: it will never take it.
        """
        words = ["submit", str(self._spec), "--run", order.id, "--allow-dirty", *self._namespace()]
        words += [*self._context(), *_named("--store", self._to.store)]
        done = self._spyre_ci(*words, timeout_s=SUBMIT_S)
        record = self._record(order) if done.code == 0 else None
        if record is None:
            kind = (
                SubmitAwayError
                if done.code < 0 or done.code in {EXIT_INCOMPLETE, EXIT_INTERRUPTED}
                else NotSubmittedError
            )
            raise kind(
                f"the job was not submitted (exit code {done.code}): {_last(done)}", where=self._spec,
                remedy="see what is said; `spyre-ci job submit` does the same by hand",
            )  # fmt: skip
        return record.name

    def look(self, order: Order, reference: str) -> Seen:  # noqa: ARG002  # its name says it all
        """Where it stands; see `Far`."""
        cluster = self._cluster
        job = cluster.get(self._job_path(reference))
        if job is None:
            return ended(Standing.GONE, "the job is gone: somebody removed it, or its time to live is over")
        now, standing = time.monotonic(), standing_of(job)
        if standing.over is None:
            begun = bool(standing.active or standing.done or standing.failed)
            kind = Standing.RUNNING if begun else Standing.STARTING
            return Seen(standing=kind, said=standing.waits)
        board = Board(standing, now)
        board.relist(cluster.items(path_of("Pod", cluster.namespace), labels=selector(reference))[0], now)
        # What is ended writes what it has; its controller ends only after that, from 1.31 on.
        if standing.end is None and board.counts[Phase.RUNNING]:
            return Seen(standing=Standing.RUNNING, said="its last pods are ending")
        ending = ending_of(board)
        return of_code(ending.exit_code, ending.why)

    def cancel(self, order: Order, reference: str) -> None:  # noqa: ARG002  # its name says it all
        """Remove the job; see `Far`."""
        cancel(self._cluster, reference, timeout_s=0, say=lambda _: None)

    def bring(self, order: Order, reference: str) -> Brought:
        """Report the run of tests here, which puts it into the history; of other kinds the logs are kept.

        Raises:
            SubmitAwayError: the cluster or the store is away.
        """
        record = self._record(order)
        if record is None or record.kind != "tests":
            into = ["--to", str(order.folder / LOGS)]
            done = self._spyre_ci("logs", reference, *self._namespace(), *self._context(), *into)
            return Brought(notes=[] if done.code == 0 else [f"its logs did not all come: {_last(done)}"])
        store = _named("--from", self._to.store)
        done = self._spyre_ci("collect", str(self._runs / order.id), *store, *self._context())
        if not (self._runs / order.id / SUMMARY_FILE).is_file():
            said = f"its results were not collected: {_last(done)}"
            # Wrong settings stay wrong, and nothing more comes of what is gone.
            gone = done.code == EXIT_INCOMPLETE and self.find(order) is None
            if done.code in {EXIT_TEST_FAILED, EXIT_USAGE} or gone:
                return Brought(codes=[EXIT_INCOMPLETE], notes=[said])  # they may have held what is red
            raise SubmitAwayError(
                said, where=self._runs / order.id,
                remedy="`spyre-ci job collect` does it by hand",
            )  # fmt: skip
        return Brought(codes=[done.code])

    @property
    def _spec(self) -> Path:
        return (self._base / self._to.spec).resolve()

    def _record(self, order: Order) -> JobRecord | None:
        try:
            return read_record(self._runs / order.id)
        except MissingInputError:
            return None

    def _job_path(self, name: str) -> str:
        return path_of("Job", self._cluster.namespace, name)

    def _namespace(self) -> list[str]:
        return _named("--namespace", self._to.namespace)

    def _context(self) -> list[str]:
        return _named("--context", self._to.context)

    def _spyre_ci(self, *words: str, timeout_s: float = COLLECT_S) -> Ended:
        """Call `spyre-ci job`.

        Raises:
            SubmitAwayError: it took too long; done again, it goes on where it was.
        """
        argv = [sys.executable, "-m", "ci.cli", *_named("--config", self._settings), "job", *words]
        try:
            return finish_command(
                argv, timeout_s=timeout_s, cwd=self._base, env=self._environ, stop=self._stop
            )
        except CommandError as error:
            raise SubmitAwayError(
                f"spyre-ci job {words[0]}: {error.what}", where=self._spec, remedy="it is tried again"
            ) from error


def _named(flag: str, value: object) -> list[str]:
    return [] if value is None else [flag, str(value)]


def _last(done: Ended) -> str:
    """The last words of a command, fit for one line."""
    text = (done.stderr or done.stdout).decode("utf-8", "replace")
    return escaped(" ".join(text.split()))[-SAID:]
