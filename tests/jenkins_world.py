"""What a build of the recording DSL works on: a toolkit, a project with a pull request, a stand-in of nox."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jenkins_dsl import Scenario

# Answers as the sessions do, with the files they leave; every call is a line of the log.
NOX = r"""#!/bin/bash -e
shift
session=$1
shift 2
echo "$session $*" >> "$STAND_IN_LOG"
case "$session $1" in
  "image build") mkdir -p ../results/demo/build/junit
    echo '<testsuite><testcase name="a"/></testsuite>' > ../results/demo/build/junit/unit.xml
    echo "built"
    digest=${STAND_IN_DIGEST:-sha256:0123}
    # What was tested was another one.
    [[ -z $STAND_IN_DIGEST || "$*" == *--version* ]] || digest=sha256:0123
    [[ "$*" != *--expect* || "$*" == *"--expect registry.example/runtime:1@$digest"* ]]
    echo "{\"image\": \"registry.example/runtime:1\", \"digest\": \"$digest\", \"found\": false}" ;;
  "image tree") mkdir -p ../pytorch/test && echo pass > ../pytorch/test/test_a.py ;;
  "image test") mkdir -p ../results/demo/device/junit
    echo '<testsuite><testcase name="b"/></testsuite>' > ../results/demo/device/junit/device.xml ;;
  "plan --for") mkdir -p runs/ci/control && echo '{}' > runs/ci/plan.json && echo 'its own' > noxfile.py
    [[ -z $STAND_IN_LINKS ]] || ln -s ../../../noxfile.py runs/ci/control/x
    [[ -z $STAND_IN_LINKS ]] || ln -s "$STAND_IN_LINKS" ../pytorch/home ;;
  "pipeline legs") test ! -s noxfile.py
    # Else it would look for the settings of the branch that the change goes into.
    [[ -z $CHANGE_ID ]]
    test -f runs/ci/plan.json
    echo "$STAND_IN_PLAN" > runs/legs.json ;;
  "shards --run-dir") mkdir -p runs/ci/journal && echo '{}' > "runs/ci/journal/$4-1.jsonl"
    case "$STAND_IN_LINKS $4" in
      " "*) ;;
      *" 0") ln -s "$STAND_IN_LINKS" runs/ci/journal/home
        rm -rf runs/ci/control && mkdir runs/ci/control && echo owned > runs/ci/control/x ;;
      *) rm -r runs/ci/journal && ln -s "$STAND_IN_LINKS" runs/ci/journal ;;
    esac ;;
  "report --run-dir") test ! -s noxfile.py
    mkdir -p runs/ci/junit && ls runs/ci/journal > runs/ci/summary.md
    echo '<testsuite><testcase><failure/></testcase></testsuite>' > runs/ci/junit/0.xml ;;
  "package ../project") mkdir -p ../project/dist ../project/.spyre-ci/records
    echo 1 > ../project/dist/demo-1.whl && echo '{}' > ../project/.spyre-ci/records/verify.json ;;
  "device ../project") mkdir -p ../project/.spyre-ci/records
    echo '{}' > ../project/.spyre-ci/records/device.json ;;
  "release ../project") test -f ../project/dist/demo-1.whl
    [[ "$*" != *--run* || -f runs/ci/summary.md ]] ;;
  "publish ../project") test -f ../project/dist/demo-1.whl ;;
  "pipeline status") [[ -z $STAND_IN_HANGS || "$*" != *" pending "* ]] || sleep 30 ;;
  "pipeline head") [[ -z $STAND_IN_STRANGER || "$*" == *--of-anybody ]]
    echo "$STAND_IN_HEAD" ;;
esac
"""
PLAN = (
    '{"schema": "spyre-ci/outputs/1", "tests": 3, "matrix": {'
    '"leg-000": {"shards": "0", "cards": 1, "label": "linux && spyre_pf_x1", "timeout_minutes": 31},'
    '"leg-001": {"shards": "1-2", "cards": 0, "label": "linux && spyre_pf_x0", "timeout_minutes": 32}}}'
)
NO_TESTS = '{"schema": "spyre-ci/outputs/1", "tests": 0, "matrix": {}}'
GIT_ENVIRON = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True, capture_output=True, text=True, timeout=60, env={**os.environ, **GIT_ENVIRON},
    )  # fmt: skip
    return done.stdout.strip()


def repository(folder: Path, **files: str) -> Path:
    """A repository with a commit on main."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, "first", **files)
    return folder


