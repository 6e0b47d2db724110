"""Keep a job's run in MLflow: what it was made of, how it ended, and its output.

No job fails for it (law 7): what MLflow cannot be told is kept beside the results, and told the next time.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ci.core.addresses import safe_line
from ci.core.errors import EXIT_INTERRUPTED, EXIT_OK, SettingsError
from ci.core.extras import wanted
from ci.core.object_store import SCHEME, Bucket
from ci.core.registry import parse_image
from ci.jobs.job import Job
from ci.jobs.spec import TRACKING_VARIABLE, SecretRef
from ci.jobs.transfer import fetch, files_of
from test_selection.files import atomic_writer, convert, read_json, write_json

if TYPE_CHECKING:
    from mlflow import MlflowClient

# MLflow's own limits would have a job wait for minutes, and tell its makers of its use. It reads them from
# the environment of its process alone.
_LIMITS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # It prints the server's address as it is, with a password that is in it.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# A job's run is found again by this tag.
JOB_TAG = "spyre-ci.job"
FOLDER = KIND = "tracking"
Status = Literal["FINISHED", "FAILED", "KILLED"]


def tags_of(job: Job, config_path: str, spec: bytes) -> dict[str, str]:
    """The tags of a job's run: the spec's own, and ours, which they do not replace.

    Args:
        job: submitted.
        config_path: of the spec's file, as it is shown.
        spec: content of that file.
    """
    source = job.spec.source
    artifact = source.artifact if source else None
    ours = {
        JOB_TAG: job.name,
        "spyre-ci.run": job.run,
        "spyre-ci.kind": job.spec.kind,
        "spyre-ci.config-path": config_path,
        "spyre-ci.config-sha256": config_sha(spec, _configs(job)),
        "spyre-ci.image": job.image,
        "spyre-ci.image-tag": parse_image(job.image).tag,
        "spyre-ci.resources": json.dumps(job.spec.resources.model_dump(exclude_none=True), sort_keys=True),
        "spyre-ci.source": f"runs:/{artifact.run}/{artifact.path}"
        if artifact
        else (source and source.bucket) or "",
        "spyre-ci.commit": job.commit,
        "spyre-ci.dirty": str(job.dirty).lower(),
        "spyre-ci.fingerprint": job.fingerprint,
        # Where MLflow's own pages look for it.
        "mlflow.source.git.commit": job.commit,
    }
    return dict(job.spec.tags) | {name: value for name, value in ours.items() if value}


def params_of(job: Job) -> dict[str, str]:
    """The job's parameters; of a secret, where it is and never what."""
    return {
        name: f"secret {value.secret}, key {value.key}" if isinstance(value, SecretRef) else str(value)
        for name, value in sorted(job.spec.parameters.items())
    }


def status_of(exit_code: int) -> Status:
    """MLflow's word for how a job ended."""
    return {EXIT_OK: "FINISHED", EXIT_INTERRUPTED: "KILLED"}.get(exit_code, "FAILED")  # type: ignore[return-value]  # mypy widens a table's words


def config_sha(spec: bytes, configs: Mapping[str, bytes]) -> str:
    """One hash of a spec and its configuration files, with their names."""
    whole = hashlib.sha256()
    for name, content in (("", spec), *sorted(configs.items())):
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()


def _configs(job: Job) -> dict[str, bytes]:
    return {name: job.files[name] for name in job.spec.configs if name in job.files}


