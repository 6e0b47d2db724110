"""Running the tests of a stack's components in containers of its stages, and bringing their results out.

What a container wrote is another's word. A file that is no whole JUnit is kept apart; that, and what no file
says (killed, out of time, nothing written), stands in one of ours.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import docker
import junitparser

from ci.core.commands import signal_name
from ci.core.containers import Conditions, Ended, container, follow, take_out
from ci.core.errors import EXIT_TEST_FAILED, BadFileError, CommandError, UsageError
from ci.core.text import clean, counted, one_line, span
from ci.image.builder import ImageBuilder, Order, harmless
from ci.image.component_tests import EMULATED, JUNIT_DIR, NO_DEVICE, ComponentTests
from ci.image.containerfile import SHELL
from ci.record.junit_reader import Counts
from test_selection.files import atomic_writer

_BY_SIGNAL = 128
# Says that a folder is one of ours, which the next results of the same tests take the place of.
OURS = "spyre-ci.xml"
MOST_NAMED = 20


class FailedTestsError(CommandError):
    """Tests of an image failed, or their results were lost."""

    exit_code = EXIT_TEST_FAILED


@dataclass(slots=True, kw_only=True)
class Found:
    """What the results of a container hold.

    Attributes:
        counts: of tests, by what became of them.
        files: how many results could be read.
        damaged: why each of the others could not, by path.
    """

    counts: Counts = field(default_factory=Counts)
    files: int = 0
    damaged: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a component's tests.

    Attributes:
        tests: which ones.
        found: what their results hold.
        problems: what is wrong besides tests that failed, a sentence each.
        seconds: they took.
        ended: how their container did; None: it did not come to its end.
    """

    tests: ComponentTests
    found: Found
    problems: Sequence[str]
    seconds: float
    ended: Ended | None

    @property
    def is_good(self) -> bool:
        """Whether an image may be pushed."""
        return not self.problems and not self.found.counts.failed

    def __str__(self) -> str:
        said = f"{self.tests.title}: {self.found.counts} in {span(self.seconds)}"
        return "; ".join([said, *(one_line(problem, 500) for problem in self.problems)])


def problems_of(tests: ComponentTests, ended: Ended, found: Found) -> Iterator[str]:
    """What is wrong besides tests that failed: an end from outside, results that are lost or do not fit it.

    Args:
        tests: whose.
        ended: how their container ended.
        found: what their results hold.
    """
    code = ended.exit_code
    if ended.timed_out:
        yield f"took longer than {span(tests.timeout_s)} and was stopped (test_minutes)"
    elif code and ended.out_of_memory:
        limit = "" if tests.memory_bytes is None else f" at its limit of {tests.memory_bytes / 2**30:g} GiB"
        yield f"ran out of memory{limit} (exit code {code})"
    elif code > _BY_SIGNAL:
        yield f"was killed by {signal_name(code - _BY_SIGNAL)} (exit code {code})"
    elif code == NO_DEVICE and tests.environment.get("SPYRE_CI_TEST_DEVICE") == EMULATED:
        yield (
            "the emulated device is part of spyre-ci, which the test image lacks: add it under "
            "`development`, or set image.devices to use cards"
        )
    else:
        yield from _misfits(tests, code, found)
    yield from (f"{path} {why}" for path, why in sorted(found.damaged.items()))


def _misfits(tests: ComponentTests, code: int, found: Found) -> Iterator[str]:
    """What in the results does not fit the exit code, or the tests."""
    counts = found.counts
    if code and not counts.failed and not (found.damaged and not counts.tests):
        told = "but no test in its JUnit failed" if counts.tests else "without a test in its JUnit"
        yield f"ended with exit code {code}, {told}"
    elif not code and counts.failed:
        yield f"ended with exit code 0, but {counted(counts.failed, 'test')} in its JUnit failed"
    elif not counts.tests and not found.damaged and (found.files or tests.promises_junit):
        yield "ran no tests: there is none in its JUnit" if found.files else "wrote no JUnit into $JUNIT_DIR"
    if tests.kind == "device" and counts.skipped and counts.skipped == counts.tests:
        yield f"skipped all of its {counted(counts.skipped, 'test')}: none found a device"


def failure_text(bad: Sequence[Outcome]) -> str:
    """What failed, for the end of an error: a line an outcome, and the first failing tests.

    Args:
        bad: those that are not good.
    """
    named = [f"{one.tests.title} {test}" for one in bad for test in one.found.counts.failing][:MOST_NAMED]
    lines = [f"tests did not pass: {', '.join(one.tests.title for one in bad)}", *map(str, bad), *named]
    if (more := sum(one.found.counts.failed for one in bad) - MOST_NAMED) > 0:
        lines.append(f"… and {more:,} more")
    return "\n  | ".join(lines)


def read_results(folder: Path) -> Found:
    """Read the JUnit files of a folder, of any runner.

    Args:
        folder: what was taken out of a container; may be missing.
    """
    found = Found()
    for path in sorted(path for path in folder.rglob("*.xml") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        try:
            found.counts.add(path, name=name, most_named=MOST_NAMED)
            found.files += 1
        except BadFileError as error:
            found.damaged[clean(name)] = one_line(error.what, 500)
    return found


def results_folder(results: Path, tests: ComponentTests) -> Path:
    """Where the results of some tests stand.

    Raises:
        UsageError: something else stands there, which would be lost.
    """
    folder = results / tests.component / tests.kind
    if folder.exists() and not (folder / OURS).is_file():
        what, remedy = "is not a folder of results", "name another folder with --results"
        raise UsageError(what, where=folder, remedy=remedy)
    return folder


def put_results(folder: Path, taken: Path, outcome: Outcome) -> None:
    """Put the results of some tests where people find them.

    `junit/` holds what the tests wrote, `damaged/` what of it could not be read. `spyre-ci.xml` has one test
    case, with an error where there are problems, such as an end from outside, which no file of theirs tells.

    Args:
        folder: see `results_folder`.
        taken: what was taken out of the container; may be missing.
        outcome: what became of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(path for path in taken.rglob("*") if path.is_file()):
        name = path.relative_to(taken)
        copy = folder / ("damaged" if clean(name.as_posix()) in outcome.found.damaged else "junit") / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    title = clean(outcome.tests.title)
    case = junitparser.TestCase(title, clean(outcome.tests.component), round(outcome.seconds, 3))
    if outcome.problems:
        error = junitparser.Error(one_line("; ".join(outcome.problems), 2000), "spyre-ci")
        error.text = "\n".join(map(harmless, outcome.ended.last if outcome.ended else ()))
        case.result = [error]
    suite = junitparser.TestSuite(title)
    suite.add_testcases([case])
    with atomic_writer(folder / OURS) as stream:
        suite.write(stream)


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
        builder.echo(f"{stage}: building the image for tests")
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
            remedy=f"fix them; to try by hand: docker run --rm -it --network none {image} bash",
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
        echo(f"{tests.component} | {harmless(line)}")

    echo(f"{tests.title}: running tests")
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
                        problems.append(f"its results cannot be copied: {error.what}")
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
