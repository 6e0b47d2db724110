"""Keep a job's run in MLflow: begun, ended, given files, and kept beside the results till MLflow has it.

No job fails for it (law 7): what MLflow cannot be told is said, and told the next time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.core.addresses import safe_line
from ci.core.errors import SettingsError
from ci.core.extras import wanted
from ci.core.object_store import SCHEME, Bucket
from ci.jobs.job import Job
from ci.jobs.tracking_facts import JOB_TAG, Status, configs_of, params_of, tags_of
from ci.jobs.transfer import fetch, files_of
from test_selection.files import atomic_writer, read_json, write_json

URI_VARIABLE = "MLFLOW_TRACKING_URI"
# A batch takes no more.
_BATCH = 100
# MLflow's own would have a job wait for minutes, and tell its makers of its use. It reads them from the
# environment of its process alone.
_BOUNDS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # It prints the server's address as it is, with a password that is in it.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
FOLDER = "tracking"
_KIND = "tracking"

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(kw_only=True)
class Account:
    """What MLflow is to be told of a job, and how much of it was; `tracking/state.json` of a run folder.

    Attributes:
        job: its name.
        experiment: that the run is put in.
        output: folder below the store whose files become artifacts, the run's id first; empty: none.
        tags: of the run.
        params: of the run.
        begun_ms: since the epoch.
        run: its id in MLflow; empty: it was never reached.
        told: `begun` and `ended`, where it was told that.
        status: how it ended; empty: it has not.
        metrics: at its end.
        ended_ms: since the epoch.
    """

    job: str
    experiment: str
    output: str
    tags: dict[str, str]
    params: dict[str, str]
    begun_ms: int
    run: str = ""
    told: tuple[str, ...] = ()
    status: str = ""
    metrics: dict[str, float] | None = None
    ended_ms: int = 0


def open_client(environ: MutableMapping[str, str]) -> MlflowClient:
    """A client of the server that the environment names, which waits for a minute at most.

    Args:
        environ: of this process; what bounds the client is set in it.

    Raises:
        SettingsError: it names none.
        CommandError: MLflow is not installed.
    """
    uri = environ.get(URI_VARIABLE, "")
    if not uri.startswith(("http://", "https://")):
        raise SettingsError(f"{URI_VARIABLE} names no server", remedy=f"set {URI_VARIABLE} to http(s)://…")
    for name, value in _BOUNDS.items():
        environ.setdefault(name, value)
    with wanted("tracking wants", extra="mlflow"):
        from mlflow import MlflowClient  # noqa: PLC0415  # an extra, and it takes seconds
    # An address of its own: what else uses MLflow in this process keeps its own.
    return MlflowClient(tracking_uri=uri)


def run_of(client: MlflowClient, account: Account) -> str:
    """The id of the job's run: of the one that an earlier call opened, or of a new one."""
    experiment = _experiment_of(client, account.experiment)
    # A job's name is a DNS label, so nothing in it ends the quotes.
    found = client.search_runs([experiment], f"tags.`{JOB_TAG}` = '{account.job}'", max_results=1)
    if found:
        return str(found[0].info.run_id)
    tags = {JOB_TAG: account.job}
    run = client.create_run(experiment, start_time=account.begun_ms, tags=tags, run_name=account.job)
    return str(run.info.run_id)


def _experiment_of(client: MlflowClient, name: str) -> str:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415  # an extra

    if (found := client.get_experiment_by_name(name)) is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        # Somebody else was faster.
        if (found := client.get_experiment_by_name(name)) is None:
            raise
        return str(found.experiment_id)


def log_begin(client: MlflowClient, account: Account, folder: Path) -> None:
    """Tell a run its tags and parameters, and log the job's files as `job/…`."""
    from mlflow.entities import Param, RunTag  # noqa: PLC0415  # an extra

    rows: list[Any] = [RunTag(*one) for one in account.tags.items()]
    rows += [Param(*one) for one in account.params.items()]
    for first in range(0, len(rows), _BATCH):
        batch = rows[first : first + _BATCH]
        client.log_batch(
            account.run,
            tags=[one for one in batch if isinstance(one, RunTag)],
            params=[one for one in batch if isinstance(one, Param)],
        )
    log_files(client, account.run, folder, "job")


