"""What has to be done so that a repository's webhooks are as the file has them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ci.core.addresses import shown
from ci.core.github.errors import GitHubAwayError
from ci.webhooks.model import Hook, identity

Facts = Mapping[str, str]


class Action(StrEnum):
    """What becomes of a webhook; `extra` is only told."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    DELETE = "delete"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one webhook.

    Attributes:
        action: what is done.
        url: of the hook that is there, or is to be created.
        hook_id: of the hook that is there.
        hook: as it is to be; None where nobody wants it.
        fields: what differs: by name the value there, and the one of the file.
        why: where the fields do not say it.
    """

    action: Action
    url: str
    hook_id: int | None = None
    hook: Hook | None = None
    fields: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    why: str = ""


def difference(
    wanted: Sequence[Hook],
    rows: Iterable[Mapping[str, Any]],
    *,
    ours: frozenset[str],
    prune: bool = False,
    rotate: bool = False,
) -> list[Change]:
    """What becomes of each hook that is wanted or there: those of the file first, in its order.

    Args:
        wanted: the hooks of the file.
        rows: those of the repository, as the API has them; what has no URL of ours is nobody's business.
        ours: identities of the URLs of all hooks of the file.
        prune: whether duplicates, and hooks of ours that the repository is not to have, are deleted.
        rotate: whether every hook gets its secret anew.

    Raises:
        GitHubAwayError: a row is no hook.
    """
    there: dict[str, list[tuple[int, Facts]]] = {}
    for one in sorted(map(_read, rows), key=lambda one: one[0]):
        there.setdefault(identity(one[1]["url"]), []).append(one)
    changes = []
    for hook in wanted:
        twins = there.pop(identity(hook.url), [])
        if not twins:
            changes.append(Change(action=Action.CREATE, url=hook.url, hook=hook))
            continue
        # The one that needs least stays; of equals the oldest, so that everybody keeps the same.
        hook_id, facts = min(twins, key=lambda one: (len(_fields(hook, one[1])), one[0]))
        fields = _fields(hook, facts)
        changes.append(
            Change(
                action=Action.UPDATE if fields or rotate else Action.KEEP,
                url=facts["url"],
                hook_id=hook_id,
                hook=hook,
                fields=fields,
                why="its secret is set again" if rotate else "",
            )
        )
        duplicate = f"a duplicate of hook {hook_id}: each event is delivered again"
        changes += [_unwanted(one, duplicate, prune=prune) for one in twins if one[0] != hook_id]
    left = [one for key, others in there.items() if key in ours for one in others]
    return changes + [_unwanted(one, "not listed", prune=prune) for one in left]


def _unwanted(one: tuple[int, Facts], why: str, *, prune: bool) -> Change:
    action, more = (Action.DELETE, "") if prune else (Action.EXTRA, " (--prune deletes it)")
    return Change(action=action, url=one[1]["url"], hook_id=one[0], why=why + more)


def _fields(hook: Hook, there: Facts) -> dict[str, tuple[str, str]]:
    """What differs between a hook as it is there and as it is to be, as texts."""
    wanted = _facts(body_of(hook, "set"))
    fields = {name: (there[name], value) for name, value in wanted.items() if there[name] != value}
    if "url" in fields:
        # What is there may hold a password.
        fields["url"] = (shown(there["url"]), shown(hook.url))
    return fields


def _read(row: Mapping[str, Any]) -> tuple[int, Facts]:
    """Id and facts of a hook that the API names."""
    if not isinstance(row.get("id"), int) or not isinstance(row.get("config"), dict):
        raise GitHubAwayError(
            "the list of webhooks has an unknown form", remedy="check the address of the API: `hosts.….api`"
        )
    return row["id"], _facts(row)


def _facts(row: Mapping[str, Any]) -> Facts:
    """What can be compared of a hook in the API's form; of a secret only that there is one."""
    config, events = row["config"], row.get("events")
    return {
        "url": str(config.get("url", "")),
        "events": ", ".join(sorted(set(map(str, events if isinstance(events, list) else ())))),
        "content_type": str(config.get("content_type") or "form"),
        # A number or a text, depending on who made it.
        "ssl_verification": "true" if str(config.get("insecure_ssl") or "0") == "0" else "false",
        "active": "true" if row.get("active") is True else "false",
        "secret": "set" if config.get("secret") else "none",
    }


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
