"""Running Jenkinsfiles and jobs under the recording DSL of tests/jenkins: there is no Jenkins here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DSL = Path(__file__).parent / "jenkins"
TIMEOUT_S = 560
CREDENTIALS = {
    "spyre-ci-github": "github-secret-1",
    "company-github": "github-secret-6",
    "spyre-ci-hud": "hud-secret-2",
    "spyre-ci-index": "index-secret-3",
}
URL = "https://jenkins.example/job/spyre/job/pr/5/"

Event = dict[str, Any]


def groovy() -> tuple[list[str], dict[str, str]]:
    """The command that runs a script beside the DSL's classes, and its environment; skips without one."""
    program, java = shutil.which("groovy"), shutil.which("java")
    if program is None or java is None:
        pytest.skip("groovy with a JVM is not found")
    # Debian's groovy looks where Debian's default JVM would be, which need not be the one there is.
    home = Path(java).resolve().parent.parent
    return [program, "-cp", str(DSL)], {
        **os.environ,
        "JAVA_HOME": str(home),
        "JAVA_OPTS": "-Xshare:auto -Xmx512m",
    }


def run_groovy(*words: str | Path, timeout_s: float = TIMEOUT_S) -> None:
    command, environ = groovy()
    done = subprocess.run(
        [*command, *map(str, words)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:4000] + done.stdout[:4000]


@dataclass(kw_only=True)
class Scenario:
    """A build that is to be recorded.

    Attributes:
        name: of it; also of its folder.
        jenkinsfile: of the repository, or a path.
        params: of the build.
        faults: what goes wrong: `kind` (fail, lose, abort, hang; with `_after` once the line has run),
            `times`, and where: `step`, `branch` (a regular expression), `session` (one, too).
        environ: of the processes.
        env: of the build, besides what Jenkins always says.
        resources: of the library, in place of its own.
        causes: why it began.
    """

    name: str
    jenkinsfile: str
    params: Mapping[str, str]
    scm: Path
    environ: Mapping[str, str]
    faults: Sequence[Mapping[str, Any]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    causes: Sequence[Mapping[str, str]] = ()

    def write(self, folder: Path) -> Path:
        home = folder / self.name
        (home / "scratch").mkdir(parents=True)
        content = {
            "jenkinsfile": str(ROOT / "jenkins" / self.jenkinsfile),
            "library": str(ROOT / "jenkins"),
            "scratch": str(home / "scratch"),
            "record": str(home / "record.jsonl"),
            "params": self.params,
            "env": {
                "JOB_NAME": "spyre/pr", "JOB_BASE_NAME": "pr", "BUILD_NUMBER": "5", "BUILD_URL": URL,
                "JENKINS_URL": "https://jenkins.example/", **self.env,
            },
            "process_env": self.environ,
            "credentials": CREDENTIALS,
            "resources": dict(self.resources),
            "causes": list(self.causes),
            "faults": [dict(one) for one in self.faults],
            "scm": {"url": str(self.scm), "refspecs": ["HEAD"]},
        }  # fmt: skip
        path = home / "scenario.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What happened in a build."""

    events: list[Event]
    folder: Path

    @property
    def result(self) -> str:
        last = self.events[-1]
        assert last["step"] == "finished", last
        return str(last["result"])

    def of(self, *steps: str, **like: Any) -> list[Event]:
        """Events of some steps whose values are as given."""
        return [
            one
            for one in self.events
            if one["step"] in steps and all(one.get(key) == value for key, value in like.items())
        ]

    def sessions(self) -> list[str]:
        """nox sessions that ran, in order, with the first of their words."""
        return [
            " ".join([one["session"], *one["words"][:1]]).strip() for one in self.of("sh") if one["session"]
        ]

    def archived(self) -> set[str]:
        archive = self.folder / "scratch" / "archive"
        return {str(path.relative_to(archive)) for path in archive.rglob("*") if path.is_file()}

    def position(self, step: str, **like: Any) -> int:
        """Where in the record something last happened."""
        found = self.of(step, **like)
        assert found, (step, like)
        return self.events.index(found[-1])


def run_scenarios(scenarios: Iterable[Scenario], folder: Path) -> dict[str, Recorded]:
    """Record builds, one after the other in one JVM, by their names."""
    written = {one.name: one.write(folder) for one in scenarios}
    run_groovy(DSL / "record_pipelines.groovy", *written.values())
    recorded: dict[str, Recorded] = {}
    for name, path in written.items():
        lines = (path.parent / "record.jsonl").read_text(encoding="utf-8").splitlines()
        recorded[name] = Recorded(events=[json.loads(line) for line in lines], folder=path.parent)
    return recorded


def record_jobs(workspace: Path, scripts: Sequence[Path], folder: Path) -> dict[str, Any]:
    """What scripts of jobs make."""
    parameters = {
        "TOOLKIT_URL": "https://github.com/torch-spyre/spyre-ci.git",
        "TOOLKIT_BRANCH": "main",
        "TOOLKIT_CREDENTIALS": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "workspace": str(workspace),
        "scripts": [str(one) for one in scripts],
        "parameters": parameters,
        "out": str(folder / "jobs.json"),
    }
    (folder / "input.json").write_text(json.dumps(content), encoding="utf-8")
    run_groovy(DSL / "record_jobs.groovy", folder / "input.json")
    told: dict[str, Any] = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    return told
