"""Look up what is known of a test that is to be brought back, by a run, a CI, a HUD or the line alone.

What a HUD answers is data, bounded and checked.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from ci.core.errors import BadFileError, CommandError, MissingInputError, UsageError
from ci.core.http import pieces
from ci.core.text import one_line
from ci.record.failure_signature import Failure, last_failure
from ci.record.reproduce_line import attempt_of, ref_of
from ci.record.verdict import FAILING, Verdict
from ci.reproduce.evidence import Evidence
from ci.reproduce.read_evidence import checked_folder, find_folder, read_evidence, unpacked
from ci.reproduce.ref import HudPage, find_test, hud_page
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.ids import file_of
from test_selection.seeds import MOST

TIMEOUT_S = 20
# For the whole of an answer, however little comes at a time.
WHOLE_S = 120
MOST_BYTES = 16 << 20
ROWS = 1000
# A file has no more tests than so many pages.
PAGES = 50
TOKEN = "SPYRE_CI_HUD_READ_TOKEN"  # noqa: S105  # a variable's name
Get = Callable[[str, Mapping[str, Any]], Any]
_SHA = 40
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,30}")


def ask(page: HudPage, token: str, clock: Callable[[], float] = time.monotonic) -> Get:
    """What fetches a path of a HUD as JSON.

    Args:
        page: of the run.
        token: for reading, sent to this HUD alone; empty: none is wanted.
        clock: in seconds.
    """
    headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}

    def get(path: str, values: Mapping[str, Any]) -> Any:
        address = f"{page.base}{path}"
        try:
            # Elsewhere nobody has a right to the token, and a page that moves is not the one that was named.
            with requests.get(
                address, params=values, headers=headers, timeout=TIMEOUT_S, allow_redirects=False, stream=True
            ) as answer:
                until = clock() + WHOLE_S
                data = b"".join(pieces(answer, until=until, most_bytes=MOST_BYTES, clock=clock))
                code = answer.status_code
        except (requests.RequestException, HTTPError, OSError) as error:
            raise CommandError(
                f"the HUD does not answer: {type(error).__name__}",
                where=address,
                remedy="see whether it runs",
            ) from error
        return _content(address, code, data)

    return get


def _content(address: str, code: int, data: bytes) -> Any:
    if code in {401, 403}:
        raise CommandError(
            f"the HUD wants a token ({code})", where=address, remedy=f"put it into the environment as {TOKEN}"
        )
    if code == 404:  # noqa: PLR2004  # HTTP's
        raise MissingInputError(
            "the HUD has no such run", where=address, remedy="see its page of runs for those it has"
        )
    if code != 200 or len(data) > MOST_BYTES:  # noqa: PLR2004  # HTTP's
        raise BadFileError(
            f"the HUD answered {code} with {len(data):,} bytes", where=address, remedy="ask it again later"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadFileError("the HUD's answer is no JSON", where=address, remedy="is this a HUD?") from error


def from_hud(page: HudPage, named: str, get: Get) -> Evidence:
    """What a HUD tells of a test.

    Args:
        page: of the run.
        named: the test, as people have it.
        get: fetches a path as JSON.

    Raises:
        SpyreCiError: the HUD does not answer, answers something else, or has no such run or test.
    """
    at = f"{page.base}/runs/{page.number}"
    try:
        told = get(f"/api/runs/{page.number}", {})
        row, said = told["run"], told["details"]
        name, test = _test(page, named, get, at)
        return _evidence(row, said, name, test, at)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise BadFileError(
            f"the HUD's answer lacks what a run has: {type(error).__name__}: {error}",
            where=at,
            remedy="is this a HUD of spyre-ci?",
        ) from error


def _test(page: HudPage, named: str, get: Get, at: str) -> tuple[str, Mapping[str, Any]]:
    """The test's id and row: of its file where the whole id is given, else of what needs a look."""
    rows: dict[str, Mapping[str, Any]] = {}
    if "::" in named:
        for number in range(PAGES):
            values = {"file": file_of(named), "limit": ROWS, "offset": number * ROWS}
            tests = get(f"/api/runs/{page.number}/tests", values)["tests"]
            rows |= {str(one["test_id"]): one for one in tests}
            if named in rows:
                return named, rows[named]
            if len(tests) < ROWS:
                break
    if not rows:
        tests = get(f"/api/runs/{page.number}/tests", {"limit": ROWS})["tests"]
        rows = {str(one["test_id"]): one for one in tests}
    name = find_test(named, dict.fromkeys(rows, ""), where=at)
    return name, rows[name]


