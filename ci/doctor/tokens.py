"""Check tokens: there or not, by name; never what they are, nor how long, nor a part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ci.core.errors import MissingInputError, SpyreCiError
from ci.core.secrets import checked_token, read_secret
from ci.core.text import iso_utc, shell_line
from ci.doctor.finding import Finding, Level, ok
from ci.doctor.world import World
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.oidc import claims_of, offered
from ci.hud.token import OTHERS, TOKEN_VARIABLE
from ci.package.credentials import TOKEN_VARIABLE as INDEX_VARIABLE
from ci.report.store import PASSWORD_VARIABLE

TOKENS = "tokens"
State = Literal["there", "missing", "minted", "unusable", "no file"]
Wanted = Literal["always", "sometimes", "no"]
GITHUB_VARIABLE = "SPYRE_CI_GITHUB_TOKEN"
SHARE_VARIABLE = "SPYRE_CI_SHARE_PASSWORD"  # the variable's name, not a secret


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
    try:
        return float(claims_of(token)["exp"])
    except (ValueError, KeyError, TypeError, OverflowError):
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


def look_tokens(world: World) -> list[Finding]:
    """Every token that the settings or a verb may want."""
    return judge_tokens(_all(world), now=world.clock())


def _all(world: World) -> list[TokenFacts]:
    model = world.settings.model
    report, remote = model.report, model.report.endpoint not in {EMBEDDED, NONE}
    bearer: Wanted = "always" if remote else "no"
    found = [
        facts_of(world, TOKEN_VARIABLE, "to report to report.endpoint", bearer, report.token_file),
        facts_of(
            world,
            GITHUB_VARIABLE,
            "for `spyre-ci hud send`, comments and statuses",
            "sometimes" if report.dispatch.repository else "no",
            report.dispatch.token_file,
        ),
        facts_of(world, SHARE_VARIABLE, "of run.share's Redis", "no", model.run.share_password_file),
        facts_of(world, PASSWORD_VARIABLE, "of store.clickhouse", "no", None),
        facts_of(world, INDEX_VARIABLE, "to publish packages", "no", None),
    ]
    for name, index in sorted(model.package.indexes.items()):
        if index.token_file is not None:
            found.append(
                facts_of(world, INDEX_VARIABLE, f"to publish to {name}", "sometimes", index.token_file)
            )
    minted = bearer == "always" and found[0].state == "missing" and offered(world.environ)
    if minted:
        found[0] = TokenFacts(
            variable=TOKEN_VARIABLE, purpose=found[0].purpose, wanted=bearer, state="minted"
        )
    return found


def facts_of(world: World, variable: str, purpose: str, wanted: Wanted, file: Path | None) -> TokenFacts:
    """Whether a token is there, in its variable or else its file.

    Args:
        world: the outside world.
        variable: that holds it.
        purpose: what it is for.
        wanted: whether the settings ask for that.
        file: that the settings name for it.
    """
    path = None if file is None else world.settings.resolve(file)
    shown = "" if path is None else str(path)
    given = world.environ.get(variable, "").strip()
    token = partial(TokenFacts, variable=variable, purpose=purpose, wanted=wanted, file=shown)
    if not given and path is None:
        return token(state="missing")
    from_file = not given and path is not None
    try:
        text = checked_token(given or read_secret(path or Path(), "token"), variable if given else shown)
        others = from_file and path is not None and bool(path.stat().st_mode & OTHERS)
    except MissingInputError:
        return token(state="no file")
    except (SpyreCiError, OSError) as error:
        # Not an OSError's own words nor ours with a file's: neither holds the token, and both are short.
        why = error.what if isinstance(error, SpyreCiError) else str(error.strerror)
        return token(state="unusable", from_file=from_file, why=why)
    return token(state="there", from_file=from_file, open_to_others=others, expires=expiry_of(text))
