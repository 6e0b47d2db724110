"""Why a request came to nothing, in the network's own words; pure."""

from __future__ import annotations

_MOST = 300


def cause(error: BaseException) -> str:
    """What the network said, without the names of what wraps it.

    Args:
        error: of requests or urllib3, which wrap what the system said, and a proxy's error once more.
    """
    inner = error.args[0] if error.args and isinstance(error.args[0], BaseException) else error
    reason = getattr(inner, "reason", None) or inner
    last = reason.args[-1] if isinstance(reason, BaseException) and len(reason.args) > 1 else None
    if isinstance(last, BaseException):  # of a proxy: what was done, and what came of it
        return f"{reason.args[0]}: {cause(last)}"
    return str(reason).rpartition(">: ")[2].rpartition("): ")[2][:_MOST]
