"""Collect a tree into one catalog: files that did not change from the cache, the others by a process."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ci.core.commands import kill_group, signal_name
from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.runner.child import EXIT_TERMINATED, last_lines, log_of, module_words
from ci.runner.orphans import VARIABLE, end_orphans
from ci.runner.prepared_parent import wants_machinery
from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.files import read_bounded, read_json, write_json

KIND = "collected-file"
# PyTorch's test code reads these when it is imported, and they decide which tests there are.
VARIABLE_PREFIXES = ("PYTORCH_", "TORCH", "ATEN_", "TEST_", "NUM_", "SPYRE", "AIU_", "KINETO_", "DISABLE_")
VARIABLES = frozenset({"CI", "IN_CI", "BUILD_ENVIRONMENT", "SANDCASTLE", "SHARD_NUMBER", "TW_JOB_USER"})
# PyTorch's files end the import of torch itself, and a machine under load is slow.
STALL_S = 600
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """How to collect.

    Attributes:
        device: the device under test.
        environ: the whole environment of the collecting processes.
        workers: files collected side by side.
        timeout_s: seconds after which one file is given up.
        method: `fork` or `spawn`.
        may_change: whether a collector that has the device open before it forks spawns after all.
    """

    device: str
    environ: Mapping[str, str]
    workers: int
    timeout_s: float
    method: str
    may_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A catalog, the full text of each file's error, clashing ids, and how many files came from the cache."""

    catalog: Catalog
    details: Mapping[str, str]
    clashes: Mapping[str, Sequence[str]]
    cached: int