def log_end(client: MlflowClient, account: Account) -> None:
    """Tell a run how it ended."""
    from mlflow.entities import Metric  # noqa: PLC0415  # an extra

    # The time is the account's: told twice, it is the same metric.
    rows = [Metric(name, value, account.ended_ms, 0) for name, value in (account.metrics or {}).items()]
    client.log_batch(account.run, metrics=rows)
    client.set_terminated(account.run, account.status, account.ended_ms)


def log_files(client: MlflowClient, run: str, folder: Path, below: str) -> None:
    """Log a folder's files; what a job wrote may hold links, and none of them leads to a file of ours."""
    for name, path in files_of(folder).items():
        client.log_artifact(run, str(path), str(Path(below, name).parent))


if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """Tells MLflow of the job of one run folder.

    Attributes:
        folder: the run's.
        environ: of this process; MLflow reads it itself.
        clock: seconds since the epoch.
        warn: takes a line.
    """

    folder: Path
    environ: MutableMapping[str, str]
    clock: Callable[[], float]
    warn: Callable[[str], object]

    def begin(self, job: Job, config_path: str, spec: bytes) -> None:
        """A job is submitted: open its run, or take it up again; nothing where the spec tracks nothing.

        Args:
            job: with its name.
            config_path: of the spec's file, as it is shown.
            spec: what that file holds.
        """
        if job.spec.tracking is None:
            return
        with self._said():
            account = Account(
                job=job.name,
                experiment=job.spec.tracking.experiment,
                output=f"{job.run}/{output}" if (output := job.spec.tracking.output) else "",
                tags=tags_of(job, config_path, spec),
                params=params_of(job),
                begun_ms=self._now_ms(),
            )
            if (before := self._read()) is not None and before.job == account.job:
                account = before
            for name, content in {"spec.yaml": spec, **_below("configs", configs_of(job))}.items():
                with atomic_writer(self._home / "job" / name) as stream:
                    stream.write(content)
            self._write(account)
            self._send(account, None)

    def end(self, status: Status, metrics: Mapping[str, float], store: str | None) -> None:
        """A job ended, or more of it is known: tell it, and what could not be told before.

        Args:
            status: how it ended.
            metrics: by name.
            store: where pods put what they have, as seen from here: a folder or s3://…; None: it is not seen,
                and no output is logged.
        """
        with self._said():
            account = self._read()
            if account is None:
                return
            if (account.status, account.metrics) != (status, dict(metrics)):
                account.status, account.metrics = status, dict(metrics)
                account.ended_ms = self._now_ms()
                account.told = tuple(word for word in account.told if word != "ended")
                self._write(account)
            self._send(account, store)

    @property
    def _home(self) -> Path:
        return self.folder / FOLDER

    def _now_ms(self) -> int:
        return int(self.clock() * 1000)

    def _read(self) -> Account | None:
        path = self._home / "state.json"
        if not path.is_file():
            return None
        content = read_json(path, _KIND)
        del content["schema"]
        return Account(**content)

    def _write(self, account: Account) -> None:
        write_json(self._home / "state.json", _KIND, asdict(account))

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # law 7: not even a bug of the reporter may fail a job
            what = safe_line(str(error) or type(error).__name__)
            self.warn(
                f"MLflow was not told of the job: {what}; it is kept in {self._home}"
                " and told by the next `spyre-ci job collect`"
            )

    def _send(self, account: Account, store: str | None) -> None:
        due = {"begun"} | ({"ended"} if account.status else set())
        if due <= set(account.told):
            return
        client = open_client(self.environ)
        if not account.run:
            account.run = run_of(client, account)
            self._write(account)
        if "begun" not in account.told:
            log_begin(client, account, self._home / "job")
            account.told = (*account.told, "begun")
            self._write(account)
        if account.status and "ended" not in account.told:
            log_end(client, account)
            if account.output and store is not None:
                self._log_output(client, account, store)
            account.told = (*account.told, "ended")
            self._write(account)

    def _log_output(self, client: MlflowClient, account: Account, store: str) -> None:
        where = f"{store.rstrip('/')}/{account.output}"
        if not where.startswith(SCHEME):
            log_files(client, account.run, Path(where), "output")
            return
        with tempfile.TemporaryDirectory(dir=self._home, prefix="output-") as folder:
            fetch(Bucket(where, where="store.bucket"), Path(folder), say=lambda _: None, clock=self.clock)
            log_files(client, account.run, Path(folder), "output")


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}
