"""What is said of webhooks to people: a line each, commanding neither a terminal nor a CI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ci.core.addresses import shown
from ci.core.text import clip, counted, escaped
from ci.webhooks.difference import Change, Deed, Seen
from ci.webhooks.hub import Delivery
from ci.webhooks.setting_up import Compared

_SIGNS = {Deed.CREATE: "+", Deed.UPDATE: "~", Deed.LEAVE: "=", Deed.DELETE: "-", Deed.EXTRA: "!"}
_LONG = 300
# GitHub shows no secret, and Jenkins does not say what it checks.
UNSEEN = "not seen from here: whether a secret is the one Jenkins has, and whether Jenkins checks signatures"


def seen_lines(one: Compared) -> Iterator[str]:
    """A repository and every hook it has."""
    yield f"{one.repository.name}: {_counted(len(one.seen))}" if one.error is None else failed(one)
    for hook in one.seen:
        yield f"  {_line(hook)}"


def change_lines(one: Compared) -> Iterator[str]:
    """A repository and what becomes of each hook."""
    if one.error is not None:
        yield failed(one)
        return
    counts = {deed: sum(change.deed is deed for change in one.changes) for deed in Deed}
    told = ", ".join(f"{count} {_TOLD[deed]}" for deed, count in counts.items() if count)
    yield f"{one.repository.name}: {told or 'no webhook, and none is wished'}"
    for change in one.changes:
        yield f"  {_change(change)}"


_TOLD = {
    Deed.CREATE: "to create", Deed.UPDATE: "to update", Deed.LEAVE: "as it is to be",
    Deed.DELETE: "to delete", Deed.EXTRA: "not in the file",
}  # fmt: skip


def done_lines(one: Compared) -> Iterator[str]:
    """What was done in a repository."""
    for change in one.done:
        yield f"{one.repository.name}: {_DONE[change.deed]} {_address(change.url)}"
    for hook_id, delivery in one.pinged.items():
        proved = _PROVED if delivery is not None and delivery.good else ""
        yield f"{one.repository.name}: ping of hook {hook_id}: {delivery_text(delivery)}{proved}"
    if one.error is not None:
        yield failed(one)


_PROVED = ": the URL and its token are right, and the signature if Jenkins checks it"
_DONE = {Deed.CREATE: "created", Deed.UPDATE: "updated", Deed.DELETE: "deleted"}


def delivery_text(delivery: Delivery | None) -> str:
    """What became of an event."""
    if delivery is None:
        return "GitHub does not say what became of it; look at the hook's recent deliveries"
    return _safe(f"{delivery.code} {delivery.status} ({delivery.event}, {delivery.at})")


def failed(one: Compared) -> str:
    """Why a repository could not be asked or set up, with the remedy."""
    error = one.error
    if error is None:
        return ""
    remedy = f"\n    remedy: {_safe(error.remedy)}" if error.remedy else ""
    return f"{one.repository.name}: FAILED: {_safe(error.placed)}{remedy}"


def as_json(one: Compared) -> dict[str, Any]:
    """The same for machines."""
    return {
        "repository": one.repository.name,
        "hooks": [
            {
                "id": hook.id,
                "url": shown(hook.url),
                "events": sorted(hook.events),
                "content_type": hook.content_type,
                "ssl_verification": not hook.insecure_ssl,
                "active": hook.active,
                "has_secret": hook.has_secret,
                "last": hook.last,
            }
            for hook in one.seen
        ],
        "changes": [
            {
                "deed": change.deed.value,
                "id": change.hook_id,
                "url": shown(change.url),
                "differs": [field.name for field in change.fields],
                "why": change.why,
                "done": change in one.done,
            }
            for change in one.changes
        ],
        "pings": {str(hook_id): delivery_text(one_) for hook_id, one_ in one.pinged.items()},
        "error": None if one.error is None else str(one.error),
        "exit_code": 0 if one.error is None else one.error.exit_code,
    }


def _line(hook: Seen) -> str:
    parts = [
        f"{hook.id} {_address(hook.url)}:",
        _safe(", ".join(sorted(hook.events))) + ";",
        _safe(hook.content_type) + ",",
        "active," if hook.active else "NOT ACTIVE,",
        "certificate checked," if not hook.insecure_ssl else "CERTIFICATE NOT CHECKED,",
        "with a secret" if hook.has_secret else "WITHOUT A SECRET",
    ]
    return " ".join(parts) + (f"; last event: {_safe(hook.last)}" if hook.last else "")


def _change(change: Change) -> str:
    hook_id = "" if change.hook_id is None else f" {change.hook_id}"
    differs = "; ".join(
        f"{one.name}: {_value(one.name, one.seen)} -> {_value(one.name, one.wished)}" for one in change.fields
    )
    if change.deed is Deed.CREATE and change.hook is not None:
        differs = ", ".join(sorted(set(change.hook.events)))
    said = "; ".join(part for part in (differs, change.why) if part)
    begin = f"{_SIGNS[change.deed]} {change.deed.value}{hook_id} {_address(change.url)}"
    return f"{begin}{said and ': '}{said}"


def _value(name: str, value: str) -> str:
    return _address(value) if name == "url" else _safe(value)


def _address(url: str) -> str:
    """A hook's address; its query may hold a token."""
    return _safe(shown(url))


def _safe(text: str) -> str:
    return clip(escaped(text), _LONG)


def _counted(number: int) -> str:
    return counted(number, "webhook") if number else "no webhook"
