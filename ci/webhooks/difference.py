"""What has to be done so that a repository's webhooks are as the file has them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, urlsplit, urlunsplit

from ci.webhooks.model import Hook

_PORTS = {"http": 80, "https": 443}


class Deed(StrEnum):
    """What becomes of a webhook."""

    CREATE = "create"
    UPDATE = "update"
    LEAVE = "leave alone"
    DELETE = "delete"
    # Seen and told, but only --prune deletes it.
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


def identity(url: str) -> str:
    """What two URLs of the same target have in common: host in small letters, no default port, no last slash.

    A URL that nobody can read is its own identity.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return url
    scheme = parts.scheme.lower()
    netloc = host if port in {None, _PORTS.get(scheme)} else f"{host}:{port}"
    return urlunsplit((scheme, netloc, parts.path.rstrip("/"), parts.query, ""))


def with_token(hook: Hook, token: str) -> Hook:
    """A hook with a token in its URL, by which Jenkins finds a job; GitHub can send it no other way."""
    return hook.model_copy(update={"url": f"{hook.url}?token={quote(token, safe='')}"})


def host_of(url: str) -> str:
    """The host and port that a URL leads to; empty where it leads nowhere."""
    try:
        return urlsplit(identity(url)).netloc
    except ValueError:
        return ""


def difference(
    wished: Sequence[Hook],
    seen: Iterable[Seen],
    *,
    hosts: frozenset[str] = frozenset(),
    keep: Iterable[str] = (),
    prune: bool = False,
    rotate: bool = False,
) -> tuple[Change, ...]:
    """What becomes of each hook that is wished or there: those of the file first, in its order.

    Args:
        wished: the hooks of the file, each with its whole URL.
        seen: those of the repository.
        hosts: ours; hooks that lead there and are not in the file are told. Others are nobody's business.
        keep: URLs of hooks that are left alone although they lead to our hosts.
        prune: whether duplicates and hooks that the file does not name are deleted.
        rotate: whether every hook gets its secret anew.
    """
    there: dict[str, list[Seen]] = {}
    for one in sorted(seen, key=lambda one: one.id):
        there.setdefault(identity(one.url), []).append(one)
    changes: list[Change] = []
    for hook in wished:
        twins = there.pop(identity(hook.url), [])
        changes += _becomes(hook, twins, prune=prune, rotate=rotate)
    kept = {identity(url) for url in keep}
    for key, others in there.items():
        # Whatever token stands behind it.
        if key.partition("?")[0] not in kept and host_of(key) in hosts:
            changes += [_unwanted(one, "the file does not name it", prune=prune) for one in others]
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
    return Change(deed=Deed.DELETE if prune else Deed.EXTRA, url=one.url, hook_id=one.id, why=why)


def fields_of(hook: Hook, seen: Seen) -> tuple[Field, ...]:
    """What differs between a hook as it is to be and as it is there."""
    pairs = (
        ("url", seen.url, hook.url),
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
