"""Inside a child: what the run and a suite file ask of a test, made true for that test alone.

The generators that tests draw from get the seed of the test before its set-up. PyTorch's own TestCase seeds
once more in its `setUp`, with a number of its own; what draws before, or stands in another kind of test, has
the seed from here.

Modes become pytest's own marks, so that a test to be skipped is neither set up nor run. Tolerances reach
the test the way PyTorch's `@toleranceOverride` does: `precision` and `rel_tol` of the test's instance, which
`assertEqual` reads (`torch.testing._internal.common_device_type` and `common_utils`, torch 2.1 to 2.13).
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from test_selection.seeds import seed_of_test

SAID = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeding:
    """How tests are seeded.

    Attributes:
        run: the run's seed; None: nothing is seeded.
        as_try: by id, the try whose seed a test has, where that is not the one it is.
    """

    run: int | None = None
    as_try: Mapping[str, int] = field(default_factory=dict)

    def of(self, name: str, attempt: int) -> int | None:
        """The seed of a try of a test; None where nothing is seeded."""
        if self.run is None:
            return None
        return seed_of_test(self.run, name, self.as_try.get(name, attempt))


def seeding_of(spec: Mapping[str, Any]) -> Seeding:
    """How a child seeds, by what its worker was told."""
    return Seeding(run=spec.get("seed"), as_try=spec.get("as_try") or {})


def seed_all(seed: int, modules: Mapping[str, Any] | None = None) -> str:
    """Seed Python's, numpy's and torch's generators, of what is imported, and say what could not be.

    Nothing is imported for it, and nothing that goes wrong is raised: it is no matter of the test (law 4).

    Args:
        seed: 0 to 2**32 - 1.
        modules: what is imported; None: of this process.

    Returns:
        Why some could not be seeded, in a line; empty where all were.
    """
    there = sys.modules if modules is None else modules
    said = []
    seeded: tuple[tuple[str, Any, Callable[[Any, int], object]], ...] = (
        ("random", random, lambda module, number: module.seed(number)),
        ("numpy", there.get("numpy"), lambda module, number: module.random.seed(number)),
        ("torch", there.get("torch"), _seed_torch),
    )
    for name, module, seeds in seeded:
        if module is None:
            continue
        try:
            seeds(module, seed)
        except Exception as error:  # noqa: BLE001  # a test may have put anything there
            said.append(f"{name}: {type(error).__name__}: {error}")
    return " ".join("; ".join(said).split())[:SAID]


def _seed_torch(torch: Any, seed: int) -> None:
    """Seed as `torch.manual_seed`, which for each kind of device that is not in use notes the whole stack.

    That costs more than a small test. Where torch was built for no device, or the one there is registered
    itself (PrivateUse1), there is nothing of the other kinds to seed.
    """
    found = getattr(torch, "accelerator", None)
    used = found and found.current_accelerator()
    if found is None or (used is not None and used.type in {"cuda", "mps", "mtia", "xpu"}):
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
        torch.random._seed_custom_device(seed)  # noqa: SLF001  # what `manual_seed` does for it


# What a test that has to pass and skipped itself says first. It stays skipped: torch-spyre's own runner
# does not fail it either, and its suites list tests that skip themselves. But it must not go unseen.
SKIPPED_ITSELF = "expected to pass, yet skipped itself: "


def mark(item: pytest.Item, expected: Mapping[str, Any]) -> None:
    """Declare a test's mode to pytest."""
    mode, reason = expected["mode"], expected.get("reason", "")
    if mode == "skip":
        item.add_marker(pytest.mark.skip(reason=reason or "declared in the suite file"), append=False)
    elif mode in {"xfail", "xfail_strict"}:
        item.add_marker(pytest.mark.xfail(reason=reason, strict=mode == "xfail_strict"), append=False)


@contextlib.contextmanager
def enforced(instance: Any, expected: Mapping[str, Any]) -> Iterator[None]:
    """Run the block as the suite file has it: seed, gradients, tolerances and where tensors are compared.

    Args:
        instance: the test's instance; None for a plain function.
        expected: an expectation as `Expectation.as_json` gives it.
    """
    with contextlib.ExitStack() as stack:
        if (seed := expected.get("seed")) is not None:
            stack.enter_context(_seeded(int(seed)))
        if expected.get("no_grad") and (torch := sys.modules.get("torch")) is not None:
            stack.enter_context(torch.no_grad())
        if instance is not None and expected.get("precision"):
            stack.enter_context(_tolerances(instance, expected["precision"]))
        for name in expected.get("cpu_move", ()) if instance is not None else ():
            stack.enter_context(_compared_on_cpu(instance, name))
        yield


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed every generator; PyTorch's own test cases seed again in setUp, with their module's SEED."""
    utils: Any = sys.modules.get("torch.testing._internal.common_utils")
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
    if utils is None or not hasattr(utils, "SEED"):
        yield
        return
    before, utils.SEED = utils.SEED, seed % 2**32  # numpy takes no more
    try:
        yield
    finally:
        utils.SEED = before


@contextlib.contextmanager
def _tolerances(instance: Any, precision: Mapping[str, float | None]) -> Iterator[None]:
    """Set the instance's tolerances; instantiated tests apply their decorators' first, and ours after."""
    names = {"atol": "precision", "rtol": "rel_tol"}
    wanted = {names[key]: value for key, value in precision.items() if value is not None}
    wanted = {name: value for name, value in wanted.items() if hasattr(instance, name)}
    before = {name: getattr(instance, name) for name in wanted}

    def apply() -> None:
        for name, value in wanted.items():
            setattr(instance, name, value)

    decorators = getattr(instance, "_apply_precision_override_for_test", None)
    if decorators is not None:

        def after_decorators(*args: Any, **kwargs: Any) -> None:
            decorators(*args, **kwargs)
            apply()

        instance._apply_precision_override_for_test = after_decorators  # noqa: SLF001  # PyTorch's only hook
    apply()
    try:
        yield
    finally:
        # They are kept by thread, not by instance: the next test of the class would have them too.
        for name, value in before.items():
            setattr(instance, name, value)
        if decorators is not None:
            del instance._apply_precision_override_for_test  # noqa: SLF001  # the class's own is back


@contextlib.contextmanager
def _compared_on_cpu(instance: Any, name: str) -> Iterator[None]:
    """Let an assertion of the instance see its tensors on the CPU."""
    original: Callable[..., Any] | None = getattr(instance, name, None)
    torch = sys.modules.get("torch")
    if original is None or torch is None:
        yield
        return
    assertion, tree_map = original, sys.modules["torch.utils._pytree"].tree_map

    def moved(value: Any) -> Any:
        return value.cpu() if isinstance(value, torch.Tensor) else value

    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        return assertion(*tree_map(moved, args), **tree_map(moved, kwargs))

    had = instance.__dict__.get(name)
    setattr(instance, name, on_cpu)
    try:
        yield
    finally:
        if had is None:
            delattr(instance, name)
        else:
            setattr(instance, name, had)
