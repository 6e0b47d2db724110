"""A stand-in of MLflow's tracking server: real HTTP on loopback, with state, and faults on demand.

Paths, bodies and error codes are those of MLflow's REST API and its artifact proxy, as far as tracking uses
them; tests/heavy puts the same questions to a real server.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any
from urllib.parse import unquote

from tests import stand_in
from tests.stand_in import Answer, Seen, StandIn

_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"


class MlflowApi(StandIn[stand_in.Fault]):
    """The server; faults that are answers are an internal error.

    Attributes:
        experiments: their names; an id is a place in the list.
        runs: by id.
        files: of all runs, by `<experiment>/<run>/artifacts/<path>`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.experiments: list[str] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}

    def fail(self, path: str, *, times: int = 1) -> None:
        self.faults.append(
            stand_in.Fault(kind="status", method="", path=path, times=times, taken=False, seconds=0)
        )

    def refusal(self, fault: stand_in.Fault) -> Answer:
        return Answer(status=500, body={"error_code": "INTERNAL_ERROR", "message": f"fault at {fault.path}"})

    def usual(self, data: bytes) -> dict[str, str]:
        return {"content-length": str(len(data)), "content-type": "application/json"}

    def answer(self, seen: Seen) -> Answer:
        if seen.path.startswith(_ARTIFACTS):
            return self._artifact(seen)
        name = seen.path.removeprefix("/api/2.0/mlflow/").replace("/", "_").replace("-", "_")
        route = getattr(self, f"_{name}", None)
        if route is None:
            return _none("ENDPOINT_NOT_FOUND", "no such endpoint")
        asked = json.loads(seen.body) if seen.body else dict(seen.query)
        with self.lock:
            found: Answer = route(asked)
        return found

    def _experiments_get_by_name(self, asked: dict[str, Any]) -> Answer:
        name = asked["experiment_name"]
        if name not in self.experiments:
            return _none("RESOURCE_DOES_NOT_EXIST", "no such experiment")
        number = str(self.experiments.index(name))
        return Answer(body={"experiment": {"experiment_id": number, "name": name}})

    def _experiments_create(self, asked: dict[str, Any]) -> Answer:
        if asked["name"] in self.experiments:
            message = f"Experiment '{asked['name']}' already exists."
            return Answer(status=400, body={"error_code": "RESOURCE_ALREADY_EXISTS", "message": message})
        self.experiments.append(asked["name"])
        return Answer(body={"experiment_id": str(len(self.experiments) - 1)})

    def _runs_search(self, asked: dict[str, Any]) -> Answer:
        found = re.fullmatch(r"tags\.`(.+)` = '(.+)'", asked["filter"])
        assert found is not None
        wanted = {"key": found[1], "value": found[2]}
        return Answer(body={"runs": [run for run in self.runs.values() if wanted in run["data"]["tags"]]})

    def _runs_create(self, asked: dict[str, Any]) -> Answer:
        # The client keeps in mind where a run has its artifacts, so no two servers have the same id.
        run, experiment = uuid.uuid4().hex, asked["experiment_id"]
        self.runs[run] = {
            "info": {
                "run_id": run,
                "run_uuid": run,
                "run_name": asked["run_name"],
                "experiment_id": experiment,
                "status": "RUNNING",
                "start_time": asked["start_time"],
                "lifecycle_stage": "active",
                "artifact_uri": f"mlflow-artifacts:/{experiment}/{run}/artifacts",
            },
            "data": {"tags": asked["tags"], "params": [], "metrics": []},
        }
        return Answer(body={"run": self.runs[run]})

    def _runs_get(self, asked: dict[str, Any]) -> Answer:
        return Answer(body={"run": self.runs[asked["run_id"]]})

    def _runs_log_batch(self, asked: dict[str, Any]) -> Answer:
        data = self.runs[asked["run_id"]]["data"]
        for kind in ("tags", "params", "metrics"):
            rows = {row["key"]: row for row in [*data[kind], *asked.get(kind, ())]}
            data[kind] = list(rows.values())
        return Answer(body={})

    def _runs_update(self, asked: dict[str, Any]) -> Answer:
        info = self.runs[asked["run_id"]]["info"]
        info |= {key: asked[key] for key in ("status", "end_time") if key in asked}
        return Answer(body={"run_info": info})

    def _artifact(self, seen: Seen) -> Answer:
        path = unquote(seen.path.removeprefix(_ARTIFACTS)).strip("/")
        if seen.method == "PUT":
            self.files[path] = seen.body
            return Answer(body={})
        if path:
            return Answer(body=self.files[path])
        below = f"{seen.query['path']}/"
        names = {name.removeprefix(below) for name in self.files if name.startswith(below)}
        tops = {name.partition("/")[::2] for name in names}
        rows = {top: {"path": top, "is_dir": bool(rest)} for top, rest in sorted(tops)}
        return Answer(body={"files": list(rows.values())})


def _none(code: str, message: str) -> Answer:
    return Answer(status=404, body={"error_code": code, "message": message})
