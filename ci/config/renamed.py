"""Settings keys that were renamed or removed: what an error and docs/renamed.md say of each."""

from __future__ import annotations

from collections.abc import Mapping

# Old key to what there is now; `*`, as the second part, stands for a name.
RENAMED: Mapping[str, str] = {
    "history": "store.path, store.keep_days",
    "hud.clickhouse": "store.clickhouse",
    "hud.hmac": "hud.issuers, or the token of docs/hud.md: requests are not signed any more",
    "hud.keep_days": "store.keep_days",
    "hud.strict_upstream": "no setting: the server always follows the contract",
    "lanes.*.run.image": "lanes.*.run.command: [nox, -s, image, --, build, --push]",
    "lanes.*.where": "lanes.*.begun_by for a CI, lanes.*.run.job for a cluster",
    "package.forbidden": "no setting: check-wheel-contents decides",
    "package.lint.containerfiles": "no setting: hooks choose their files",
    "package.signing_key": "no setting: the publishing action attests (PEP 740)",
    "report.hmac": "no setting: reports carry a token",
    "report.post_times": "report.budget_s",
    "retention.history": "retention.store",
}


def successor(key: str) -> str | None:
    """What replaces a settings key; None for a key that never was.

    Args:
        key: dotted, such as `hud.clickhouse` or `lanes.nightly.where`.
    """
    parts = key.split(".")
    for old, new in RENAMED.items():
        pattern = old.split(".")
        if len(pattern) == len(parts) and all(a in {"*", b} for a, b in zip(pattern, parts, strict=True)):
            return new.replace("*", parts[1]) if "*" in old else new
    return None
