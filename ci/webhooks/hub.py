"""Webhooks at GitHub: a client for each host that a file names, and a repository's hooks read and changed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ci.config.recipient import check_recipient
from ci.core.errors import SpyreCiError
from ci.core.github.client import Client, Effects, in_repository
from ci.core.github.errors import GitHubAwayError, GitHubDeniedError, GitHubMissingError
from ci.core.secrets import secret
from ci.webhooks.difference import Change, Deed, Seen
from ci.webhooks.model import Hook, Host, Repository, Webhooks

MAX_HOOKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of the last event that was sent to a hook.

    Attributes:
        event: its name; empty where GitHub does not say.
        at: when, as GitHub says it.
        status: such as `OK`, or what went wrong.
        code: the target's HTTP status; 0 where it gave no answer.
    """

    event: str
    at: str
    status: str
    code: int

    @property
    def good(self) -> bool:
        """Whether the target took it."""
        return 200 <= self.code < 300  # noqa: PLR2004  # HTTP's own numbers


class RepositoryHooks:
    """The webhooks of one repository.

    Args:
        client: of its host.
        repository: owner/name.
    """

    def __init__(self, client: Client, repository: str) -> None:
        self._client = client
        self._repository = repository

    def read(self) -> tuple[Seen, ...]:
        """All there are, of whatever number.

        Raises:
            GitHubError: they cannot be asked for.
        """
        try:
            rows = self._client.pages(self._path(), most=MAX_HOOKS)
        except GitHubMissingError as error:
            raise GitHubMissingError(
                f"its webhooks are not shown: {error.what}",
                remedy="GitHub says this to a token without admin rights as well: give one of an admin, with "
                "`admin:repo_hook`, or of a fine-grained one `Webhooks: read and write`; else check the name",
            ) from error
        return tuple(seen_of(row) for row in rows if row.get("name", "web") == "web")

    def apply(self, change: Change, secret: str) -> int | None:
        """Do what a change says; the id of the hook that is there then.

        Args:
            change: one that acts.
            secret: of the hook; of one that is deleted it does not matter.

        Raises:
            GitHubError: it was not done, or nobody knows.
        """
        if change.deed is Deed.DELETE:
            with contextlib.suppress(GitHubMissingError):  # somebody was faster
                self._client.send("DELETE", self._path(change.hook_id))
            return None
        if change.hook is None:
            raise TypeError("a change that creates or updates names the hook")
        body = body_of(change.hook, secret)
        if change.deed is Deed.UPDATE:
            self._client.send("PATCH", self._path(change.hook_id), body)
            return change.hook_id
        made = self._client.send("POST", self._path(), {"name": "web", **body})
        return whole(made.get("id")) if isinstance(made, dict) else None

    def ping(self, hook_id: int) -> None:
        """Have GitHub send its `ping` event.

        Raises:
            GitHubError: it does not.
        """
        self._client.send("POST", self._path(hook_id, "pings"))

    def last_delivery(self, hook_id: int) -> Delivery | None:
        """What was delivered last; None where nothing was, or this GitHub does not tell.

        Raises:
            GitHubError: it cannot be asked for.
        """
        try:
            rows = self._client.get(self._path(hook_id, "deliveries"), {"per_page": 1})
        except GitHubMissingError:  # GitHub Enterprise before 3.2
            return None
        row = rows[0] if isinstance(rows, list) and rows else None
        if not isinstance(row, dict):
            return None
        return Delivery(
            event=str(row.get("event", "")),
            at=str(row.get("delivered_at", "")),
            status=str(row.get("status", "")),
            code=whole(row.get("status_code")) or 0,
        )

    def _path(self, *parts: str | int | None) -> str:
        return in_repository(self._repository, "hooks", *(one for one in parts if one is not None))


def seen_of(row: Mapping[str, Any]) -> Seen:
    """A hook as the API has it.

    Raises:
        GitHubAwayError: it is no hook.
    """
    hook_id, config = whole(row.get("id")), row.get("config")
    if hook_id is None or not isinstance(config, dict):
        raise GitHubAwayError(
            "the list of webhooks holds something else", remedy="check the address of the API: `hosts.….api`"
        )
    events = row.get("events")
    return Seen(
        id=hook_id,
        url=str(config.get("url", "")),
        events=frozenset(map(str, events if isinstance(events, list) else ())),
        content_type=str(config.get("content_type") or "form"),
        # A number or a text, depending on who made it.
        insecure_ssl=str(config.get("insecure_ssl") or "0") != "0",
        active=row.get("active") is True,
        has_secret=bool(config.get("secret")),
        last=_last(row.get("last_response")),
    )


def _last(response: Any) -> str:
    if not isinstance(response, dict):
        return ""
    said = (response.get("code"), response.get("status"))
    return " ".join(str(one) for one in said if one is not None)


def body_of(hook: Hook, secret: str) -> dict[str, Any]:
    """What GitHub is sent of a hook: always whole, since a secret that is left out is taken away."""
    return {
        "active": hook.active,
        "events": sorted(set(hook.events)),
        "config": {
            "url": hook.url,
            "content_type": hook.content_type,
            "insecure_ssl": "0" if hook.ssl_verification else "1",
            "secret": secret,
        },
    }


def whole(value: Any) -> int | None:
    """A whole number of an answer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Hubs:
    """Clients by host; whoever reached a host's limit is not asked again.

    Args:
        found: the file.
        environ: the environment.
        effects: time and chance.
        patience_s: how long one call may wait in all.
    """

    def __init__(
        self,
        found: Webhooks,
        environ: Mapping[str, str],
        *,
        effects: Effects | None = None,
        patience_s: float = 90,
        timeout_s: int = 30,
    ) -> None:
        self._found, self._environ, self._effects = found, environ, effects
        self._patience_s, self._timeout_s = patience_s, timeout_s
        self._clients: dict[Host, Client] = {}
        self._closed: dict[str, GitHubAwayError] = {}

    def client(self, repository: Repository) -> Client:
        """The client of a repository's host.

        Raises:
            SettingsError: there is no token for it, or none is to be sent there.
            GitHubAwayError: its limit was reached before.
        """
        if (closed := self._closed.get(repository.host)) is not None:
            raise closed
        host = self._found.host_of(repository)
        if host not in self._clients:
            check_recipient(self._environ, host.api, "token")
            self._clients[host] = Client(
                api=host.api,
                token=secret(self._environ, host.token, f"token for {repository.host}"),
                effects=self._effects,
                patience_s=self._patience_s,
                timeout_s=self._timeout_s,
            )
        return self._clients[host]

    def told(self, repository: Repository, error: SpyreCiError) -> SpyreCiError:
        """An error as people are told it; a host whose limit is reached is asked no more.

        More questions would make the limit longer. Of a token that is not taken the variable is named.
        """
        if isinstance(error, GitHubAwayError) and error.retry_s is not None:
            self._closed[repository.host] = error
        if isinstance(error, GitHubDeniedError):
            token = self._found.host_of(repository).token
            return GitHubDeniedError(
                error.what,
                remedy=f"give a token of {repository.host} in {token} that is valid and may do this: for "
                "webhooks an administrator's, to poll one that may read the repository",
            )
        return error
