"""What becomes of a pod that ended, as a cluster's failure policy has it, and of the job they are of."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE


class Next(Enum):
    """What a cluster's failure policy makes of a pod that ended."""

    DONE = "done"
    FAILED = "failed"
    AGAIN = "again"


def decide(code: int, *, tries: int, retries: int) -> Next:
    """Whether another pod takes up an index: not where a test failed or usage is wrong.

    Args:
        code: the pod's exit code.
        tries: pods of the index so far, this one among them.
        retries: how often one is replaced.
    """
    if code == EXIT_OK:
        return Next.DONE
    if code in {EXIT_TEST_FAILED, EXIT_USAGE} or tries > retries:
        return Next.FAILED
    return Next.AGAIN


def exit_code_of(codes: Sequence[int]) -> int:
    """The whole job's exit code: usage, then what is incomplete, then failed tests.

    Args:
        codes: of the pods that were each index's last.
    """
    told = {code if code in {EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE} else EXIT_INCOMPLETE for code in codes}
    return next((code for code in (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED) if code in told), EXIT_OK)
