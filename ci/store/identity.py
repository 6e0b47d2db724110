"""What a report's parts are known by, one function each for the client and the server; pure."""

from __future__ import annotations

import hashlib
import json
import re

# HUD's rows name a job by a whole number that passes through JavaScript.
JOB_BITS = 53
KEY_BITS = 63
# The greatest whole number that JavaScript reads exactly.
MAX_WHOLE = 2**53 - 1


def job_number(check_run_id: str | int, *, repository: str) -> int:
    """The whole number from 1 that rows of tests name a job by.

    GitHub's `job.check_run_id` is one already, alone in the world; anything else is hashed with the
    repository, so that both sides find the same and no two back ends share it.

    Args:
        check_run_id: as the job's callback has it.
        repository: owner/name of the downstream repository.
    """
    text = str(check_run_id)
    if re.fullmatch(r"[1-9][0-9]{0,15}", text) and int(text) < 2**JOB_BITS:
        return int(text)
    return _hashed(f"{repository}/{text}", JOB_BITS)


def stored_number(number: int, *, repository: str) -> int:
    """What a server's tables name a job by: the number alone is what any repository may say of a job.

    Args:
        number: see `job_number`.
        repository: owner/name, as the token vouches for it.
    """
    return _hashed(f"{repository}#{number}", JOB_BITS)


def key_of_test(test_id: str, place: int = 0) -> int:
    """The whole number from 1, below 2**63, that a test is known by across runs.

    Args:
        test_id: the test id, or `file::class::name` where a runner knows none.
        place: how many rows of the same id stand before it in one file.
    """
    return _hashed(f"{place}:{test_id}" if place else test_id, KEY_BITS)


def stored(name: str) -> str:
    """A name as a table keeps it: as JSON writes it, so that any text comes back as it was."""
    return json.dumps(name)[1:-1]


def original(kept: str) -> str:
    """The name that `stored` was given."""
    return str(json.loads(f'"{kept}"')) if "\\" in kept else kept


def _hashed(text: str, bits: int) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - bits) or 1