def find_files(tests: Path, patterns: Sequence[str]) -> list[str]:
    """Test files below `tests`, sorted, that match one of the globs (all of them when there are none).

    Raises:
        MissingInputError: a pattern matches no file.
    """
    every = sorted(path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py") if path.is_file())
    if not every:
        raise MissingInputError("there is no test_*.py file", where=tests, remedy="name another folder")
    if not patterns:
        return every
    found: set[str] = set()
    for pattern in patterns:
        matching = [name for name in every if fnmatch.fnmatchcase(name, pattern)]
        if not matching:
            raise MissingInputError(
                f"no test file matches {pattern!r}",
                where=tests,
                remedy="give paths relative to that folder, such as test_view_ops.py or inductor/*",
            )
        found.update(matching)
    return sorted(found)


def collect(
    tests: Path,
    files: Sequence[str],
    *,
    version: str,
    options: CollectOptions,
    cache: CollectCache | None,
    progress: Progress,
) -> Collection:
    """Collect `files`.

    Args:
        tests: the folder they are named relative to.
        files: test files.
        version: torch's version, noted in the catalog.
        options: how to collect.
        cache: kept collections, or None to collect everything.
        progress: called with each finished file.

    Raises:
        CommandError: the collecting process itself could not work (torch is missing, say).
    """
    records: dict[str, dict[str, Any]] = {}
    for file in files:
        if cache is not None and (record := cache.get(file)) is not None:
            records[file] = record
            progress(file)
    cached = len(records)
    missing = [file for file in files if file not in records]
    for file, record, keep in _collect_missing(tests, missing, options):
        records[file] = record
        if keep and cache is not None:
            cache.put(file, record)
        progress(file)
    return _collection([records[file] for file in files], version, options.device, cached)


def _collection(records: Sequence[Mapping[str, Any]], version: str, device: str, cached: int) -> Collection:
    files = {
        row["file"]: FileRecord(collect_s=row["collect_s"], error=row["error"], note=row.get("note"))
        for row in records
    }
    rows = [
        CatalogTest(
            id=row["id"],
            node=row["node"],
            file=record["file"],
            cls=row["class"],
            template=row["template"],
            op=row["op"],
            dtype=row["dtype"],
            markers=tuple(row.get("markers", ())),
        )
        for record in records
        for row in record["tests"]
    ]
    return Collection(
        catalog=Catalog(pytorch=version, device=device, files=files, tests=rows),
        details={row["file"]: row["detail"] for row in records if row["error"]},
        clashes={row["file"]: row["clashes"] for row in records if row.get("clashes")},
        cached=cached,
    )


def _collect_missing(
    tests: Path, files: Sequence[str], options: CollectOptions
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield (file, record, whether it is worth keeping) for each file, in the order they end.

    Where the collecting process is killed, each file that it had in hand is collected by one of its own: the
    file that killed it kills that too, and costs itself alone.
    """
    left = list(files)
    while left:
        with tempfile.TemporaryDirectory(prefix="spyre-ci-collect-") as name:
            folder = Path(name)
            done: set[str] = set()
            begun: list[str] = []
            try:
                for row in _run_collector(tests, left, options, folder):
                    done.add(row["file"])
                    if "out" in row:
                        yield row["file"], read_json(Path(row["out"]), KIND), True
                    else:
                        # A crash or a time-out may have had a passing reason (memory, load).
                        yield row["file"], _failed(**row), False
            except _KilledError as error:
                logs = {file: log_of(folder, number) for number, file in enumerate(left)}
                begun = [file for file in left if file not in done and logs[file].exists()]
                if not begun and not done:
                    raise
                if len(left) == 1:
                    yield left[0], _failed(left[0], f"ended the process that collects: {error.what}"), False
                    return
            else:
                never = "the collecting process ended before it came to this file"
                yield from ((file, _failed(file, never), False) for file in left if file not in done)
                return
        for file in begun:
            yield from _collect_missing(tests, [file], options)
        left = [file for file in left if file not in done and file not in begun]


def _failed(file: str, error: str, detail: str = "", collect_s: float = 0.0) -> dict[str, Any]:
    told = {"file": file, "error": error, "detail": detail, "collect_s": collect_s}
    return told | {"modules": [], "tests": []}


def _run_collector(
    tests: Path, files: Sequence[str], options: CollectOptions, folder: Path
) -> Iterator[dict[str, Any]]:
    log = folder / "collector.log"
    mark = f"{os.getpid()}:{folder}"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            module_words("ci.runner.collect_process"),
            env={**options.environ, VARIABLE: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    told = {name: value for name, value in asdict(options).items() if name != "environ"}
    machinery = wants_machinery(tests, files)
    named = {"tests": str(tests), "files": list(files), "folder": str(folder), "parent": os.getpid()}
    task = {**told, **named, "machinery": machinery, "threads": 1}
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101  # PIPE was asked for
    try:
        # A collector that ended before it read its task says why in its log.
        with contextlib.suppress(BrokenPipeError), process.stdin as stream:
            stream.write(json.dumps(task).encode())
        for line in process.stdout:
            yield json.loads(line)
        code = process.wait(timeout=STALL_S)
    finally:
        # The collector ends its children with itself; what is left of its group goes with it.
        kill_group(process.pid)
        end_orphans(mark)
        process.stdout.close()
        process.wait(timeout=STALL_S)
    if code != 0:
        raise _collector_failed(code, last_lines(log, 12))


class _KilledError(CommandError):
    """The collecting process was killed, perhaps by a file."""


def _collector_failed(code: int, tail: str) -> SpyreCiError:
    remedy = (
        'install it into the same environment: pip install "spyre-ci[torch]"'
        if "No module named 'torch'" in tail or "No module named 'numpy'" in tail
        else "the lines above say why; `spyre-ci collect` repeats this step alone"
    )
    shown = "\n".join(f"  | {line}" for line in tail.splitlines())
    kind = _KilledError if code < 0 or code == EXIT_TERMINATED else CommandError
    said = f"died by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
    return kind(f"the collecting process {said}\n{shown}".rstrip(), remedy=remedy)


def collection_key(environ: Mapping[str, str], *, device: str, extra: Iterable[Path]) -> str:
    """A hash of all that decides a collection besides the tree's own files.

    Args:
        environ: the environment the collection runs in.
        device: the device under test.
        extra: more files it depends on: the device's test base, the hooks, the suite file.
    """
    facts = {
        "python": platform.python_version(),
        "packages": installed_packages(),
        "device": device,
        "environment": {
            name: value
            for name, value in sorted(environ.items())
            if name in VARIABLES or name.startswith(VARIABLE_PREFIXES)
        },
        "files": [hashlib.sha256(path.read_bytes()).hexdigest() for path in extra],
    }
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def installed_packages() -> list[str]:
    """Name and version of everything installed: a test file may import any of it, and skip without it."""
    found = {f"{one.name}=={one.version}" for one in importlib.metadata.distributions()}
    return sorted(name for name in found if not name.startswith("spyre-ci=="))


@dataclass(slots=True, kw_only=True)
class CollectCache:
    """Collected files by what they depend on.

    Attributes:
        folder: where the records are.
        root: the tree's root; test files and helper modules are below it.
        tests: the folder test files are named relative to.
        key: what `collection_key` gave.
    """

    folder: Path
    root: Path
    tests: Path
    key: str
    _hashes: dict[Path, str] = field(default_factory=dict)

    def get(self, file: str) -> dict[str, Any] | None:
        """The record of a file, or None where there is none or something it imports has changed."""
        try:
            record = read_json(self._path(file), KIND)
            fresh = all(self._hash(self.root / name) == seen for name, seen in record["hashes"].items())
        except (SpyreCiError, KeyError, AttributeError):
            return None  # a record that cannot be read is as none, and is written anew
        return record if fresh else None

    def put(self, file: str, record: Mapping[str, Any]) -> None:
        """Keep the record of a file with the hash of each module of the tree it imported."""
        hashes = {name: self._hash(self.root / name) for name in record["modules"]}
        # A cache that cannot be written (a full disk, a read-only state folder) costs time, not the run.
        with contextlib.suppress(OSError):
            write_json(self._path(file), KIND, {**record, "hashes": hashes})

    def _path(self, file: str) -> Path:
        parts = (self.key.encode(), os.fsencode(file), self._hash(self.tests / file).encode())
        name = hashlib.sha256(b"\0".join(parts)).hexdigest()
        return self.folder / name[:2] / f"{name}.json.gz"

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            try:
                self._hashes[path] = hashlib.sha256(read_bounded(path)).hexdigest()
            except OSError as error:  # gone, unreadable, a folder: each is a state of its own
                self._hashes[path] = f"errno {error.errno}"
        return self._hashes[path]