@dataclass(frozen=True, kw_only=True)
class State:
    """What MLflow is to be told of a job, and how much of it was; `tracking/state.json` of a run folder.

    Attributes:
        job: its name.
        experiment: that the run is put in.
        output: folder below the store whose files become artifacts, the run's id first; empty: none.
        tags: of the run.
        params: of the run.
        begun_ms: since the epoch.
        status: how it ended; empty: it has not.
        verdicts: their counts at its end, by name.
        ended_ms: since the epoch.
        run: its id in MLflow, once that was told of its begin.
        told: MLflow knows how it ended.
    """

    job: str
    experiment: str
    output: str
    tags: dict[str, str]
    params: dict[str, str]
    begun_ms: int
    status: Status | Literal[""] = ""
    verdicts: dict[str, int] = field(default_factory=dict)
    ended_ms: int = 0
    run: str = ""
    told: bool = False


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """Tells MLflow of the job of one run folder.

    Each call may come twice: a run is found again by its tag, and told the same once more.

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
        """Open the run of a job that is submitted, or take it up again; nothing if the spec tracks nothing.

        Args:
            job: with its name.
            config_path: of the spec's file, as it is shown.
            spec: content of that file.
        """
        if (tracking := job.spec.tracking) is None:
            return
        with self._never_failing():
            state = self._read()
            if state is None or state.job != job.name:
                state = State(
                    job=job.name,
                    experiment=tracking.experiment,
                    output=f"{job.run}/{tracking.output}" if tracking.output else "",
                    tags=tags_of(job, config_path, spec),
                    params=params_of(job),
                    begun_ms=int(self.clock() * 1000),
                )
            configs = {f"configs/{name}": content for name, content in _configs(job).items()}
            for name, content in {"spec.yaml": spec, **configs}.items():
                with atomic_writer(self._home / "job" / name) as stream:
                    stream.write(content)
            self._write(state)
            if not state.run:
                self._tell_begin(_client(self.environ), state)

    def end(self, status: Status, verdicts: Mapping[str, int], store: str | None) -> None:
        """Tell how a job ended, after how many seconds, and what could not be told before.

        Args:
            status: how it ended.
            verdicts: their counts, by name; none of a job that runs no tests.
            store: as seen from here, a folder or s3://…; None: it is not seen, and the output is told later.
        """
        with self._never_failing():
            if (state := self._read()) is None:
                return
            if (state.status, state.verdicts) != (status, dict(verdicts)):
                now = int(self.clock() * 1000)
                state = replace(state, status=status, verdicts=dict(verdicts), ended_ms=now, told=False)
                self._write(state)
            if state.told:
                return
            client = _client(self.environ)
            if not state.run:
                state = self._tell_begin(client, state)
            _log_end(client, state)
            if state.output and store is None:
                self.warn(
                    "the job's output is not in MLflow: add it with `spyre-ci job collect --from FOLDER`,"
                    " where FOLDER is the mounted volume of the store"
                )
                return
            if state.output:
                self._log_output(client, state.run, f"{str(store).rstrip('/')}/{state.output}")
            self._write(replace(state, told=True))

    def tell_rest(self, store: str | None) -> bool:
        """Tell an end that is known and that MLflow does not know all of yet; false if there is none."""
        state = None
        with self._never_failing():
            state = self._read()
        if state is None or state.told or not state.status:
            return False
        self.end(state.status, state.verdicts, store)
        return True

    @property
    def _home(self) -> Path:
        return self.folder / FOLDER

    def _read(self) -> State | None:
        path = self._home / "state.json"
        if not path.is_file():
            return None
        return convert(read_json(path, KIND), State, where=path, remedy="remove it, and submit the job again")

    def _write(self, state: State) -> None:
        write_json(self._home / "state.json", KIND, asdict(state))

    @contextmanager
    def _never_failing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # law 7: not even a bug of the reporter may fail a job
            what = safe_line(str(error) or type(error).__name__)
            self.warn(
                f"the job was not reported to MLflow: {what}; the report is kept in {self._home}"
                " and sent by the next `spyre-ci job collect`"
            )

    def _tell_begin(self, client: MlflowClient, state: State) -> State:
        run = _run_of(client, state)
        _log_params(client, run, state.params)
        _log_files(client, run, self._home / "job", "job")
        state = replace(state, run=run)
        self._write(state)
        return state

    def _log_output(self, client: MlflowClient, run: str, where: str) -> None:
        if not where.startswith(SCHEME):
            _log_files(client, run, Path(where), "output")
            return
        with tempfile.TemporaryDirectory(dir=self._home, prefix="output-") as folder:
            fetch(Bucket(where, where="store.bucket"), Path(folder), say=lambda _: None)
            _log_files(client, run, Path(folder), "output")


def _client(environ: MutableMapping[str, str]) -> MlflowClient:
    """A client of the server that the environment names; its limits are set there.

    Raises:
        SettingsError: it names none.
        CommandError: MLflow is not installed.
    """
    uri = environ.get(TRACKING_VARIABLE, "")
    if not uri.startswith(("http://", "https://")):
        raise SettingsError(
            f"{TRACKING_VARIABLE} is not an address",
            remedy=f"set {TRACKING_VARIABLE} to http(s)://…",
        )
    for name, value in _LIMITS.items():
        environ.setdefault(name, value)
    with wanted("tracking needs", extra="mlflow"):
        from mlflow import MlflowClient  # noqa: PLC0415  # an extra, and it takes seconds
    # With an address of its own: what else uses MLflow in this process keeps its own.
    return MlflowClient(tracking_uri=uri)


def _run_of(client: MlflowClient, state: State) -> str:
    """The id of the job's run: of the one that an earlier call opened, or of a new one."""
    from mlflow.exceptions import MlflowException  # noqa: PLC0415  # an extra

    try:
        experiment = str(client.create_experiment(state.experiment))
    except MlflowException:
        # It is there, as nearly always.
        if (found := client.get_experiment_by_name(state.experiment)) is None:
            raise
        experiment = str(found.experiment_id)
    # A job's name is a DNS label, so nothing in it ends the quotes.
    runs = client.search_runs([experiment], f"tags.`{JOB_TAG}` = '{state.job}'", max_results=1)
    run = runs[0] if runs else client.create_run(experiment, state.begun_ms, state.tags, state.job)
    return str(run.info.run_id)


def _log_params(client: MlflowClient, run: str, params: Mapping[str, str]) -> None:
    from mlflow.entities import Param  # noqa: PLC0415  # an extra

    rows = [Param(*one) for one in params.items()]
    for first in range(0, len(rows), 100):  # what one call takes
        client.log_batch(run, params=rows[first : first + 100])


def _log_end(client: MlflowClient, state: State) -> None:
    from mlflow.entities import Metric  # noqa: PLC0415  # an extra

    metrics = {f"verdict.{name}": float(count) for name, count in state.verdicts.items()}
    metrics["seconds"] = (state.ended_ms - state.begun_ms) / 1000
    # The time is the state's: told twice, it is the same metric.
    client.log_batch(state.run, [Metric(name, one, state.ended_ms, 0) for name, one in metrics.items()])
    client.set_terminated(state.run, state.status, state.ended_ms)


def _log_files(client: MlflowClient, run: str, folder: Path, below: str) -> None:
    """Log a folder's files; what a job wrote may hold links, and none of them leads to a file of ours."""
    for name, path in files_of(folder).items():
        client.log_artifact(run, str(path), str(Path(below, name).parent))
