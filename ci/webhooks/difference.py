"""What has to be done so that a repository's webhooks are as the file has them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ci.core.addresses import shown
from ci.core.github.errors import GitHubAwayError
from ci.webhooks.model import Hook, identity


class Action(StrEnum):
    """What becomes of a webhook; `extra` is only told."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    DELETE = "delete"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A webhook as the API shows it; of a secret only that there is one."""

    id: int
    url: str
    events: frozenset[str]
    content_type: str
    ssl_verification: bool
    active: bool
    has_secret: bool


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

    @property
    def acts(self) -> bool:
        """True if applying it changes something at GitHub."""
        return self.action in {Action.CREATE, Action.UPDATE, Action.DELETE}


def difference(
    wanted: Sequence[Hook],
    seen: Iterable[Seen],
    *,
    ours: frozenset[str],
    prune: bool = False,
    rotate: bool = False,
) -> list[Change]:
    """What becomes of each hook that is wanted or there: those of the file first, in its order.

    Args:
        wanted: the hooks of the file.
        seen: those of the repository; what has no URL of ours is nobody's business.
        ours: identities of the URLs of all hooks of the file.
        prune: whether duplicates, and hooks of ours that the repository is not to have, are deleted.
        rotate: whether every hook gets its secret anew.
    """
    there: dict[str, list[Seen]] = {}
    for one in sorted(seen, key=lambda one: one.id):
        there.setdefault(identity(one.url), []).append(one)
    changes = []
    for hook in wanted:
        twins = there.pop(identity(hook.url), [])
        if not twins:
            changes.append(Change(action=Action.CREATE, url=hook.url, hook=hook))
            continue
        # The one that needs least stays; of equals the oldest, so that everybody keeps the same.
        kept = min(twins, key=lambda one: (len(fields_of(hook, one)), one.id))
        fields = fields_of(hook, kept)
        changes.append(
            Change(
                action=Action.UPDATE if fields or rotate else Action.KEEP,
                url=kept.url,
                hook_id=kept.id,
                hook=hook,
                fields=fields,
                why="its secret is set anew" if rotate else "",
            )
        )
        duplicate = f"a duplicate of hook {kept.id}: each event is delivered again"
        changes += [_unwanted(one, duplicate, prune=prune) for one in twins if one is not kept]
    left = [one for key, others in there.items() if key in ours for one in others]
    return changes + [_unwanted(one, "not wanted here", prune=prune) for one in left]


def _unwanted(one: Seen, why: str, *, prune: bool) -> Change:
    action, more = (Action.DELETE, "") if prune else (Action.EXTRA, " (--prune deletes it)")
    return Change(action=action, url=one.url, hook_id=one.id, why=why + more)


def fields_of(hook: Hook, seen: Seen) -> dict[str, tuple[str, str]]:
    """What differs between a hook as it is there and as it is to be, as texts."""
    pairs = {
        "url": (seen.url, hook.url),
        "events": (", ".join(sorted(seen.events)), ", ".join(sorted(set(hook.events)))),
        "content_type": (seen.content_type, hook.content_type),
        "ssl_verification": (str(seen.ssl_verification).lower(), str(hook.ssl_verification).lower()),
        "active": (str(seen.active).lower(), str(hook.active).lower()),
        "secret": ("set" if seen.has_secret else "none", "set"),
    }
    fields = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if "url" in fields:
        # What is there may hold a password.
        fields["url"] = (shown(seen.url), shown(hook.url))
    return fields


def seen_of(row: Mapping[str, Any]) -> Seen:
    """A hook as the API has it.

    Raises:
        GitHubAwayError: it is no hook.
    """
    hook_id, config, events = row.get("id"), row.get("config"), row.get("events")
    if not isinstance(hook_id, int) or not isinstance(config, dict):
        raise GitHubAwayError(
            "the list of webhooks holds something else", remedy="check the address of the API: `hosts.….api`"
        )
    return Seen(
        id=hook_id,
        url=str(config.get("url", "")),
        events=frozenset(map(str, events if isinstance(events, list) else ())),
        content_type=str(config.get("content_type") or "form"),
        # A number or a text, depending on who made it.
        ssl_verification=str(config.get("insecure_ssl") or "0") == "0",
        active=row.get("active") is True,
        has_secret=bool(config.get("secret")),
    )


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
