"""What is known of one test of a run, wherever that was read: its folder, an artifact, a HUD. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ci.record.failure_signature import Failure
from ci.record.reproduce_line import reproduce_line
from ci.reproduce.history import Tried
from test_selection.plan import Group
from test_selection.seeds import seed_of_test
from test_selection.selection import Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One test of a run.

    Attributes:
        id: the canonical id.
        run: the readable run id; empty where no run is at hand.
        ref: names the run in a line.
        at: where it was read: a folder, an archive or an address; empty where nothing was.
        own: whether it was read of a run of this machine; else all of it is a stranger's word.
        end: how the test ended there; None where nobody tells.
        verdict: of the test over all its tries, in words; empty where nobody tells.
        attempt: the try that is brought back, from 1.
        attempts: how many there were; 0 where nobody tells.
        run_seed: None where nobody noted one.
        device: the device's name.
        source: where the tests came from; None: the embedded op suite.
        sha: their exact commit, or a content hash.
        pytorch_version: of torch.
        back_end: what made the device.
        image: it ran in, name@sha256:…; empty where nobody said.
        tried: what a journal tells of that try.
        group: what the plan says of the test and those that run with it.
        expectations: the outcomes that are declared for it and for what ran before it, by id.
        settings: of the runner, by name.
        notes: what a reader must know.
    """

    id: str
    run: str = ""
    ref: str = ""
    at: str = ""
    own: bool = True
    end: Failure | None = None
    verdict: str = ""
    attempt: int = 1
    attempts: int = 0
    run_seed: int | None = None
    device: str = ""
    source: str | None = None
    sha: str = ""
    pytorch_version: str = ""
    back_end: str = ""
    image: str = ""
    tried: Tried | None = None
    group: Group | None = None
    expectations: Mapping[str, Expectation] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def seed(self) -> int | None:
        """The test's own seed in that try; None where the run had none."""
        if self.tried is not None and self.tried.seed is not None:
            return self.tried.seed
        return None if self.run_seed is None else seed_of_test(self.run_seed, self.id, self.attempt)

    @property
    def before(self) -> tuple[tuple[str, int], ...]:
        """The tests that ran before it in its process, and which try of each."""
        return () if self.tried is None else self.tried.before

    @property
    def command(self) -> str:
        """The line that brings it back."""
        return reproduce_line(
            self.id,
            device=self.device or "spyre",
            source=self.source,
            sha=self.sha,
            seed=self.run_seed,
            ref=self.ref,
            attempt=self.attempt,
        )
