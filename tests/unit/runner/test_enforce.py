from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.runner.enforce import Seeding, seed_all, seeding_of
from ci.runner.environment_info import LONGEST, MOST, recorded
from test_selection.seeds import seed_of_test


def broken(_: int) -> NoReturn:
    raise RuntimeError("the card\ndoes not answer")


def test_a_test_has_the_seed_of_its_try() -> None:
    seeding = Seeding(run=7)
    assert seeding.of("a", 2) == seed_of_test(7, "a", 2) != seeding.of("a", 1)


def test_a_try_may_stand_for_another_and_only_of_that_test() -> None:
    seeding = Seeding(run=7, as_try={"a": 3})
    assert seeding.of("a", 1) == seed_of_test(7, "a", 3)
    assert seeding.of("b", 1) == seed_of_test(7, "b", 1)


def test_without_a_run_s_seed_nothing_is_seeded() -> None:
    assert seeding_of({}).of("a", 1) is None


def test_every_generator_that_is_imported_is_seeded() -> None:
    seen: dict[str, int] = {}
    modules: dict[str, Any] = {
        "numpy": SimpleNamespace(random=SimpleNamespace(seed=lambda seed: seen.update(numpy=seed))),
        "torch": SimpleNamespace(manual_seed=lambda seed: seen.update(torch=seed)),
    }
    assert seed_all(5, modules) == ""
    first = random.getstate()
    assert (seed_all(5, {}), random.getstate()) == ("", first)
    assert seen == {"numpy": 5, "torch": 5}


@pytest.mark.parametrize(
    ("used", "seeded"),
    [(None, {"cpu": 5, "own": 5}), ("spyre", {"cpu": 5, "own": 5}), ("cuda", {"all": 5})],
    ids=["no device", "one that registered itself", "one of torch's own"],
)
def test_devices_that_torch_was_not_built_for_are_not_asked_before_each_test(
    used: str | None, seeded: dict[str, int]
) -> None:
    seen: dict[str, int] = {}
    device = None if used is None else SimpleNamespace(type=used)
    torch = SimpleNamespace(
        accelerator=SimpleNamespace(current_accelerator=lambda: device),
        manual_seed=lambda seed: seen.update(all=seed),
        default_generator=SimpleNamespace(manual_seed=lambda seed: seen.update(cpu=seed)),
        random=SimpleNamespace(_seed_custom_device=lambda seed: seen.update(own=seed)),
    )
    assert (seed_all(5, {"torch": torch}), seen) == ("", seeded)


def test_what_cannot_be_seeded_is_said_and_costs_no_test_anything() -> None:
    modules: dict[str, Any] = {"numpy": object(), "torch": SimpleNamespace(manual_seed=broken)}
    said = seed_all(5, modules)
    assert "numpy: AttributeError" in said
    assert said.endswith("torch: RuntimeError: the card does not answer")


def test_a_test_that_leaves_random_broken_costs_the_next_one_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "seed", broken)
    seen: list[int] = []
    said = seed_all(5, {"torch": SimpleNamespace(manual_seed=seen.append)})
    assert (said, seen) == ("random: RuntimeError: the card does not answer", [5])


def test_variables_that_matter_are_noted_and_secrets_are_not() -> None:
    environ = {
        "PYTORCH_TEST_WITH_SLOW": "1",
        "OMP_NUM_THREADS": "4",
        "LC_ALL": "C.UTF-8",
        "TORCH_TOKEN": "hush",
        "PYTORCH_API_KEY": "hush",
        "SPYRE_CI_HUD_TOKEN": "hush",
        "SPYRE_CI__RUN__SHARE": "redis://:hush@h",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "PYTHONPATH": "https://me:hush@index.example/x",
        "HOME": "/srv/me",
        "SSH_AUTH_SOCK": "/x",
    }
    found = recorded(environ)
    assert "hush" not in repr(found)
    assert set(found) == {"PYTORCH_TEST_WITH_SLOW", "OMP_NUM_THREADS", "LC_ALL", "PYTHONPATH"}


@given(st.dictionaries(st.from_regex(r"TORCH_[A-Z]{1,5}", fullmatch=True), st.text(max_size=3000)))
def test_what_is_noted_is_bounded(environ: dict[str, str]) -> None:
    found = recorded(environ)
    assert len(found) <= MOST
    assert all(len(value) <= LONGEST for value in found.values())
