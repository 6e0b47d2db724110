"""The seeds of tests: each follows from the run's, the test's id and which try it is. Pure.

A test that fails only for some seeds fails again with the seed it had, whatever ran before it, on whichever
shard, host or card: nothing but these three goes into it.
"""

from __future__ import annotations

import hashlib

# Of numpy's legacy generator, the narrowest of those that are seeded.
BITS = 32
MOST = (1 << BITS) - 1


def seed_of_test(run_seed: int, name: str, attempt: int) -> int:
    """The seed of one try of a test, 0 to 2**32 - 1.

    Args:
        run_seed: of the run.
        name: the test's test id.
        attempt: which try it is, from 1.
    """
    # Names are of pull requests and may hold anything: lengths keep two texts from running together.
    said = name.encode("utf-8", "surrogatepass")
    return _number(b"test %d %d %d " % (run_seed, attempt, len(said)) + said)


def seed_of_fingerprint(fingerprint: str) -> int:
    """The seed of a run whose plan names none, as plans of earlier versions: the same on every host."""
    return _number(b"plan " + fingerprint.encode("utf-8", "surrogatepass"))


def _number(data: bytes) -> int:
    return int.from_bytes(hashlib.sha256(data).digest()[: BITS // 8], "big")
