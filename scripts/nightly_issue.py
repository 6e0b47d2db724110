"""Keep one issue while the night is red: opened when it breaks, kept up to date, closed when it is green.

usage: in a job of a workflow, with NEEDS (GitHub's `toJSON(needs)`) and GITHUB_TOKEN in the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ci.core.errors import SpyreCiError, UsageError
from ci.core.github.client import Client, connect, in_repository
from ci.pipeline.gate import read_needs

TITLE = "The night is red"
MARK = "<!-- spyre-ci: nightly -->"


def keep(client: Client, repository: str, *, failed: str, run: str, now: datetime) -> str:
    """Open, change or close the issue; what was done.

    Args:
        client: of GitHub.
        repository: as `owner/name`.
        failed: the jobs that did not succeed; empty where all did.
        run: the address of this run.
        now: when it ended.

    Raises:
        GitHubError: GitHub does not take it.
    """
    path = in_repository(repository, "issues")
    there = find(client, path)
    if not failed and there is None:
        return "the night is green, and no issue is open"
    since = there["body"].splitlines()[1] if there else f"Red since {now:%Y-%m-%d}."
    newest = f"Newest run ({now:%Y-%m-%d %H:%M} UTC): {run}"
    body = "\n".join([MARK, since, f"Failed: {failed}." if failed else "Green again.", newest])
    if there is None:
        made = client.send("POST", path, {"title": TITLE, "body": body})
        return f"issue {made['number']} opened"
    state = "open" if failed else "closed"
    client.send("PATCH", f"{path}/{there['number']}", {"body": body, "state": state})
    return f"issue {there['number']} is {state} and tells of this run"


def find(client: Client, path: str) -> Mapping[str, Any] | None:
    """The open issue that we wrote, the oldest where there are several; anybody can write our mark."""
    login = client.login()
    rows = client.pages(path, {"state": "open", "creator": login})
    ours = [row for row in rows if str(row.get("body")).startswith(MARK) and row["user"]["login"] == login]
    return min(ours, key=lambda row: int(row["number"]), default=None)


def main(environ: Mapping[str, str]) -> int:
    """Read the environment and keep the issue; the exit code."""
    try:
        repository, number = environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_RUN_ID", "")
        if not repository or not number:
            raise UsageError(
                "this is no job of GitHub Actions",
                where="GITHUB_REPOSITORY, GITHUB_RUN_ID",
                remedy="call it in a workflow",
            )
        needs = read_needs(environ.get("NEEDS", ""))
        bad = [name for name, job in needs.items() if job.get("result") != "success"]
        failed = ", ".join(bad if needs else ["no job ran"])
        run = f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}/actions/runs/{number}"
        print(keep(connect(environ), repository, failed=failed, run=run, now=datetime.now(UTC)))  # noqa: T201
    except SpyreCiError as error:
        print(error, file=sys.stderr)  # noqa: T201  # the output of a script
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
