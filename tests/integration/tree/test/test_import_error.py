"""Cannot be imported."""

from torch import no_such_name_in_torch  # noqa: F401
