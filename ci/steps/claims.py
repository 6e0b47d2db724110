"""Whether and where this host shares a plan's pieces with others, from settings, environment and run."""

from __future__ import annotations

from pathlib import Path

from ci.core.addresses import says_password, shown
from ci.core.errors import MissingInputError, SettingsError
from ci.core.secrets import read_secret
from ci.record.identity import FILE, read_identity
from ci.runner.claims.joining import REDIS, ClaimSettings
from ci.steps.context import Context

PASSWORD_VARIABLE = "SPYRE_CI_SHARE_PASSWORD"  # noqa: S105  # the variable's name, not a secret
SHARE_VARIABLE = "SPYRE_CI__RUN__SHARE"


def claims_of(context: Context, beside: Path) -> ClaimSettings | None:
    """Where this host meets the others of its run; None where every host runs its shards by itself.

    Nobody shares with --static, nor where a CI runs one job of a run once more: the others have ended, and
    what they did is not to be done again.

    Args:
        context: the outside world.
        beside: the folder of the plan, which says what run it is of.

    Raises:
        MissingInputError: the run's identity is not beside the plan, or there is no such password file.
        SettingsError: a password stands where others can read it, would go to an address that a pull request
            can change, or the password file holds none.
    """
    settings = context.settings.model.run
    if settings.share is None or settings.static:
        return None
    if says_password(settings.share) and context.settings.origins.get("run.share") != "environment":
        raise SettingsError(
            "the address holds a password, and settings files are committed",
            where="run.share",
            remedy=f"leave it out there, and set {PASSWORD_VARIABLE} or name a `run.share_password_file`",
        )
    if not (beside / FILE).is_file():
        raise MissingInputError(
            "nothing says which run this plan is of, so its pieces cannot be shared",
            where=beside / FILE,
            remedy=f"hand on {FILE} with plan.json, or run the shards by themselves with --static",
        )
    identity = read_identity(beside)
    attempt = context.provider.run_attempt
    if attempt > identity.run_attempt:
        context.say(f"attempt {attempt} of a job of {identity.run}: its shards are run by themselves")
        return None
    redis = settings.share.startswith(REDIS)
    where = settings.share if "://" in settings.share else str(context.settings.resolve(Path(settings.share)))
    password = _password(context) if redis else None
    if password is not None and context.settings.origins.get("run.share") == "file":
        # Whoever may change a committed file would be told the password, or what any other file holds.
        raise SettingsError(
            f"the password is not sent to {shown(where)}: the address is that of the settings file, which a "
            "pull request can change",
            where="run.share",
            remedy=f"give the address by the environment as well, with {SHARE_VARIABLE}",
        )
    return ClaimSettings(
        where=where,
        run=f"{identity.run}-{identity.run_attempt}",
        lease_s=settings.share_lease_s,
        clock=context.monotonic,
        say=context.say,
        password=password,
    )


def _password(context: Context) -> str | None:
    if given := context.environ.get(PASSWORD_VARIABLE, "").strip():
        return given
    named = context.settings.model.run.share_password_file
    if named is None:
        return None
    path = context.settings.resolve(named)
    found = read_secret(path, "password").strip()
    if not found:
        raise SettingsError("the password file is empty", where=path, remedy="put the bare password there")
    return found
