"""A lane's runs as runs of a GitHub workflow, known by the input that carries the order's id.

GitHub says which run a start became only where it is new enough; else, and where the answer was lost, the run
is found by its name, which has the id in it by the workflow's `run-name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from shutil import rmtree
from typing import Any, Concatenate, ParamSpec, TypeVar

from ci.addresses import without_secrets
from ci.config.lanes_model import GitHubWorkflow
from ci.config.recipient import check_recipient
from ci.errors import BadFileError
from ci.github.access import find_token
from ci.github.client import Client, in_repository
from ci.github.errors import GitHubAwayError, GitHubDeniedError, GitHubMissingError, GitHubRefusedError
from ci.lanes.asked import asked_at
from ci.lanes.budget import Budget, never
from ci.lanes.ends import ended, of_github
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.remote import Brought
from ci.lanes.results import WANTED, brought_of
from ci.lanes.workflow import INPUT, check_workflow, names, text_of
from ci.pipeline.gather import ARTIFACTS
from ci.pipeline.payload import number_at, text_at
from ci.pipeline.runs import artifacts_of, fetch, run_of
from ci.report.results import SUMMARY_FILE

PATIENCE_S = 20.0
MAX_LISTED = 300
# A run that was made is listed within seconds; under load GitHub took minutes.
LISTED_S = 600.0
# No limit of GitHub's is longer.
LIMIT_S = 3600.0
Given = ParamSpec("Given")
Told = TypeVar("Told")
_NOT_KNOWN = '"return_run_details" is not a permitted key'


def _within_limits(
    asks: Callable[Concatenate[GitHubFar, Given], Told],
) -> Callable[Concatenate[GitHubFar, Given], Told]:
    """Ask nothing more of a GitHub whose limit is reached until it is over: each question makes it longer."""

    @wraps(asks)
    def asked(far: GitHubFar, /, *args: Given.args, **kwargs: Given.kwargs) -> Told:
        # By the distance, so that a clock that was set back does not close it for ever.
        if far.closed is not None and abs(far.clock() - far.closed_at) < far.closed_s:
            raise far.closed
        try:
            return asks(far, *args, **kwargs)
        except GitHubAwayError as error:
            if error.retry_s is not None:
                far.closed, far.closed_at = error, far.clock()
                far.closed_s = min(error.retry_s, LIMIT_S)
            raise

    return asked


class GitHubFar:
    """A workflow of a repository; nothing is asked of GitHub before somebody wants to know.

    A reference is `run 123`, or `started` where GitHub did not say which run it is.

    Args:
        to: the workflow.
        environ: holds the token.
        clock: seconds since the epoch.
        open_client: makes the client.
        stop: says that an interrupt was heard.

    Raises:
        SettingsError: there is no token, or none is to be sent there.
    """

    settle_s = LISTED_S

    def __init__(
        self,
        to: GitHubWorkflow,
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float],
        open_client: Callable[[Mapping[str, str], str], Client] | None = None,
        stop: Callable[[], bool] = never,
    ) -> None:
        self._to, self.clock = to, clock
        self._stop = stop
        self.place = f"{without_secrets(to.api)} {to.repository}"
        self.closed: GitHubAwayError | None = None
        self.closed_at = self.closed_s = 0.0
        self._client = (open_client or connect)(environ, to.api)

    @_within_limits
    def check(self, order: Order) -> None:  # noqa: ARG002  # for this place all are alike
        """Refuse a workflow whose runs could not be told from each other.

        A token that may start workflows need not be one that may read files: then GitHub itself refuses what
        the workflow does not declare.

        Raises:
            NotFindableError: the workflow does not put the order's id into the names of its runs.
            SpyreCiError: it cannot be started by hand, or GitHub does not say.
        """
        path = f".github/workflows/{self._to.workflow}"
        try:
            told = self._client.get(self._path("contents", path), {"ref": self._to.ref})
        except (GitHubDeniedError, GitHubMissingError):
            return
        check_workflow(text_of(told), f"{self._to.repository}/{path}")

    @_within_limits
    def find(self, order: Order) -> str | None:
        """The reference of what was started for an order; see `Far`."""
        # GitHub's clock and this one need not agree.
        since = datetime.fromtimestamp(order.due, UTC) - timedelta(days=1)
        rows = self._client.pages(
            self._path("actions", "workflows", self._to.workflow, "runs"),
            {"event": "workflow_dispatch", "created": f">={since:%Y-%m-%d}"},
            key="workflow_runs",
            most=MAX_LISTED,
        )
        found = [number_at(row, "id") for row in rows if names(text_at(row, "display_title"), order.id)]
        # The first of several is the one that was started first.
        return f"run {min(found)}" if found else None

    @_within_limits
    def start(self, order: Order) -> str:
        """Start the workflow, and give its reference; see `Far`.

        Raises:
            GitHubError: it was not taken, or nobody knows.
        """
        path = self._path("actions", "workflows", self._to.workflow, "dispatches")
        body: dict[str, Any] = {"ref": self._to.ref, "inputs": {**self._to.inputs, INPUT: order.id}}
        try:
            told = self._client.send("POST", path, {**body, "return_run_details": True})
        except GitHubRefusedError as error:
            if _NOT_KNOWN not in error.what:
                raise
            told = self._client.send("POST", path, body)
        number = number_at(told, "workflow_run_id")
        return f"run {number}" if number else "started"

    @_within_limits
    def look(self, order: Order, reference: str) -> Seen:
        """Where it stands; see `Far`."""
        row = self._row(order, reference)
        if isinstance(row, Seen):
            return row
        url = text_at(row, "html_url")
        return of_github(
            text_at(row, "status"), text_at(row, "conclusion"), url if url.startswith("https://") else ""
        )

    @_within_limits
    def cancel(self, order: Order, reference: str) -> None:
        """Ask GitHub to cancel the run; see `Far`."""
        number = self._number(order, reference)
        if number is None:
            return
        try:
            self._client.send("POST", self._path("actions", "runs", number, "cancel"), again=True)
        except GitHubMissingError:
            return
        except GitHubRefusedError:
            # 409: it has ended already.
            if not self.look(order, reference).standing.ended:
                raise

    @_within_limits
    def bring(self, order: Order, reference: str) -> Brought:
        """Bring back what runs of tests the run handed on; see `Far`."""
        row = self._row(order, reference)
        run = None if isinstance(row, Seen) else run_of(row)
        if run is None:
            return Brought()
        there = {one.group: one for one in artifacts_of(self._client, self._to.repository, run, ARTIFACTS)}
        budget = Budget(self._stop)

        def take(name: str, into: Path) -> bool:
            budget.count(there[name].size)
            if into.is_dir():  # it came the last time
                return True
            if budget.over():
                raise GitHubAwayError(f"the results {name:.80} are left for another time")
            part = into.with_name(f"{into.name}.part")
            rmtree(part, ignore_errors=True)
            try:
                fetch(self._client, self._to.repository, there[name], part, WANTED, beside=SUMMARY_FILE)
            except BadFileError as error:
                if f"holds no {SUMMARY_FILE}" in error.what:  # something else under such a name
                    return False
                raise
            part.rename(into)
            return True

        return brought_of(order.folder, list(there), take)

    def _row(self, order: Order, reference: str) -> Mapping[str, Any] | Seen:
        """The run as GitHub tells it; without one, where that leaves the order."""
        number = self._number(order, reference)
        began = asked_at(order.folder)
        # A run that was made just now may be neither listed nor readable.
        fresh = began is not None and abs(self.clock() - began) < LISTED_S
        if number is None:
            if fresh:
                return Seen(standing=Standing.STARTING, said="GitHub does not list its run yet")
            return ended(Standing.GONE, "GitHub took the start and lists no run of it")
        try:
            told = self._client.get(self._path("actions", "runs", number))
        except GitHubMissingError:
            # Who may not see the workflow either knows nothing of the run.
            self._client.get(self._path("actions", "workflows", self._to.workflow))
            if fresh:
                return Seen(standing=Standing.STARTING, said=f"GitHub does not show run {number} yet")
            return ended(Standing.GONE, f"run {number} was deleted")
        if not isinstance(told, dict) or number_at(told, "id") != number:
            raise GitHubAwayError(f"the answer is no run {number}", remedy="check the API's address")
        return told

    def _number(self, order: Order, reference: str) -> int | None:
        told = reference if reference.startswith("run ") else self.find(order) or ""
        _, _, number = told.partition(" ")
        return int(number) if number.isdecimal() else None

    def _path(self, *parts: str | int) -> str:
        return in_repository(
            self._to.repository, *(piece for part in parts for piece in str(part).split("/"))
        )


def connect(environ: Mapping[str, str], api: str) -> Client:
    """The client of a lane's GitHub.

    Raises:
        SettingsError: there is no token, or none is to be sent there.
    """
    check_recipient(environ, api, "token for GitHub")
    return Client(api=api, token=find_token(environ), patience_s=PATIENCE_S)