def commit(folder: Path, message: str, **files: str) -> str:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@dataclass(frozen=True, kw_only=True)
class World:
    """Where builds happen."""

    folder: Path
    toolkit: Path
    project: Path
    head: str

    @property
    def environ(self) -> dict[str, str]:
        return {
            **GIT_ENVIRON,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "STAND_IN_LOG": str(self.folder / "nox.log"),
            "STAND_IN_PLAN": PLAN,
            "STAND_IN_HEAD": self.head,
        }

    def pull_request(
        self, name: str, *faults: dict[str, Any], job: str = "pr-demo", component: str = "demo",
        api: str = "https://api.example", environ: dict[str, str] | None = None, causes: tuple[str, ...] = (),
        **changes: str,
    ) -> Scenario:  # fmt: skip
        """A build of the pull request, found by the multibranch job of its component."""
        known = {
            "component": component, "repository": "example/demo", "clone": str(self.project), "api": api,
            "branch": "main", "context": "spyre-ci/jenkins", "status_credentials": "company-github",
            "builder": "builder", "device": "device", "notify": "people@example.com", **changes,
        }  # fmt: skip
        # The job's own source is the fork's branch, which is nobody's toolkit.
        made = self.scenario(name, "Jenkinsfile.pr", {}, faults, scm=self.project)
        made.environ = {**made.environ, **(environ or {})}
        made.env = {
            "JOB_NAME": f"spyre/{job}/PR-7", "JOB_BASE_NAME": "PR-7",
            "CHANGE_ID": "7", "CHANGE_TARGET": "main",
        }  # fmt: skip
        made.causes = [{"_class": one} for one in causes]
        toolkit = {"url": str(self.toolkit), "commit": "origin/main", "credentials": ""}
        made.resources = {
            "components.json": json.dumps([known | {"component": "other"}, known]),
            "site.json": json.dumps({"toolkit": toolkit}),
        }
        return made

    def nightly(self, name: str, *faults: dict[str, Any], hud: str = "", **changes: str) -> Scenario:
        params = {
            "VARIANT": "main", "STAGE": "", "BUILDER": "builder", "DEVICE": "device",
            "NOTIFY": "people@example.com",
        }  # fmt: skip
        made = self.scenario(name, "Jenkinsfile.nightly", params | changes, faults)
        made.resources = {"site.json": json.dumps({"hud": hud})}
        return made

    def release(self, name: str, *faults: dict[str, Any], **changes: str) -> Scenario:
        params = {
            "VERSION": "1.2.3", "STACK": "images/release.yaml", "STAGE": "", "BUILDER": "builder",
            "DEVICE": "device", "NOTIFY": "people@example.com",
        }  # fmt: skip
        site = {
            "clone": str(self.project), "credentials": "", "upstream": "quay.example/runtime", "index": "pypi"
        }  # fmt: skip
        made = self.scenario(name, "Jenkinsfile.release", params | changes, faults)
        made.resources = {"site.json": json.dumps({"hud": "", "release": site})}
        return made

    def scenario(
        self, name: str, jenkinsfile: str, params: dict[str, str], faults: tuple[dict[str, Any], ...] = (),
        *, scm: Path | None = None,
    ) -> Scenario:  # fmt: skip
        return Scenario(
            name=name,
            jenkinsfile=jenkinsfile,
            params=params,
            scm=scm or self.toolkit,
            environ=self.environ,
            faults=[{"times": 1, **one} for one in faults],
        )


def hasty(world: World) -> dict[str, str]:
    """An environment where GitHub never answers the first status, and a line's limit comes soon."""
    folder = world.folder / "hasty"
    folder.mkdir()
    limit = folder / "timeout"
    limit.write_text('#!/bin/bash\nexec /usr/bin/timeout "$1" 5 "${@:3}"\n', encoding="utf-8")
    limit.chmod(0o755)
    return {**world.environ, "STAND_IN_HANGS": "1", "PATH": f"{folder}:{world.environ['PATH']}"}


def make_world(folder: Path) -> World:
    """A toolkit that is only a commit; a project whose pull request 7 is behind its main, which is v1.2.3."""
    toolkit = repository(folder / "toolkit-repository", **{"noxfile.py": ""})
    project = repository(folder / "project-repository", **{"a.txt": "a\n"})
    git(project, "switch", "--quiet", "--create", "change")
    head = commit(project, "change", **{"b.txt": "b\n"})
    git(project, "update-ref", "refs/pull/7/head", head)
    git(project, "switch", "--quiet", "main")
    commit(project, "meanwhile", **{"c.txt": "c\n"})
    git(project, "tag", "v1.2.3")
    (folder / "bin").mkdir()
    (folder / "bin" / "nox").write_text(NOX, encoding="utf-8")
    (folder / "bin" / "nox").chmod(0o755)
    return World(folder=folder, toolkit=toolkit, project=project, head=head)
