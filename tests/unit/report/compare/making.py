"""Run folders as a report leaves them, of tests that are made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ci.record.events import GroupReady, Start
from ci.record.identity import RunIdentity, write_identity
from ci.record.journal_line import line_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.reader import Row
from ci.report.results import write_results, write_summary
from ci.report.totals import Summary
from test_selection.catalog import Catalog, CatalogTest, FileRecord, write_catalog
from test_selection.ids import file_of

T0 = 1_770_000_000.0


def identity(run: str, **content: object) -> RunIdentity:
    base = RunIdentity(
        run=run, run_id=7, run_attempt=1, device="spyre", pytorch_version="2.13.0", pytorch_sha="0" * 40,
        stage=1, percent=5.0, started_at=T0,
    )  # fmt: skip
    return replace(base, **content)  # type: ignore[arg-type]  # fields by name


def write_run(folder: Path, results: Iterable[Result], **content: object) -> Path:
    """A reported run."""
    results = list(results)
    found = Counter(one.verdict for one in results)
    who = identity(folder.name, **content)
    folder.mkdir(parents=True, exist_ok=True)
    write_identity(folder, who)
    write_results(folder / "results.jsonl.gz", folder.name, results)
    summary = Summary(
        identity=who,
        planned=len(results),
        verdicts={verdict: found[verdict] for verdict in Verdict},
        collect_errors=(),
        exit_code=1 if found[Verdict.FAILED] else 0,
        reasons=("a test failed",) if found[Verdict.FAILED] else (),
        completed_at=T0 + 60,
    )
    write_summary(folder / "summary.json", summary)
    return folder


def add_catalog(folder: Path, ids: Sequence[str], errors: Mapping[str, str] | None = None) -> None:
    """The catalog of a run, of these tests and of files that could not be collected."""
    files = {file_of(name): FileRecord(collect_s=1.0) for name in ids}
    files |= {file: FileRecord(error=error) for file, error in (errors or {}).items()}
    tests = [CatalogTest(id=name, node=name, file=file_of(name)) for name in ids]
    path = folder / "catalog.jsonl.gz"
    write_catalog(path, Catalog(pytorch="2.13.0", device="spyre", files=files, tests=tests))


def add_setups(folder: Path, seconds: Mapping[str, float]) -> None:
    """A journal that tells of files' set-ups, and of a test or two."""
    path = folder / "journal" / "0-1.jsonl"
    path.parent.mkdir(exist_ok=True)
    lines = [line_of(GroupReady(t=T0, file=file, setup_s=one)) for file, one in seconds.items()]
    path.write_bytes(b"".join([line_of(Start(t=T0, id="group_ready")), *lines, b'{"torn']))


def rows(verdicts: Mapping[str, Verdict], **content: object) -> list[Row]:
    return [
        Row(id=name, verdict=verdict, **content)  # type: ignore[arg-type]  # fields by name
        for name, verdict in verdicts.items()
    ]


def results(verdicts: Mapping[str, Verdict], seconds: float = 1.0) -> list[Result]:
    return [
        Result(id=name, verdict=verdict, seconds=seconds, file=file_of(name))
        for name, verdict in verdicts.items()
    ]
