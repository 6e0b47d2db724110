"""Running the tests of a stack's components in containers of its stages, and bringing their results out."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import docker

from ci.core.containers import Conditions, Ended, container, follow, take_out
from ci.core.errors import EXIT_TEST_FAILED, CommandError
from ci.core.text import plain
from ci.image.builder import ImageBuilder, Order
from ci.image.component_tests import JUNIT_DIR, ComponentTests
from ci.image.containerfile import SHELL
from ci.image.outcome import Outcome, failure_text, problems_of, put_results, read_results, results_folder


class FailedTestsError(CommandError):
    """Tests of an image failed, or their results were lost."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Tester:
    """Runs tests.

    Attributes:
        client: the engine.
        builder: its command.
        results: folder that takes the results, by component and kind.
        echo: takes lines for people.
    """

    client: docker.DockerClient
    builder: ImageBuilder
    results: Path
    echo: Callable[[str], None]

    def run(self, chosen: Sequence[ComponentTests], order: Order) -> None:
        """Build what tests run in, then run them one after the other, all of them also where some fail.

        Args:
            chosen: what runs.
            order: how the stack is built; its stages are targets of the same file.

        Raises:
            FailedTestsError: a test failed, or what became of it cannot be known.
            BuildStepError: a stage that tests run in cannot be built; none of them ran then.
            SpyreCiError: the engine refuses, or the results' folder is something else.
        """
        folders = [results_folder(self.results, tests) for tests in chosen]
        for folder in folders:
            # Were this run to end early, those of an earlier one would be taken for its own.
            shutil.rmtree(folder, ignore_errors=True)
        images = {}
        for stage in dict.fromkeys(tests.stage for tests in chosen):
            self.echo(f"{stage}: what the tests run in")
            images[stage] = self.builder.build(replace(order, target=stage))
        outcomes = [
            self._one(tests, images[tests.stage], folder)
            for tests, folder in zip(chosen, folders, strict=True)
        ]
        for outcome in outcomes:
            self.echo(f"{'ok    ' if outcome.is_good else 'FAILED'} {outcome}")
        bad = [one for one in outcomes if not one.is_good]
        if bad:
            image = images[bad[0].tests.stage].removeprefix("sha256:")[:12]
            raise FailedTestsError(
                f"{failure_text(bad)}\n  | the image got no tag, and nothing was pushed",
                where=self.results,
                remedy=f"mend them; to try by hand: docker run --rm -it --network none {image} bash",
            )

    def _one(self, tests: ComponentTests, image: str, folder: Path) -> Outcome:
        """Run one container; what came of it is put into its folder, also where it is interrupted."""
        began = time.monotonic()
        ended: Ended | None = None
        problems: list[str] = []
        with tempfile.TemporaryDirectory(prefix="spyre-ci-junit-") as scratch:
            taken = Path(scratch) / "junit"
            try:
                ended = self._ended(tests, image, taken, problems)
            except BaseException as error:
                interrupted = isinstance(error, KeyboardInterrupt)
                problems.append("was interrupted" if interrupted else f"could not be run: {error}")
                raise
            finally:
                found = read_results(taken)
                outcome = Outcome(
                    tests=tests,
                    found=found,
                    problems=[*(problems_of(tests, ended, found) if ended is not None else ()), *problems],
                    seconds=time.monotonic() - began,
                    ended=ended,
                )
                put_results(folder, taken, outcome)
        return outcome

    def _ended(self, tests: ComponentTests, image: str, taken: Path, lost: list[str]) -> Ended:
        """Run a container; how it ended. Why its results could not be taken is added to `lost`."""
        conditions = Conditions(
            environment=tests.environment,
            entrypoint=[],
            devices=tests.devices,
            memory_bytes=tests.memory_bytes,
        )

        def say(line: str) -> None:
            self.echo(f"{tests.component} | {plain(line)}")

        self.echo(f"{tests.title}: tests run")
        with container(self.client, image, [*SHELL, tests.script], conditions) as made:
            try:
                return follow(made, timeout_s=tests.timeout_s, echo=say)
            finally:
                # What was written by then is kept, also of tests that are interrupted.
                try:
                    take_out(made, JUNIT_DIR, taken)
                except CommandError as error:
                    lost.append(f"its results cannot be taken: {error.what}")
