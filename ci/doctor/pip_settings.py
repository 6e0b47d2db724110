"""Where pip looks for packages, as pip itself says it: files, environment, and which of them wins; pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

USUAL = "https://pypi.org/simple"
# Later ones win (pip's `_get_ordered_configuration_items`).
_SECTIONS = ("global", "install", ":env:")
_YES = {"1", "true", "yes", "on", "y", "t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """What decides where pip looks. Addresses are as they are given, with their passwords: show none.

    Attributes:
        indexes: the one and the extra ones, in pip's order.
        links: folders, files and pages with links to packages.
        alone: whether pip asks no index at all (`no-index`).
        certificates: file of the authorities pip trusts; empty: the usual ones.
        trusted: hosts whose certificate pip does not look at.
        proxy: pip's own; empty: the environment's.
        broken: why pip cannot use its settings, and so installs nothing; empty: it can.
    """

    indexes: tuple[str, ...] = (USUAL,)
    links: tuple[str, ...] = ()
    alone: bool = False
    certificates: str = ""
    trusted: tuple[str, ...] = ()
    proxy: str = ""
    broken: str = ""


def of_listing(lines: Iterable[str]) -> PipSettings:
    """Read what `pip config list` prints: lines such as `global.index-url='https://…'`."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        section, _, key = name.rpartition(".")
        if not equals or section not in found:
            continue
        try:
            found[section][key.replace("_", "-").lower()] = str(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            continue
    return _of({key: one for section in _SECTIONS for key, one in found[section].items()})


def of_environ(environ: Mapping[str, str]) -> PipSettings:
    """The variables of pip alone, where there is no pip to be asked."""
    return _of({
        name.removeprefix("PIP_").lower().replace("_", "-"): one
        for name, one in environ.items()
        if name.startswith("PIP_") and one
    })  # fmt: skip


def _of(rows: Mapping[str, str]) -> PipSettings:
    main = rows.get("index-url") or rows.get("pypi-url") or USUAL
    # In whichever order they are given: several stand on one line, or on several.
    extra = rows.get("extra-index-url", "").split()
    return PipSettings(
        indexes=tuple(dict.fromkeys([main.strip(), *extra])),
        links=tuple(dict.fromkeys(rows.get("find-links", "").split())),
        alone=rows.get("no-index", "").strip().lower() in _YES,
        certificates=rows.get("cert", "").strip(),
        trusted=tuple(rows.get("trusted-host", "").split()),
        proxy=rows.get("proxy", "").strip(),
    )
