from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.gate import RateLimit


class World:
    def __init__(self, limit: int) -> None:
        self.now = 1000.0
        self.limit = RateLimit(limit, lambda: self.now)


def test_the_wait_is_until_one_would_be_taken() -> None:
    world = World(2)
    world.limit.wait("a")
    world.now += 20
    world.limit.wait("a")
    assert world.limit.wait("a") == 60
    world.now += 60
    assert world.limit.wait("a") == 0


@given(st.integers(1, 5), st.lists(st.floats(0, 90), max_size=40))
def test_taken_means_fewer_than_the_limit_in_the_minute_before(limit: int, pauses: list[float]) -> None:
    world = World(limit)
    seen: list[float] = []
    for pause in pauses:
        world.now += pause
        before = len([at for at in seen if world.now - at < 60])
        assert (world.limit.wait("a") == 0) == (before < limit)
        seen.append(world.now)
