from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from ci.runner.enforce import seed_all


def draw(generator: torch.Generator | None = None) -> list[float]:
    values: list[float] = torch.randn(5, device="spyre", generator=generator).tolist()
    return values


def test_a_generator_belongs_to_the_device() -> None:
    generator = torch.Generator(device="spyre")
    assert str(generator.device) == "spyre:0"
    assert isinstance(generator, torch.Generator)


def test_a_seeded_generator_repeats_itself() -> None:
    generator = torch.Generator(device="spyre").manual_seed(7)
    first = draw(generator)
    second = draw(generator)
    assert first != second
    assert generator.initial_seed() == 7
    generator.manual_seed(7)
    assert [draw(generator), draw(generator)] == [first, second]


def test_a_generators_state_can_be_kept_and_put_back() -> None:
    generator = torch.Generator(device="spyre")
    state = generator.get_state()
    first = draw(generator)
    generator.set_state(state)
    assert draw(generator) == first


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])  # noqa: S301  # our own bytes
def test_a_copied_generator_goes_its_own_way_from_the_same_place(copied: Any) -> None:
    generator = torch.Generator(device="spyre").manual_seed(3)
    twin = copied(generator)
    assert twin.device == generator.device
    assert draw(generator) == draw(twin)


def test_a_cpu_generator_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'spyre' device type for generator but found 'cpu'"):
        draw(torch.Generator())


def test_a_generator_of_the_device_is_refused_by_the_cpu() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'spyre'"):
        torch.randn(3, generator=torch.Generator(device="spyre"))


def test_generators_of_the_cpu_are_what_they_were() -> None:
    assert torch.Generator().device == torch.device("cpu")
    assert torch.Generator("cpu").device == torch.device("cpu")
    assert isinstance(torch.default_generator, torch.Generator)
    assert not isinstance(3, torch.Generator)
    assert copy.deepcopy(torch.default_generator).initial_seed() == torch.default_generator.initial_seed()


def test_a_manual_seed_seeds_the_device() -> None:
    torch.manual_seed(5)
    first = draw()
    torch.manual_seed(5)
    assert draw() == first
    torch.spyre.manual_seed_all(5)  # type: ignore[attr-defined]  # the module is registered when run
    assert draw() == first


def test_the_device_and_the_cpu_draw_from_streams_of_their_own() -> None:
    torch.manual_seed(5)
    on_host = torch.randn(3)
    torch.manual_seed(5)
    draw()
    torch.nn.functional.dropout(torch.ones(10, device="spyre"))
    assert torch.equal(torch.randn(3), on_host)


def test_a_state_of_the_device_can_be_kept_and_put_back() -> None:
    state = torch.spyre.get_rng_state()  # type: ignore[attr-defined]  # the module is registered when run
    first = draw()
    torch.spyre.set_rng_state(state)  # type: ignore[attr-defined]  # the module is registered when run
    assert draw() == first


def test_forked_state_is_restored() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="spyre"):
        inside = draw()
    assert draw() == inside


def test_dropout_repeats_itself_from_a_seed() -> None:
    ones = torch.ones(100, device="spyre")
    torch.manual_seed(2)
    first = torch.nn.functional.dropout(ones)
    second = torch.nn.functional.dropout(ones)
    torch.manual_seed(2)
    assert torch.equal(torch.nn.functional.dropout(ones), first)
    assert not torch.equal(first, second)


def test_a_test_s_seed_is_that_of_torch_on_the_cpu_and_on_the_device() -> None:
    torch.manual_seed(5)
    wanted = draw(), torch.randn(5).tolist()
    torch.manual_seed(6)
    assert seed_all(5) == ""
    assert (draw(), torch.randn(5).tolist()) == wanted
