"""Check tokens by name: set, missing, expired; never what they are, nor how long, nor a part of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ci.core.errors import MissingInputError, SpyreCiError
from ci.core.secrets import checked_token, read_secret
from ci.core.text import iso_utc, shell_line
from ci.doctor.finding import Finding, Level, ok, warning
from ci.doctor.machine import Machine
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.oidc import claims_of, offered
from ci.hud.token import OTHERS, TOKEN_VARIABLE
from ci.package.credentials import TOKEN_VARIABLE as INDEX_VARIABLE

GITHUB_VARIABLE = "SPYRE_CI_GITHUB_TOKEN"
SHARE_VARIABLE = "SPYRE_CI_SHARE_PASSWORD"  # the variable's name, not a secret


def check_tokens(machine: Machine) -> Iterator[Finding]:
    """Every token that the settings or a verb may need."""
    model = machine.settings.model
    report, dispatch = model.report, model.report.dispatch
    # The level of a token that is missing; OK: nothing needs it.
    bearer = Level.FAULT if report.endpoint not in {EMBEDDED, NONE} else Level.OK
    sends = Level.WARNING if dispatch.repository else Level.OK
    rows: list[tuple[str, str, Level, Path | None]] = [
        (TOKEN_VARIABLE, "to report to report.endpoint", bearer, report.token_file),
        (GITHUB_VARIABLE, "for `spyre-ci hud send`, comments and statuses", sends, dispatch.token_file),
        (SHARE_VARIABLE, "of run.share's Redis", Level.OK, model.run.share_password_file),
        (INDEX_VARIABLE, "to publish packages", Level.OK, None),
    ]
    for name, index in sorted(model.package.indexes.items()):
        if index.token_file is not None:
            rows.append((INDEX_VARIABLE, f"to publish to {name}", Level.WARNING, index.token_file))
    found = [one for row in rows for one in _check(machine, *row)]
    yield from found or [ok("not needed, and none is set")]


def _check(
    machine: Machine, variable: str, purpose: str, needed: Level, file: Path | None
) -> Iterator[Finding]:
    """A token of a variable or else of a file; nothing is said of one that is neither needed nor set."""
    path = None if file is None else machine.settings.resolve(file)
    given = machine.environ.get(variable, "").strip()
    about, source = f"{variable}, {purpose}", "" if given or path is None else f" in {path}"
    level = needed if needed is not Level.OK else Level.WARNING
    remedy = f"set {variable}" + (f", or put the bare token into {path}" if path else "")
    if not given and path is None:
        if variable == TOKEN_VARIABLE and needed is Level.FAULT and offered(machine.environ):
            yield ok(f"{about}: GitHub issues one for each report")
        elif needed is not Level.OK:
            yield Finding(level, f"{about}: missing", remedy)
        return
    try:
        text = checked_token(given or read_secret(path or Path(), "token"), variable)
        others = not given and path is not None and path.stat().st_mode & OTHERS
    except MissingInputError:
        yield Finding(level, f"{about}: missing, its file {path} does not exist", remedy)
        return
    except (SpyreCiError, OSError) as error:
        # Neither an OSError's reason nor our own words hold the token.
        why, fix = str(getattr(error, "strerror", "")), "check its permissions"
        if isinstance(error, SpyreCiError):
            why, fix = error.what, error.remedy or fix
        yield Finding(level, f"{about}: not usable{source}: {why}", f"{path if source else variable}: {fix}")
        return
    expires = expiry_of(text)
    if expires is not None and expires <= machine.clock():
        yield Finding(level, f"{about}: expired at {iso_utc(expires)}{source}", f"get a new one; {remedy}")
    if others:
        yield warning(f"{about}: others can read {path}", shell_line(["chmod", "600", "--", str(path)]))
    elif expires is None or expires > machine.clock():
        yield ok(f"{about}: set{source}{'' if expires is None else f', until {iso_utc(expires)}'}")


def expiry_of(token: str) -> float | None:
    """When a token says that it expires (RFC 7519), in seconds since the epoch; None: it does not say."""
    try:
        expires = float(claims_of(token)["exp"])
        return expires if iso_utc(expires) else None  # which raises where no calendar has that time
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
