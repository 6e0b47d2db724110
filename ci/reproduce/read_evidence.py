"""Reading what is known of one test of a run: of its folder, of a CI's artifact, or of none at all."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ci.core.archives import Wanted, bounded_lines, unpack
from ci.core.errors import BadFileError, MissingInputError, SpyreCiError
from ci.record.failure_signature import Failure, last_failure
from ci.record.identity import FILE as IDENTITY_FILE
from ci.record.identity import RunIdentity, read_identity
from ci.record.journal import gathered_journals
from ci.record.result import Result
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.results import RESULTS_FILE, read_results, read_summary
from ci.reproduce.evidence import Evidence
from ci.reproduce.history import Tried, chosen, tries_of
from ci.reproduce.ref import CiRun, ci_run, find_test
from ci.steps.context import Context
from ci.steps.folder import CATALOG_FILE, JOURNALS, RunFolder, find_run
from ci.steps.run_settings import FILE as NOTE_FILE
from ci.steps.run_settings import read_note
from test_selection.catalog import read_catalog
from test_selection.plan import Group, Plan, read_plan
from test_selection.selection import Expectation, read_selection

# Below the state folder; what is left in it is pruned with the caches.
REPRODUCE_DIR = "reproduce"
# Of a packed file, of what it unpacks to, and of a line of that.
MAX_PACKED, MAX_PLAIN, MAX_LINE = 64 << 20, 512 << 20, 64 << 20
# What of a run's artifact says something of a test, and how much of it.
_FILES = (
    Wanted(pattern=r"(run|source|plan|selection|summary|run-settings)\.json", most_bytes=64 << 20),
    Wanted(pattern=r"(results|catalog)\.jsonl\.gz", most_bytes=MAX_PACKED),
    Wanted(pattern=r"journal/\d{1,6}-\d{1,6}\.jsonl", most_bytes=256 << 20),
)
# A file that an artifact of a run always has.
_BESIDE = RESULTS_FILE
# Of a stranger's run only what bounds how long a test may take is taken over.
_TIMES = ("test_timeout_s", "timeout_factor", "timeout_floor_s", "setup_timeout_s", "grace_s")


def find_folder(context: Context, named: str) -> RunFolder:
    """The folder of a run here: by path, id, `latest`, or as a CI's run is named in a report.

    Raises:
        MissingInputError: there is none.
        UsageError: several are of that CI's run.
    """
    of_ci = ci_run(named)
    if of_ci is None or Path(named).is_dir() or (context.runs / named).is_dir():
        return find_run(context.runs, named, holding=JOURNALS)
    found = list(_of_ci(context.runs, of_ci))
    if not found:
        raise MissingInputError(
            f"the run {named!r} of a CI is not here",
            where=context.runs,
            remedy="fetch its artifact of results and give --from FILE",
        )
    return RunFolder(path=max(found, key=lambda path: (path / IDENTITY_FILE).stat().st_mtime_ns))


def _of_ci(runs: Path, wanted: CiRun) -> Iterator[Path]:
    for path in sorted(runs.glob(f"*/{IDENTITY_FILE}")):
        with contextlib.suppress(SpyreCiError):
            identity = read_identity(path.parent)
            if (identity.provider, identity.run_id, identity.run_attempt) == (
                wanted.provider,
                wanted.run_id,
                wanted.attempt,
            ):
                yield path.parent


@contextlib.contextmanager
def unpacked(context: Context, where: Path) -> Iterator[RunFolder]:
    """The run folder of an artifact, a zip or a folder, while the block lasts; all of it is data.

    Raises:
        MissingInputError: there is no such file, or it holds no run.
        BadFileError: it is no zip, leads elsewhere, or holds more than agreed.
    """
    if where.is_dir():
        yield RunFolder(path=checked_folder(where.resolve()))
        return
    if not where.is_file():
        raise MissingInputError(
            "there is no such archive", where=where, remedy="fetch the artifact of the run's results first"
        )
    place = context.settings.state_dir / REPRODUCE_DIR
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=place) as folder:
        unpack(where, Path(folder), _FILES, beside=_BESIDE)
        _refuse_bombs(Path(folder))
        yield RunFolder(path=Path(folder))


def _refuse_bombs(run: Path) -> None:
    """Refuse files that unpack to more than agreed, before anybody unpacks one whole.

    Raises:
        BadFileError: one does, or is no gzip file.
    """
    for name in (RESULTS_FILE, CATALOG_FILE):
        if (run / name).is_file():
            for _ in bounded_lines(run / name, most_bytes=MAX_PLAIN, most_line=MAX_LINE):
                pass


def checked_folder(folder: Path) -> Path:
    """The folder itself, or the one below it that holds a run.

    Args:
        folder: a stranger's.

    Raises:
        MissingInputError: neither does.
        BadFileError: a file in it is a link, and might lead anywhere, or unpacks to more than agreed.
    """
    found = [folder, *sorted(path.parent for path in folder.glob(f"*/{IDENTITY_FILE}"))]
    run = next((one for one in found if (one / IDENTITY_FILE).is_file()), None)
    if run is None:
        raise MissingInputError(
            f"holds no {IDENTITY_FILE}, so no run", where=folder, remedy="name the unpacked artifact of a run"
        )
    for path in [run, *run.iterdir(), *(run / JOURNALS).glob("*")]:
        if path.is_symlink():
            raise BadFileError(
                "is a link, and an artifact has none", where=path, remedy="unpack the artifact again"
            )
    _refuse_bombs(run)
    return run


def read_evidence(folder: RunFolder, named: str, *, attempt: int, own: bool, at: str) -> Evidence:
    """What a run folder tells of a test.

    Args:
        folder: of the run.
        named: the test, as people have it.
        attempt: the try that is meant; 0: the last that failed.
        own: whether it is a run of this machine.
        at: where it is, for people.

    Raises:
        MissingInputError: the folder is of no run, has no such test, or no such try of it.
        UsageError: several tests are meant.
        BadFileError: a file of it cannot be read.
    """
    identity = _identity(folder)
    plan = read_plan(folder.plan) if folder.plan.is_file() else None
    results = {one.id: one for one in read_results(folder.results)} if folder.results.is_file() else {}
    name = find_test(named, _names(folder, plan, results), where=at)
    tries = tries_of(name, gathered_journals(folder.path))
    result = results.get(name)
    tried = chosen(tries, attempt or (result.tried if result is not None else 0))
    if attempt and tried is None and (tries or result is None or attempt > max(result.attempts, 1)):
        raise MissingInputError(
            f"no attempt {attempt} of the test is told of",
            where=at,
            remedy=f"there were {len(tries) or (result.attempts if result else 0)}; leave --attempt out",
        )
    found = Evidence(
        id=name,
        run=identity.run,
        ref=identity.ref,
        at=at,
        own=own,
        end=_end(tried, result),
        verdict=_verdict(tried, result),
        attempt=tried.number if tried is not None else attempt or (result.tried if result else 0) or 1,
        attempts=result.attempts if result is not None else len(tries),
        run_seed=_run_seed(plan, identity, tried),
        device=identity.device,
        source=identity.source,
        sha=identity.pytorch_sha,
        pytorch_version=(tried.place.torch if tried else "") or identity.pytorch_version,
        back_end=(tried.place.back_end if tried else "") or identity.back_end,
        image=(tried.place.image if tried else "") or identity.image,
        tried=tried,
        group=_group(plan, name),
        expectations=_expectations(folder, [name, *(one for one, _ in (tried.before if tried else ()))]),
        settings=_settings(folder),
    )
    return replace(found, notes=_notes(found, tries))


def _identity(folder: RunFolder) -> RunIdentity:
    if folder.identity.is_file():
        return read_identity(folder.path)
    if folder.summary.is_file():
        return read_summary(folder.summary).identity
    raise MissingInputError(
        f"holds neither {IDENTITY_FILE} nor a summary, so no run",
        where=folder.path,
        remedy="name the folder of a run",
    )


def _names(folder: RunFolder, plan: Plan | None, results: dict[str, Result]) -> dict[str, str]:
    """By id the node id of each test of the run, where its catalog tells."""
    names = dict.fromkeys(plan.ids if plan is not None else results, "")
    catalog = folder.path / CATALOG_FILE
    if catalog.is_file():
        with contextlib.suppress(SpyreCiError):  # ids serve without it
            nodes = {test.id: test.node for test in read_catalog(catalog).tests}
            names = {name: nodes.get(name, "") for name in names}
    return names


def _end(tried: Tried | None, result: Result | None) -> Failure | None:
    if tried is not None and tried.end.verdict not in NO_OUTCOME:
        return tried.end
    if result is None or result.verdict in NO_OUTCOME:
        return None
    verdict = Verdict.FAILED if result.verdict is Verdict.FLAKY else result.verdict
    return Failure(verdict=verdict, cause=result.cause or "", message=last_failure(result.message))


def _verdict(tried: Tried | None, result: Result | None) -> str:
    if result is not None:
        return result.verdict.value
    return tried.end.verdict.value if tried is not None else ""


def _run_seed(plan: Plan | None, identity: RunIdentity, tried: Tried | None) -> int | None:
    if tried is not None:
        return tried.place.run_seed  # of an old run, which seeded nothing, there is none
    return identity.seed if plan is None else plan.seed


def _group(plan: Plan | None, name: str) -> Group | None:
    groups = [group for shard in (plan.shards if plan else ()) for group in shard.groups]
    return next((group for group in groups if name in group.ids), None)


def _expectations(folder: RunFolder, names: Sequence[str]) -> dict[str, Expectation]:
    declared = read_selection(folder.selection).expectations if folder.selection.is_file() else {}
    return {name: declared[name] for name in names if name in declared}


def _settings(folder: RunFolder) -> dict[str, object]:
    if not (folder.path / NOTE_FILE).is_file():
        return {}
    with contextlib.suppress(SpyreCiError):
        note = read_note(folder)
        return {} if note is None else {key: note.run[key] for key in _TIMES if key in note.run}
    return {}


def _notes(found: Evidence, tries: list[Tried]) -> tuple[str, ...]:
    said = []
    if found.tried is None:
        said.append("no journal tells of the test: what ran before it, and in what, is not known")
    elif found.tried.seed is None:
        said.append("the run noted no seed: the test may have had any")
    bad = sum(one.end.bad for one in tries)
    if 0 < bad < len(tries):
        said.append(f"of {len(tries)} tries {bad} failed: it may be flaky, try it several times (--tries)")
    return tuple(said)