def _evidence(
    row: Mapping[str, Any], said: Mapping[str, Any], name: str, test: Mapping[str, Any], at: str
) -> Evidence:
    environment = json.loads(row["environment"] or "{}")
    seed = environment.get("seed")
    provider = str(environment.get("provider") or "")
    verdict, attempts = str(test["verdict"]), int(test["attempts"])
    failed = Verdict.HARDWARE if verdict == "hardware" else Verdict.FAILED
    number = str(row["run_id"])
    sha = str(row["pytorch_head_sha"])
    return Evidence(
        id=name,
        run=one_line(str(said["run"])),
        ref=ref_of(
            run=str(said["run"]),
            provider=provider,
            run_id=int(number) if number.isdecimal() else 0,
            run_attempt=int(row["run_attempt"]),
        ),
        at=at,
        own=False,
        end=Failure(
            verdict=failed if verdict in FAILING | {Verdict.FLAKY} else Verdict(verdict),
            cause=str(test["cause"] or ""),
            message=last_failure(str(test["message"])),
        ),
        verdict=verdict,
        attempt=attempt_of(verdict, attempts),
        attempts=attempts,
        run_seed=seed if type(seed) is int and 0 <= seed <= MOST else None,
        device=str(said["device"]),
        source=f"git+https://github.com/pytorch/pytorch@{sha}"
        if len(sha) == _SHA and sha.isalnum()
        else None,
        sha=sha,
        pytorch_version=str(environment.get("pytorch") or ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user asks for.

    Attributes:
        name: the test, as people have it.
        run: folder, id, `latest`, a CI's run, a HUD's page; None: the newest, or none where `seed` is given.
        archive: an artifact of a run, in place of `run`.
        source: where the tests are; None: where the run's are.
        seed: the run's; None: as it noted.
        attempt: which try is meant; 0: the last that failed.
        tries: how often it is run at most, until it fails as it did.
        with_before: whether what ran before it in its process runs before it again.
    """

    name: str
    run: str | None = None
    archive: Path | None = None
    source: str | None = None
    seed: int | None = None
    attempt: int = 0
    tries: int = 1
    with_before: bool = False


def look_up(context: Context, wanted: Wanted) -> Evidence:
    """What is known of the test.

    Raises:
        BadFileError: what the run calls its device is none.
        SpyreCiError: the run is not there or cannot be read, or has no such test.
    """
    found = _looked_up(context, wanted)
    if wanted.seed is not None and found.run_seed not in (None, wanted.seed):
        note = f"the run's seed is {found.run_seed}, and {wanted.seed} is given: that is taken"
        tried = None if found.tried is None else replace(found.tried, seed=None)
        found = replace(found, notes=(*found.notes, note), tried=tried)
    if wanted.seed is not None:
        found = replace(found, run_seed=wanted.seed)
    if context.settings.origins.get("device.name") == "flag" or not found.device:
        found = replace(found, device=context.settings.model.device.name)
    if not _DEVICE.fullmatch(found.device):
        raise BadFileError(
            f"the run's device is {found.device!r:.80}",
            where=found.at,
            remedy="say which it is with --device",
        )
    return found if wanted.source is None else replace(found, source=wanted.source)


def _looked_up(context: Context, wanted: Wanted) -> Evidence:
    attempt = wanted.attempt
    if wanted.archive is not None:
        with unpacked(context, wanted.archive) as folder:
            return read_evidence(folder, wanted.name, attempt=attempt, own=False, at=str(wanted.archive))
    if wanted.run is None and wanted.seed is not None:
        return _of_nothing(context, wanted, ())
    page = hud_page(wanted.run) if wanted.run is not None else None
    if page is not None:
        return _of_hud(
            context, wanted, from_hud(page, wanted.name, ask(page, context.environ.get(TOKEN, "")))
        )
    try:
        folder = find_folder(context, wanted.run if wanted.run is not None else "latest")
    except MissingInputError as error:
        if wanted.seed is None:
            raise
        # The line says all that is wanted; only what the failure was is not known.
        note = f"{error.what}: there is nothing to compare with"
        return _of_nothing(context, wanted, (note,))
    return _read(context, folder, wanted.name, attempt)


def _read(context: Context, folder: RunFolder, name: str, attempt: int) -> Evidence:
    """What a run's folder tells; one that lies elsewhere than our runs is as a stranger's."""
    own = folder.path.resolve().is_relative_to(context.runs.resolve())
    if not own:
        checked_folder(folder.path)
    return read_evidence(folder, name, attempt=attempt, own=own, at=str(folder.path))


def _of_nothing(context: Context, wanted: Wanted, notes: Sequence[str]) -> Evidence:
    """What the command line alone tells: the id has to be whole.

    Raises:
        UsageError: it is no canonical id.
    """
    file_of(wanted.name)
    source = wanted.source if wanted.source is not None else context.settings.model.pytorch.source
    return Evidence(
        id=wanted.name,
        attempt=wanted.attempt or 1,
        run_seed=wanted.seed,
        device=context.settings.model.device.name,
        source=source,
        notes=tuple(notes),
    )


def _of_hud(context: Context, wanted: Wanted, told: Evidence) -> Evidence:
    """What a HUD tells, or better: what the run's own folder does, where it is here."""
    if told.ref:
        try:
            folder = find_folder(context, told.ref)
        except (MissingInputError, UsageError):
            return told if not wanted.attempt else replace(told, attempt=wanted.attempt)
        return _read(context, folder, told.id, wanted.attempt)
    return told
