"""Tokens: there or not, by name; never what they are, nor how long, nor a part of one."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ci.core.text import iso_utc, shell_line
from ci.doctor.finding import Finding, Level, ok

TOKENS = "tokens"
State = Literal["there", "missing", "minted", "unusable", "no file"]
Wanted = Literal["always", "sometimes", "no"]
_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFacts:
    """One token.

    Attributes:
        variable: it is given in.
        purpose: what it is for.
        wanted: whether the settings ask for what it is for: always, by something else than a run, or not.
        state: whether it is there.
        file: that would hold it; empty where none is named.
        from_file: whether it is from there.
        open_to_others: whether others than its owner can read that file.
        expires: seconds since the epoch, where the token says so itself (JWT).
        why: it is unusable.
    """

    variable: str
    purpose: str
    wanted: Wanted
    state: State
    file: str = ""
    from_file: bool = False
    open_to_others: bool = False
    expires: float | None = None
    why: str = ""


def judge_tokens(tokens: Sequence[TokenFacts], *, now: float) -> list[Finding]:
    """What is there, what is missing that is wanted, and what can no longer be used.

    Args:
        tokens: that there may be.
        now: seconds since the epoch.
    """
    used = [one for one in tokens if one.wanted != "no" or one.state != "missing"]
    if not used:
        return [ok(TOKENS, "none is wanted, none is there")]
    return [finding for one in used for finding in _of_token(one, now)]


def expiry_of(token: str) -> float | None:
    """When a token ends by its own word (RFC 7519), in seconds since the epoch; None: it does not say."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        return None
    try:
        row = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(row["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _of_token(one: TokenFacts, now: float) -> list[Finding]:
    level = Level.FAULT if one.wanted == "always" else Level.WARNING
    about = f"{one.variable}, {one.purpose}"
    place = f" (of {one.file})" if one.from_file else ""
    give = f"set {one.variable}" + (f", or put the bare token into {one.file}" if one.file else "")
    if one.state == "minted":
        return [ok(TOKENS, f"{about}: GitHub mints one for each report")]
    if one.state in {"missing", "no file"}:
        gone = f"; its file {one.file} is not there" if one.state == "no file" else ""
        return [_at(level, f"{about}: missing{gone}", give)]
    if one.state == "unusable":
        return [_at(level, f"{about}: cannot be used{place}: {one.why}", give)]
    found = []
    if one.expires is not None and one.expires <= now:
        found.append(
            _at(
                level,
                f"{about}: there{place}, and it expired at {_moment(one.expires)}",
                f"get a new one; {give}",
            )
        )
    if one.open_to_others:
        remedy = shell_line(["chmod", "600", "--", one.file])
        found.append(_at(Level.WARNING, f"{about}: others can read {one.file}", remedy))
    until = "" if one.expires is None else f", until {_moment(one.expires)}"
    return found or [ok(TOKENS, f"{about}: there{place}{until}")]


def _moment(epoch_s: float) -> str:
    try:
        return iso_utc(epoch_s)
    except (ValueError, OverflowError, OSError):
        return "a time no calendar has"


def _at(level: Level, said: str, remedy: str) -> Finding:
    return Finding(look=TOKENS, level=level, said=said, remedy=remedy)
