"""Small wheels and sdists, by hand so that no test waits for a build; and the checkout they are of."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ci.package.artifacts import sha256_of
from ci.package.records import LINT, UNIT, VERIFY, Record, write_record
from tests.calls import Said
from tests.packages import make_sdist, make_wheel
from tests.repositories import commit, git

ROOT = Path(__file__).parent.parent.parent.parent.parent
NAME = "spyre-demo"
USER, TOKEN = "publisher", "pypi-s3cr3t-t0ken"


def wheel(
    folder: Path, version: str = "1.0", *, code: str = "answer = 42\n", tag: str = "py3-none-any"
) -> Path:
    """A wheel that installs the package `spyre_demo` and the module `spyre_demo_extra`."""
    files = {"spyre_demo/__init__.py": code, "spyre_demo_extra.py": "import spyre_demo\n"}
    return make_wheel(folder, NAME, version, files=files, tag=tag)


def sdist(folder: Path, version: str = "1.0", *, code: str = "answer = 42\n") -> Path:
    """An sdist."""
    return make_sdist(folder, NAME, version, files={f"spyre_demo-{version}/spyre_demo/__init__.py": code})


@dataclass(slots=True, kw_only=True)
class Checkout:
    """A checkout with files that were built of it.

    Attributes:
        folder: of it.
        environ: what commands see besides this process's environment.
    """

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def dist(self) -> Path:
        return self.folder / "dist"

    @property
    def records(self) -> Path:
        return self.folder / ".spyre-ci" / "records"

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def make(self, settings: Mapping[str, Any]) -> None:
        """The checkout's first commit."""
        self.folder.mkdir()
        (self.folder / "pyproject.toml").write_text(f'[project]\nname = "{NAME}"\nversion = "1.0"\n')
        (self.folder / ".gitignore").write_text("dist/\n.spyre-ci/\n")
        (self.folder / "spyre-ci.yaml").write_text(yaml.safe_dump({"package": dict(settings)}))
        self.commit()

    def commit(self) -> None:
        commit(self.folder)

    def build(self, version: str = "1.0", **options: str) -> None:
        """Make and verify both files."""
        wheel(self.dist, version, **options)
        sdist(self.dist, version)
        self.verify()

    def verify(self, *, passed: bool = True, dirty: tuple[str, ...] = ()) -> None:
        """Write the record that verifying leaves."""
        files = [
            {"name": one.name, "sha256": sha256_of(one), "size": one.stat().st_size}
            for one in sorted(self.dist.iterdir())
        ]
        write_record(
            self.records,
            Record(
                step=VERIFY, project=NAME, commit=self.git("rev-parse", "HEAD"), dirty=dirty, passed=passed,
                details={"version": "1.0", "files": files, "checks": []},
            ),
        )  # fmt: skip

    def pass_gate(self) -> None:
        """Write the other records that the merge gate asks for."""
        for step in (LINT, UNIT):
            commit = self.git("rev-parse", "HEAD")
            write_record(
                self.records, Record(step=step, project=NAME, commit=commit, passed=True, details={})
            )

    def note(self, index: str = "stage") -> dict[str, Any]:
        """What is noted of an index."""
        told: dict[str, Any] = json.loads((self.records / f"published-{index}.json").read_text())
        return told

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "ci.cli", *words]

    def env(self, **environ: str) -> dict[str, str]:
        # In a CI a token goes to no server of this machine that a settings file names.
        own = {"SPYRE_CI_INDEX_TOKEN", "CI", "GITHUB_ACTIONS", "JENKINS_URL"}
        known = {key: one for key, one in os.environ.items() if key not in own}
        return {**known, "PYTHONPATH": str(ROOT), **self.environ, **environ}

    def spyre_ci(self, *words: str, environ: Mapping[str, str] | None = None) -> Said:
        """Call `spyre-ci` as a user does; no secret is in what it says."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.env(**(environ or {})),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        for secret in (TOKEN, base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()):
            assert secret not in done.stdout + done.stderr
            for path in self.records.glob("*.json"):
                assert secret not in path.read_text()
        return Said(code=done.returncode, out=done.stdout, err=done.stderr)

    def publish(self, *words: str, **environ: str) -> Said:
        """`spyre-ci package publish` to the stage, with a good token."""
        given = {"SPYRE_CI_INDEX_TOKEN": TOKEN, **environ}
        return self.spyre_ci("package", "publish", "--index", "stage", *words, environ=given)
