"""Small wheels and sdists, by hand so that no test waits for a build; and the checkout they are of."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ci.package.artifacts import sha256_of
from ci.package.records import BUILD, LINT, UNIT, VERIFY, Record, write_record

ROOT = Path(__file__).parent.parent.parent.parent.parent
NAME = "spyre-demo"
USER, TOKEN = "publisher", "pypi-s3cr3t-t0ken"
# What the gates judge is not the matter here.
DRIVER = """
import ci.package.publish_cli as verbs
verbs.gate_of = lambda *_: lambda *_: None
from ci.cli import main
main()
"""


def metadata(version: str) -> str:
    return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nSummary: A demonstration\n"


def wheel(
    folder: Path, version: str = "1.0", *, code: str = "answer = 42\n", tag: str = "py3-none-any"
) -> Path:
    """A wheel that installs the package `spyre_demo` and the module `spyre_demo_extra`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"spyre_demo-{version}-{tag}.whl"
    info = f"spyre_demo-{version}.dist-info"
    files = {
        "spyre_demo/__init__.py": code,
        "spyre_demo_extra.py": "import spyre_demo\n",
        f"{info}/METADATA": metadata(version),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items())
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            packed.writestr(zipfile.ZipInfo(name), text)
    return path


def sdist(folder: Path, version: str = "1.0", *, code: str = "answer = 42\n") -> Path:
    """An sdist."""
    folder.mkdir(parents=True, exist_ok=True)
    top, stream = f"spyre_demo-{version}", io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        for name, text in {"PKG-INFO": metadata(version), "spyre_demo/__init__.py": code}.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    path = folder / f"{top}.tar.gz"
    path.write_bytes(gzip.compress(stream.getvalue(), mtime=0))
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """In one line."""
        return " ".join((self.stdout + self.stderr).split())

    @property
    def json(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.stdout)
        return told


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
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words], check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def make(self, settings: Mapping[str, Any]) -> None:
        """The checkout's first commit."""
        self.folder.mkdir()
        (self.folder / "pyproject.toml").write_text(f'[project]\nname = "{NAME}"\nversion = "1.0"\n')
        (self.folder / ".gitignore").write_text("dist/\n.spyre-ci/\n")
        (self.folder / "spyre-ci.yaml").write_text(yaml.safe_dump({"package": dict(settings)}))
        self.git("init", "-q", "-b", "main")
        self.commit()

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "change")

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
        for step in (LINT, UNIT, BUILD):
            commit = self.git("rev-parse", "HEAD")
            write_record(
                self.records, Record(step=step, project=NAME, commit=commit, passed=True, details={})
            )

    def note(self, index: str = "stage") -> dict[str, Any]:
        """What is noted of an index."""
        told: dict[str, Any] = json.loads((self.records / f"published-{index}.json").read_text())
        return told

    def command(self, *words: str, open_gates: bool = False) -> list[str]:
        start = ["-c", DRIVER] if open_gates else ["-m", "ci.cli"]
        return [sys.executable, *start, *words]

    def env(self, **environ: str) -> dict[str, str]:
        # In a CI a token goes to no server of this machine that a settings file names.
        own = {"SPYRE_CI_INDEX_TOKEN", "CI", "GITHUB_ACTIONS", "JENKINS_URL"}
        known = {key: one for key, one in os.environ.items() if key not in own}
        return {**known, "PYTHONPATH": str(ROOT), **self.environ, **environ}

    def spyre_ci(
        self, *words: str, open_gates: bool = False, environ: Mapping[str, str] | None = None
    ) -> Result:
        """Call `spyre-ci` as a user does; no secret is in what it says."""
        done = subprocess.run(
            self.command(*words, open_gates=open_gates),
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
        return Result(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def publish(self, *words: str, **environ: str) -> Result:
        """`spyre-ci package publish` to the stage, with a good token."""
        given = {"SPYRE_CI_INDEX_TOKEN": TOKEN, **environ}
        return self.spyre_ci("package", "publish", "--index", "stage", *words, environ=given)
