"""How long a run that came to no answer waits before each further try: exponential, with a cap and jitter."""

from __future__ import annotations

from ci.config.lanes_model import Retries
from ci.lanes.draw import share


def waits(retries: Retries, *, seed: int, key: str) -> tuple[float, ...]:
    """Seconds before each try after the first, to the millisecond; as many as there are tries.

    The jitter is drawn once for all from seed, key and the number of the try, so that a worker that was
    started again waits as it would have. It is added before the cap, which no wait goes beyond.

    Args:
        retries: the settings.
        seed: of the lane.
        key: what is tried again: a run's lane and time.
    """
    bare = (
        min(retries.first_s * retries.factor**number, retries.longest_s) for number in range(retries.most)
    )
    return tuple(
        round(min(wait * (1 + retries.jitter * share(seed, key, number)), retries.longest_s), 3)
        for number, wait in enumerate(bare)
    )
