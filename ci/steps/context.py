"""What every step is handed: settings, environment, clock, and where to speak."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from ci.config import Settings
from ci.core.errors import SpyreCiError
from ci.core.provider import Provider, detect
from ci.report.history import History
from ci.report.store import history_of
from test_selection.seeds import BITS

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The outside world of a step.

    Attributes:
        settings: resolved settings.
        environ: the environment.
        clock: seconds since the epoch.
        monotonic: seconds that never go back.
        console: for people; standard error where standard output is for machines.
        cores: CPU cores this process may use.
        draw: a new seed for a run that is given none.
        verbosity: above 0 each test's end is a line (-v), below 0 only outcomes are told (-q).
    """

    settings: Settings
    environ: Mapping[str, str]
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    console: Console
    cores: int
    draw: Callable[[], int] = lambda: secrets.randbits(BITS)
    verbosity: int = 0

    @property
    def provider(self) -> Provider:
        """The CI that runs us."""
        return detect(self.environ, epoch_s=self.clock())

    @property
    def runs(self) -> Path:
        """The folder that holds a folder a run."""
        return self.settings.resolve(self.settings.model.runs)

    @property
    def history(self) -> History:
        """The store of results, to be asked for past runs; it need not be there yet."""
        return history_of(self.settings, self.environ)

    def state(self, *names: str) -> Path:
        """A path in the state folder."""
        return self.settings.state_dir.joinpath(*names)

    def run_seed(self) -> int:
        """The seed of a run that is planned now: the one that is set, or a new one with every call."""
        seed = self.settings.model.run.seed
        return self.draw() if seed is None else seed

    def on_device(self, name: str) -> Context:
        """The same world with another device under test."""
        model = self.settings.model
        device = model.device.model_copy(update={"name": name})
        settings = replace(self.settings, model=model.model_copy(update={"device": device}))
        return replace(self, settings=settings)

    def attempt(self, otherwise: str, read: Callable[[], T]) -> T | None:
        """What is read of a file that the run can do without; None, said with the reason, where it is broken.

        Args:
            otherwise: what is so without it.
            read: reads it.
        """
        try:
            return read()
        except SpyreCiError as error:
            self.say(f"{otherwise}: {error}")
            return None

    def detail(self, text: str) -> None:
        """One line on how the run goes, which --quiet leaves out."""
        if self.verbosity >= 0:
            self.say(text)

    def say(self, text: str) -> None:
        """One line for people, as it is: what tests are called is no markup."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
