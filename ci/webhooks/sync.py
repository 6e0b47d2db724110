"""Compare webhooks of many repositories with the file, and make them so; one that fails stops no other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ci.config.recipient import check_recipient
from ci.core.addresses import shown
from ci.core.errors import SettingsError, SpyreCiError
from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubAwayError, GitHubDeniedError, GitHubMissingError
from ci.core.secrets import secret
from ci.core.text import clip, escaped
from ci.webhooks.difference import Action, Change, body_of, difference
from ci.webhooks.model import Repository, Webhooks, identity

# GitHub signs with whatever it is given; of this length nobody finds it out by trying.
LEAST_SECRET = 16
_MOST_SHOWN = 300
_SIGNS = {Action.CREATE: "+", Action.UPDATE: "~", Action.KEEP: "=", Action.DELETE: "-", Action.EXTRA: "!"}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What becomes of a repository's hooks, and why not all of it was done."""

    repository: Repository
    changes: list[Change] = field(default_factory=list)
    error: SpyreCiError | None = None


class Sync:
    """Reads and changes the webhooks of a file's repositories.

    Args:
        found: the file.
        environ: holds tokens and secrets.
        prune: see `difference`.
        rotate: the same.
    """

    def __init__(
        self, found: Webhooks, environ: Mapping[str, str], *, prune: bool = False, rotate: bool = False
    ) -> None:
        self._found, self._environ, self._prune, self._rotate = found, environ, prune, rotate
        self._ours = frozenset(identity(hook.url) for hook in found.hooks.values())
        self._clients: dict[str, Client] = {}
        self._limited: dict[str, GitHubAwayError] = {}

    def handle(self, repository: Repository, *, check: bool) -> Outcome:
        """Find what becomes of each hook of a repository, and do it unless it is only checked."""
        outcome = Outcome(repository=repository)
        try:
            client, path = self._client(repository), in_repository(repository.repository, "hooks")
            outcome.changes = self._changes(client, path, repository)
            if not check:
                self._apply(client, path, outcome.changes)
        except GitHubDeniedError as error:
            token = self._found.host_of(repository).token
            remedy = f"set {token} to a valid token of an administrator of {repository.host}"
            outcome.error = GitHubDeniedError(error.what, remedy=remedy)
        except SpyreCiError as error:
            if isinstance(error, GitHubAwayError) and error.retry_s is not None:
                # A host whose limit is reached is asked no more.
                self._limited[repository.host] = error
            outcome.error = error
        return outcome

    def _changes(self, client: Client, path: str, repository: Repository) -> list[Change]:
        try:
            rows = client.pages(path)
        except GitHubMissingError as error:
            raise GitHubMissingError(
                f"cannot read its webhooks: {error.what}",
                remedy="GitHub also says this to a token without admin rights: use an admin's token with "
                "`admin:repo_hook` (fine-grained: `Webhooks: read and write`), or check the name",
            ) from error
        seen = [row for row in rows if row.get("name", "web") == "web"]
        wanted = self._found.hooks_of(repository)
        return difference(wanted, seen, ours=self._ours, prune=self._prune, rotate=self._rotate)

    def _apply(self, client: Client, path: str, changes: list[Change]) -> None:
        acting = [one for one in changes if one.action not in {Action.KEEP, Action.EXTRA}]
        # All secrets before the first change: what is half done is worse than what was not begun.
        secrets = [hook_secret(self._environ, one.hook.secret) if one.hook else "" for one in acting]
        for change, value in zip(acting, secrets, strict=True):
            if change.hook is None:
                with contextlib.suppress(GitHubMissingError):  # somebody was faster
                    client.send("DELETE", f"{path}/{change.hook_id}")
            elif change.hook_id is None:
                client.send("POST", path, {"name": "web", **body_of(change.hook, value)})
            else:
                client.send("PATCH", f"{path}/{change.hook_id}", body_of(change.hook, value))

    def _client(self, repository: Repository) -> Client:
        if repository.host in self._limited:
            raise self._limited[repository.host]
        if repository.host not in self._clients:
            host = self._found.host_of(repository)
            check_recipient(self._environ, host.api, "token")
            token = secret(self._environ, host.token, f"token for {repository.host}")
            self._clients[repository.host] = Client(api=host.api, token=token)
        return self._clients[repository.host]


def hook_secret(environ: Mapping[str, str], name: str) -> str:
    """The secret of a webhook.

    Raises:
        SettingsError: there is none, or one so short that trying finds it out.
        MissingInputError: the file that was named is not found.
    """
    value = secret(environ, name, "secret of the webhook")
    if len(value) < LEAST_SECRET:
        raise SettingsError(
            f"the webhook's secret has fewer than {LEAST_SECRET} characters",
            where=name,
            remedy="make a longer one, such as with `openssl rand -hex 32`, and give it to Jenkins as well",
        )
    return value


def lines(outcome: Outcome) -> Iterator[str]:
    """What becomes of a repository's hooks, a line each; nothing of GitHub's commands a terminal or a CI."""
    name = outcome.repository.name
    if not outcome.changes and outcome.error is None:
        yield f"{name}: no webhook, and none is listed"
    for change in outcome.changes:
        number = "" if change.hook_id is None else f" {change.hook_id}"
        said = [f"{key}: {_safe(old)} -> {_safe(new)}" for key, (old, new) in change.fields.items()]
        why = "; ".join(filter(None, [*said, change.why]))
        line = f"{name}: {_SIGNS[change.action]} {change.action}{number} {_safe(shown(change.url))}"
        yield f"{line}: {why}" if why else line
    if outcome.error is not None:
        yield f"{name}: FAILED: {_safe(outcome.error.placed)}"
        yield f"    remedy: {_safe(outcome.error.remedy or '')}"


def _safe(text: str) -> str:
    return clip(escaped(text), _MOST_SHOWN)
