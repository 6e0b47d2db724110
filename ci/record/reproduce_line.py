"""The one line that brings a test of a run back, wherever it is shown and wherever it is pasted. Pure.

It says all that has to be known: the sources at their commit, the device, the seed of the run and which try
of the test it was. The run stands at its end, for where its folder is: the failure is compared with it.
"""

from __future__ import annotations

import re

from ci.core.text import shell_line

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# What names a run in a line that people paste; others are not named.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_PROVIDER = re.compile(r"[a-z][a-z0-9]{0,30}")


def reproduce_line(
    name: str,
    *,
    device: str,
    source: str | None = None,
    sha: str = "",
    seed: int | None = None,
    ref: str = "",
    attempt: int = 1,
) -> str:
    """The command line, quoted for a shell, that runs one test again as a run did.

    Args:
        name: the test's test id; behind `--`, for it may begin like an option.
        device: the run was on.
        source: where the tests are; None: the embedded op suite.
        sha: their exact commit; empty or a content hash where there is none.
        seed: of the run; None where it had none, as in earlier versions.
        ref: names the run; empty: nothing does.
        attempt: which try of the test is meant, from 1; each has a seed of its own.
    """
    words = ["spyre-ci", "reproduce", "--run"]
    if source is not None:
        words += ["--pytorch-src", at_commit(source, sha)]
    words += ["--device", device]
    if seed is not None:
        words += ["--seed", str(seed)]
        words += ["--attempt", str(attempt)] if attempt > 1 else []
    return shell_line([*words, "--", name, *([ref] if ref else [])])


def at_commit(source: str, sha: str) -> str:
    """The source at its commit: a branch or tag moves, and a commit does not."""
    if source.startswith("git+") and _COMMIT.fullmatch(sha):
        return f"{source.rpartition('@')[0]}@{sha}"
    return source


def attempt_of(verdict: str, attempts: int) -> int:
    """Which try of a test a verdict speaks of: the last, but of a flaky test the one before, which failed."""
    return max(attempts - 1 if verdict == "flaky" else attempts, 1)


def ref_of(*, run: str, provider: str, run_id: int, run_attempt: int) -> str:
    """What names a run in the line: its readable id, or of a CI's, whose folders are all called `ci`, that.

    Args:
        run: the readable id.
        provider: github, jenkins or none.
        run_id: the CI's number.
        run_attempt: from 1.
    """
    if provider not in ("", "none"):
        return f"{provider}-{run_id}.{run_attempt}" if _PROVIDER.fullmatch(provider) and run_id > 0 else ""
    return run if RUN_NAME.fullmatch(run) else ""
