"""What of MLflow's client tracking uses: a run found or opened, told of, and given files."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.core.errors import SettingsError
from ci.core.extras import wanted
from ci.jobs.tracking_facts import JOB_TAG
from ci.jobs.transfer_put import files_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

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
