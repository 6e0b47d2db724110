"""What tests of retention share: runs, releases and caches as they lie on the disk, of any age."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NOW = 1_800_000_000.0
DAY_S = 24 * 3600.0
SHA = "c" * 40
DIGEST = "ab" * 32


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def put(path: Path, kind: str, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": f"spyre-ci/{kind}/1", **content}))
    return path


def age(folder: Path, days: float, *, now: float = NOW) -> Path:
    """Date all there is in a folder, and not the folder itself."""
    at = now - days * DAY_S
    for path in folder.rglob("*"):
        os.utime(path, (at, at), follow_symlinks=False)
    return folder


def make_run(runs: Path, name: str, days: float, *, now: float = NOW, size: int = 4096, **more: Any) -> Path:
    """A run that ended so many days ago.

    `summary` gives other values of its summary, None leaves it out; `identity` those of run.json.
    """
    folder = runs / name
    at = now - days * DAY_S
    identity = {
        "run": name,
        "run_id": int(at),
        "run_attempt": 1,
        "device": "spyre",
        "started_at": iso(at),
        "image": "",
        "reproduce": ["spyre-ci", "run"],
    } | more.get("identity", {})
    put(folder / "run.json", "run", identity)
    put(folder / "plan.json", "plan", {"shards": []})
    if more.get("summary", {}) is not None:
        summary = {
            "run": name,
            "verdicts": {"passed": 1, "not_run": 0},
            "interrupted": False,
            "missing_shards": [],
        }
        put(folder / "summary.json", "summary", summary | more.get("summary", {}))
    (folder / "results.jsonl.gz").write_bytes(os.urandom(size))
    (folder / "journal").mkdir(exist_ok=True)
    (folder / "journal" / "0-1.jsonl").write_text("{}\n")
    return age(folder, days, now=now)


def release_of(*runs: str, image: str = "", run_id: int = 7) -> dict[str, Any]:
    rows = [{"identity": {"run": run, "run_id": run_id, "url": ""}, "exit_code": 0} for run in runs]
    return {"project": "spyre", "version": "1.0", "image": image, "runs": rows, "files": [], "gates": {}}


def make_record(state: Path, number: int, days: float, *, now: float = NOW) -> Path:
    """A kept collection of a file."""
    name = f"{number:064x}"
    path = state / "cache" / "collect" / name[-2:] / f"{name}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 100)
    at = now - days * DAY_S
    os.utime(path, (at, at))
    return path


def make_tree(state: Path, commit: str, days: float, *, now: float = NOW) -> Path:
    """A checked out commit with its mark."""
    tree = state / "sources" / f"git-{'1' * 16}" / "trees" / commit
    (tree / "test").mkdir(parents=True)
    (tree / "test" / "test_a.py").write_text("x = 1\n")
    mark = tree.with_name(f"{commit}.whole")
    mark.touch()
    at = now - days * DAY_S
    for path in (tree / "test" / "test_a.py", tree / "test", tree, mark):
        os.utime(path, (at, at))
    return tree
