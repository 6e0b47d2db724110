"""What has to be done so that a repository's webhooks are as the file has them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ci.core.addresses import host_of
from ci.webhooks.model import Hook, identity, target, without_token


class Deed(StrEnum):
    """What becomes of a webhook."""

    CREATE = "create"
    UPDATE = "update"
    LEAVE = "leave alone"
    DELETE = "delete"
    # Seen and told; of our URLs --prune deletes it.
    EXTRA = "not in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A webhook as the API shows it; a secret is never shown, only whether there is one.

    `last` is what became of its last event, in a few words.
    """

    id: int
    url: str
    events: frozenset[str]
    content_type: str
    insecure_ssl: bool
    active: bool
    has_secret: bool
    last: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value that differs."""

    name: str
    seen: str
    wished: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one webhook, and why.

    Attributes:
        deed: what is done.
        url: of the hook, as it is there; of one to be created, as it is to be.
        hook_id: of the hook that is there.
        hook: as it is to be; None where nobody wants it.
        fields: what differs.
        why: in a few words, where the fields do not say it.
    """

    deed: Deed
    url: str
    hook_id: int | None = None
    hook: Hook | None = None
    fields: tuple[Field, ...] = ()
    why: str = ""

    @property
    def acts(self) -> bool:
        """Whether applying it changes anything at GitHub."""
        return self.deed in {Deed.CREATE, Deed.UPDATE, Deed.DELETE}

    @property
    def differs(self) -> bool:
        """Whether what is there is not what the file has."""
        return self.deed is not Deed.LEAVE


def difference(
    wished: Sequence[Hook],
    seen: Iterable[Seen],
    *,
    ours: frozenset[str] = frozenset(),
    keep: Iterable[str] = (),
    prune: bool = False,
    rotate: bool = False,
) -> tuple[Change, ...]:
    """What becomes of each hook that is wished or there: those of the file first, in its order.

    Args:
        wished: the hooks of the file, each with its whole URL.
        seen: those of the repository.
        ours: targets of all hooks of the file. What has one of them and is not wished is told, and pruned;
            what leads elsewhere on their hosts is told. Others are nobody's business.
        keep: URLs of hooks that are left alone although they lead to our hosts.
        prune: whether duplicates and our hooks that nobody wishes here are deleted.
        rotate: whether every hook gets its secret anew.
    """
    there: dict[str, list[Seen]] = {}
    for one in sorted(seen, key=lambda one: one.id):
        there.setdefault(target(one.url), []).append(one)
    changes: list[Change] = []
    for hook in wished:
        twins = there.pop(target(hook.url), [])
        changes += _becomes(hook, twins, prune=prune, rotate=rotate)
    kept, hosts = {identity(url) for url in keep}, {host_of(key) for key in ours}
    for key, others in there.items():
        if key in ours:
            changes += [_unwanted(one, "not wished here", prune=prune) for one in others]
        elif host_of(key) in hosts and key.partition("?")[0] not in kept:
            why = "no URL of `hooks`: delete it by hand, or name it under `keep`"
            changes += [Change(deed=Deed.EXTRA, url=one.url, hook_id=one.id, why=why) for one in others]
    return tuple(changes)


def _becomes(hook: Hook, twins: Sequence[Seen], *, prune: bool, rotate: bool) -> list[Change]:
    if not twins:
        return [Change(deed=Deed.CREATE, url=hook.url, hook=hook)]
    # The one that needs least stays; of equals the oldest, so that everybody keeps the same.
    kept = min(twins, key=lambda one: (len(fields_of(hook, one)), one.id))
    fields = fields_of(hook, kept)
    deed = Deed.UPDATE if fields or rotate else Deed.LEAVE
    why = "its secret is set anew" if rotate else ""
    first = Change(deed=deed, url=kept.url, hook_id=kept.id, hook=hook, fields=fields, why=why)
    twin = f"a duplicate of hook {kept.id}: each event is delivered again"
    return [first, *(_unwanted(one, twin, prune=prune) for one in twins if one is not kept)]


def _unwanted(one: Seen, why: str, *, prune: bool) -> Change:
    deed, more = (Deed.DELETE, "") if prune else (Deed.EXTRA, " (--prune deletes it)")
    return Change(deed=deed, url=one.url, hook_id=one.id, why=why + more)


def fields_of(hook: Hook, seen: Seen) -> tuple[Field, ...]:
    """What differs between a hook as it is to be and as it is there; of tokens only that they do."""
    (there, given), (where, token) = without_token(seen.url), without_token(hook.url)
    word = "set" if token else "none"
    pairs = (
        ("url", there, where),
        ("token", word if given == token else "another" if given else "none", word),
        ("events", _listed(seen.events), _listed(hook.events)),
        ("content_type", seen.content_type, hook.content_type),
        ("ssl_verification", _word(not seen.insecure_ssl), _word(hook.ssl_verification)),
        ("active", _word(seen.active), _word(hook.active)),
        ("secret", "set" if seen.has_secret else "none", "set"),
    )
    return tuple(Field(name=name, seen=old, wished=new) for name, old, new in pairs if old != new)


def _listed(events: Iterable[str]) -> str:
    return ", ".join(sorted(set(events)))


def _word(value: bool) -> str:
    return "true" if value else "false"
