"""What every table of settings is made of."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import SplitResult

from pydantic import BaseModel, ConfigDict, Field

from ci.core.addresses import is_loopback

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]
# owner/name, as GitHub spells it.
REPOSITORY = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"

# Of a repository, without user and password.
GIT_ADDRESS = r"^(https?://|ssh://|file:///|git@)[^\s'\"$`\\]+$"


def check_https(parts: SplitResult, why: str) -> None:
    """Refuse what is no https address without query, fragment or credentials; http is for this machine.

    Args:
        parts: of the address.
        why: it must be https.

    Raises:
        ValueError: it is none.
    """
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host:
        raise ValueError("is no https URL")
    if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        raise ValueError("contains a query, a fragment or credentials")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"must be https: {why}")


class Section(BaseModel):
    """A table of settings: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
