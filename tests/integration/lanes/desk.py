"""A folder with lanes, what they run, and workers that are processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.calls import until

ROOT = Path(__file__).parent.parent.parent.parent
WAIT_S = 60.0
# The verbs with the settings that the root command resolves, and nothing else of the command line: it starts
# four times as fast.
MAIN = """
import os, sys
from pathlib import Path
import typer
from ci.config import load_settings
from ci.core.errors import SpyreCiError
from ci.lanes.cli import run, status
lanes = typer.Typer()
lanes.command()(run)
lanes.command()(status)
@lanes.callback()
def root(ctx: typer.Context):
    ctx.obj = load_settings(path=None, environ=os.environ, flags={}, cwd=Path.cwd())
try:
    sys.exit(lanes(sys.argv[1:], standalone_mode=False))
except SpyreCiError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
# Stands for nox: each session does what its name says, once it has written down that it began.
NOX = """#!{python} -IS
import json, os, signal, sys, time
at = os.environ
session = sys.argv[sys.argv.index("-s") + 1]
line = json.dumps({{
    "session": session, "lane": at["SPYRE_CI_LANE"], "run": at["SPYRE_CI_LANE_FOLDER"].split("/")[-1],
    "pid": os.getpid(), "words": sys.argv[1:], "cwd": os.getcwd(), "environ": dict(at),
}})
ledger = os.open({ledger!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(ledger, line.encode() + b"\\n")
name, _, number = session.partition("-")
if name == "sleep":
    time.sleep(int(number) / 1000)
elif name == "code":
    sys.exit(int(number))
elif name == "polite":
    def end(*_):
        print("wrote the account", flush=True)
        sys.exit(int(number))
    signal.signal(signal.SIGINT, end)
    print("up", flush=True)
    time.sleep(600)
elif name == "deaf":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("up", flush=True)
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(600)
elif name == "until":
    while not os.path.exists({ledger!r} + ".go"):
        time.sleep(0.02)
"""
SOON = {"after_end": {"min": 0, "max": 0.0003}}
ONCE = {"after_end": {"min": 300, "max": 300, "unit": "days"}}


def lane(session: str, cadence: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    return {"run": {"session": {"name": session}}, "cadence": cadence or ONCE, **given}


class Desk:
    """The folder of the settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.state = folder / ".spyre-ci" / "lanes"
        bin_ = folder / "bin"
        bin_.mkdir()
        (bin_ / "nox").write_text(NOX.format(python=sys.executable, ledger=str(self.ledger)))
        (bin_ / "nox").chmod(0o755)
        self.environ = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.made: list[subprocess.Popen[str]] = []

    def lanes(self, worker: dict[str, Any] | None = None, /, **lanes: dict[str, Any]) -> None:
        settings = {"lanes": lanes, "lane_worker": {"poll_s": 0.1, "ending_s": 5, **(worker or {})}}
        (self.folder / "spyre-ci.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[str]:
        one = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words], cwd=self.folder, env=self.environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.made.append(one)
        return one

    def call(self, *words: str) -> tuple[int, str, str]:
        one = self.start(*words)
        out, said = one.communicate(timeout=WAIT_S)
        return one.returncode, out, said

    def begun(self) -> list[dict[str, Any]]:
        """What really began, in its order."""
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_text(encoding="utf-8").splitlines()]

    def history(self) -> list[dict[str, Any]]:
        """The runs by `status`, the oldest first."""
        code, out, said = self.call("status", "--json", "--limit", "10000")
        assert code == 0, said
        return list(reversed(json.loads(out)["runs"]))

    def left(self) -> list[str]:
        """Processes of runs that are still there."""
        wanted = f"SPYRE_CI_LANE_FOLDER={self.state}/".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in path.read_bytes():
                    found.append(path.parent.name)
        return found

    def up(self, name: str) -> None:
        """Wait until the lane's run listens to signals, or has seen to it that it does not."""
        logs = self.state / name
        until(lambda: any("up\n" in path.read_text(encoding="utf-8") for path in logs.glob("*/output.log")))

    def go(self) -> None:
        """Let what runs until it is told go."""
        Path(f"{self.ledger}.go").touch()

    def close(self) -> None:
        for one in self.made:
            if one.poll() is None:
                one.kill()
            one.communicate(timeout=WAIT_S)
        for row in self.begun():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(row["pid"], signal.SIGKILL)
