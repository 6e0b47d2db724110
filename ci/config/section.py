"""What every table of settings is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]
# owner/name, as GitHub spells it.
REPOSITORY = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"

# Of a repository, without user and password.
GIT_ADDRESS = r"^(https?://|ssh://|file:///|git@)[^\s'\"$`\\]+$"


class Section(BaseModel):
    """A table of settings: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
