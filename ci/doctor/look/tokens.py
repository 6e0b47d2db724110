"""Facts of tokens; what one is leaves this module in no word."""

from __future__ import annotations

from pathlib import Path

from ci.core.errors import MissingInputError, SpyreCiError
from ci.core.secrets import checked_token, read_secret
from ci.doctor.finding import Finding
from ci.doctor.judge.tokens import TokenFacts, Wanted, expiry_of, judge_tokens
from ci.doctor.world import World
from ci.hud.endpoint import EMBEDDED, NONE, SECRET_VARIABLE
from ci.hud.oidc import offered
from ci.hud.opening import PASSWORD_VARIABLE
from ci.hud.token import OTHERS, TOKEN_VARIABLE
from ci.package.credentials import TOKEN_VARIABLE as INDEX_VARIABLE

GITHUB_VARIABLE = "SPYRE_CI_GITHUB_TOKEN"
SHARE_VARIABLE = "SPYRE_CI_SHARE_PASSWORD"  # the variable's name, not a secret


def look_tokens(world: World) -> list[Finding]:
    """Every token that the settings or a verb may want."""
    return judge_tokens(_all(world), now=world.clock())


def _all(world: World) -> list[TokenFacts]:
    model = world.settings.model
    report, remote = model.report, model.report.endpoint not in {EMBEDDED, NONE}
    signs = bool(report.hmac.name)
    bearer: Wanted = "always" if remote and not signs else "no"
    found = [
        facts_of(world, TOKEN_VARIABLE, "to report to report.endpoint", bearer, report.token_file),
        facts_of(
            world,
            SECRET_VARIABLE,
            "to sign reports",
            "always" if remote and signs else "no",
            report.hmac.secret_file,
        ),
        facts_of(
            world,
            GITHUB_VARIABLE,
            "for `spyre-ci hud dispatch`, comments and statuses",
            "sometimes" if report.dispatch.repository else "no",
            report.dispatch.token_file,
        ),
        facts_of(world, SHARE_VARIABLE, "of run.share's Redis", "no", model.run.share_password_file),
        facts_of(world, PASSWORD_VARIABLE, "of hud.clickhouse", "no", None),
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
    if not given and path is None:
        return TokenFacts(variable=variable, purpose=purpose, wanted=wanted, state="missing")
    from_file = not given and path is not None
    try:
        text = checked_token(given or read_secret(path or Path(), "token"), variable if given else shown)
        others = from_file and path is not None and bool(path.stat().st_mode & OTHERS)
    except MissingInputError:
        return TokenFacts(variable=variable, purpose=purpose, wanted=wanted, state="no file", file=shown)
    except (SpyreCiError, OSError) as error:
        # Not an OSError's own words nor ours with a file's: neither holds the token, and both are short.
        why = error.what if isinstance(error, SpyreCiError) else str(error.strerror)
        return TokenFacts(
            variable=variable,
            purpose=purpose,
            wanted=wanted,
            state="unusable",
            file=shown,
            from_file=from_file,
            why=why,
        )
    return TokenFacts(
        variable=variable,
        purpose=purpose,
        wanted=wanted,
        state="there",
        file=shown,
        from_file=from_file,
        open_to_others=others,
        expires=expiry_of(text),
    )
