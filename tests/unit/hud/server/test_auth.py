from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.auth import RateLimit


class World:
    def __init__(self, limit: int) -> None:
        self.now = 1000.0
        self.limit = RateLimit(limit, lambda: self.now)


@given(st.integers(1, 5), st.lists(st.floats(0, 90), max_size=40))
def test_taken_means_fewer_than_the_limit_in_the_minute_before(limit: int, pauses: list[float]) -> None:
    world = World(limit)
    seen: list[float] = []
    for pause in pauses:
        world.now += pause
        before = len([at for at in seen if world.now - at < 60])
        assert world.limit.takes("a") == (before < limit)
        seen.append(world.now)


def test_requests_of_a_clock_that_was_ahead_refuse_none() -> None:
    world = World(2)
    for _ in range(2):
        assert world.limit.takes("a")
    world.now -= 3600
    assert [world.limit.takes("a") for _ in range(3)] == [True, True, False]
