"""How a run is named: a folder, its id, `latest`, a CI's run as reports say it, or a page of a HUD."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from ci.core.addresses import shown
from ci.core.errors import UsageError

# As `ci.record.reproduce_line.ref_of` writes it.
_PROVIDER = re.compile(r"([a-z][a-z0-9]{0,30})-(\d{1,19})\.(\d{1,9})")
_PAGE = re.compile(r"(.*?)/(?:api/)?runs/(\d{1,19})(?:/.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CiRun:
    """A run of a CI: which CI, its number and its attempt."""

    provider: str
    run_id: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HudPage:
    """A job's page of a HUD: the HUD's address, without a slash at its end, and the job's number there."""

    base: str
    number: int


def ci_run(named: str) -> CiRun | None:
    """The CI's run that is named; None: it is another kind of name."""
    found = _PROVIDER.fullmatch(named)
    return found and CiRun(provider=found[1], run_id=int(found[2]), attempt=int(found[3]))


def hud_page(named: str) -> HudPage | None:
    """The page that is named; None: it is no address.

    Raises:
        UsageError: it is an address of something else, or holds a password.
    """
    if not re.match(r"(?i)[a-z][a-z0-9+.-]*://", named):
        return None
    try:
        parts = urlsplit(named)
        host = parts.hostname
    except ValueError:
        parts, host = None, None
    found = _PAGE.fullmatch(parts.path) if parts is not None else None
    if parts is None or parts.scheme.lower() not in {"http", "https"} or not host or found is None:
        raise UsageError(
            f"{shown(named):.200} is no page of a run",
            remedy="give the page of a run of a HUD, such as http://127.0.0.1:8000/runs/7, or fetch the "
            "artifact of a CI's run and give --from FILE",
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"{shown(named):.200} was given with a user name or password",
            remedy="leave them out; a HUD's token is read from SPYRE_CI_HUD_READ_TOKEN",
        )
    return HudPage(base=f"{parts.scheme.lower()}://{parts.netloc}{found[1]}", number=int(found[2]))
