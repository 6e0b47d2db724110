"""What a HUD tells of one test of a run, by its read API; what it answers is data, bounded and checked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from ci.core.errors import BadFileError, CommandError, MissingInputError
from ci.core.http import pieces
from ci.core.text import one_line
from ci.record.failure_signature import Failure, last_failure
from ci.record.reproduce_line import attempt_of, ref_of
from ci.record.verdict import FAILING, Verdict
from ci.reproduce.evidence import Evidence
from ci.reproduce.naming import find_test
from ci.reproduce.ref import HudPage
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
