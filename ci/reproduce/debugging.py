"""One test under pytest's --pdb, in the foreground: what starts it, and the session in its place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ci.core.container_shell import become
from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, DeviceError
from ci.reproduce.evidence import Evidence
from ci.reproduce.reproduce import Request, prepare
from ci.runner.child import module_words
from ci.runner.enforce import seed_all
from ci.runner.prepared_parent import import_torch, wants_machinery
from ci.runner.session import identify, run_pytest
from ci.steps.collect import worker_environment
from ci.steps.context import Context
from ci.steps.run import card_pool, cards_of
from test_selection.ids import file_of


def debug(context: Context, request: Request, found: Evidence) -> NoReturn:
    """Become a pytest session of the test with --pdb: terminal, card and exit code are its own.

    Raises:
        DeviceError: every card is in use by another run.
        SpyreCiError: the tests are not available.
    """
    context, source = prepare(context, request, found)
    file = file_of(found.id)
    pool = card_pool(context, "debugging", cards_of(context), context.say)
    cards = pool.take(1)
    if not cards:
        raise DeviceError(f"no card is free: {pool.blockers()}", remedy="wait until a run releases one")
    for descriptor in pool.descriptors(cards):  # the lease lasts as long as the session
        os.set_inheritable(descriptor, True)
    spec = {
        "tests": str(source.tests),
        "file": file,
        "id": found.id,
        "seed": found.seed,
        "device": found.device,
        "machinery": wants_machinery(source.tests, [file]),
    }
    environ = {**worker_environment(context, source), **cards[0].environment}
    become([*module_words(__name__), json.dumps(spec)], environ)


class OneTest:
    """Leaves out all tests but one, and seeds it."""

    def __init__(self, file: str, name: str, seed: int | None) -> None:
        self._file, self._name, self._seed = file, name, seed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the test."""
        named, _ = identify(items, self._file)
        items[:] = [item for item, (name, _) in zip(items, named, strict=True) if name == self._name]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Seed the generators, as its run did."""
        if self._seed is not None:
            seed_all(self._seed)


def session(spec: Mapping[str, Any]) -> int:
    """Run the test of a spec as `debug` writes it; the exit code is that of a run."""
    import_torch(spec["device"], machinery=spec["machinery"])
    plugin = OneTest(spec["file"], spec["id"], spec["seed"])
    code = run_pytest(Path(spec["tests"]), spec["file"], plugin, collect_only=False, debugger=True)
    known = {0: 0, 1: 1, int(pytest.ExitCode.INTERRUPTED): EXIT_INTERRUPTED}
    return known.get(code, EXIT_INCOMPLETE)


if __name__ == "__main__":
    sys.exit(session(json.loads(sys.argv[1])))
