"""A job's run in MLflow: begun, ended, and kept beside the job's results till MLflow has it.

No job fails for it (law 7): what MLflow cannot be told is said, and told the next time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci.core.addresses import safe_line
from ci.core.object_store import SCHEME, Bucket
from ci.jobs.job import Job
from ci.jobs.tracking_client import Account, log_begin, log_end, log_files, open_client, run_of
from ci.jobs.tracking_facts import Status, configs_of, params_of, tags_of
from ci.jobs.transfer import fetch
from test_selection.files import atomic_writer, read_json, write_json

if TYPE_CHECKING:
    from mlflow import MlflowClient

FOLDER = "tracking"
_KIND = "tracking"


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
