"""The clients of all GitHubs that a file of webhooks names, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping

from ci.config.recipient import check_recipient
from ci.core.errors import SpyreCiError
from ci.core.github.client import Client, Effects
from ci.core.github.errors import GitHubAwayError, GitHubDeniedError
from ci.core.secrets import secret
from ci.webhooks.model import Host, Repository, Webhooks


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
