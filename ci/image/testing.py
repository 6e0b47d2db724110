"""Running the tests of a stack's components in containers of its stages, and bringing their results out."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
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


def run_tests(
    client: docker.DockerClient,
    builder: ImageBuilder,
    chosen: Sequence[ComponentTests],
    order: Order,
    results: Path,
) -> None:
    """Build what tests run in, then run them one after the other, all of them also where some fail.

    Args:
        client: the engine.
        builder: its command; takes lines for people, too.
        chosen: what runs.
        order: how the stack is built; its stages are targets of the same file.
        results: folder that takes the results, by component and kind.

    Raises:
        FailedTestsError: a test failed, or what became of it cannot be known.
        BuildStepError: a stage that tests run in cannot be built; none of them ran then.
        SpyreCiError: the engine refuses, or the results' folder is something else.
    """
    folders = [results_folder(results, tests) for tests in chosen]
    for folder in folders:
        # Were this run to end early, those of an earlier one would be taken for its own.
        shutil.rmtree(folder, ignore_errors=True)
    images = {}
    for stage in dict.fromkeys(tests.stage for tests in chosen):
        builder.echo(f"{stage}: what the tests run in")
        images[stage] = builder.build(replace(order, target=stage))
    outcomes = [
        _run_one(client, tests, images[tests.stage], folder, builder.echo)
        for tests, folder in zip(chosen, folders, strict=True)
    ]
    for outcome in outcomes:
        builder.echo(f"{'ok    ' if outcome.is_good else 'FAILED'} {outcome}")
    bad = [one for one in outcomes if not one.is_good]
    if bad:
        image = images[bad[0].tests.stage].removeprefix("sha256:")[:12]
        raise FailedTestsError(
            f"{failure_text(bad)}\n  | the image got no tag, and nothing was pushed",
            where=results,
            remedy=f"mend them; to try by hand: docker run --rm -it --network none {image} bash",
        )


def _run_one(
    client: docker.DockerClient, tests: ComponentTests, image: str, folder: Path, echo: Callable[[str], None]
) -> Outcome:
    """Run one container; what came of it is put into its folder, also where it is interrupted."""
    began = time.monotonic()
    ended: Ended | None = None
    problems: list[str] = []
    conditions = Conditions(
        environment=tests.environment, entrypoint=[], devices=tests.devices, memory_bytes=tests.memory_bytes
    )

    def say(line: str) -> None:
        echo(f"{tests.component} | {plain(line)}")

    echo(f"{tests.title}: tests run")
    with tempfile.TemporaryDirectory(prefix="spyre-ci-junit-") as scratch:
        taken = Path(scratch) / "junit"
        try:
            with container(client, image, [*SHELL, tests.script], conditions) as made:
                try:
                    ended = follow(made, timeout_s=tests.timeout_s, echo=say)
                finally:
                    # What was written by then is kept, also of tests that are interrupted.
                    try:
                        take_out(made, JUNIT_DIR, taken)
                    except CommandError as error:
                        problems.append(f"its results cannot be taken: {error.what}")
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            problems.append("was interrupted" if interrupted else f"could not be run: {error}")
            raise
        finally:
            found = read_results(taken)
            if ended is not None:
                problems = [*problems_of(tests, ended, found), *problems]
            seconds = time.monotonic() - began
            outcome = Outcome(tests=tests, found=found, problems=problems, seconds=seconds, ended=ended)
            put_results(folder, taken, outcome)
    return outcome
