"""JUnit that came out of a container: read with care, and put where people find it, whole and true.

What a container wrote is another's word. A file that is no whole JUnit is kept apart and replaced by one of
ours that says so; what no file says (killed, out of time, nothing written) stands in one of ours.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import junitparser

from ci.core.errors import BadFileError, UsageError
from ci.core.text import clean, one_line, plain
from ci.image.component_tests import ComponentTests
from ci.image.outcome import Failing, Found, Outcome
from ci.record.junit import case_of, junit_cases
from test_selection.files import atomic_writer, write_json

KIND = "image-tests"
# Says that a folder is one of ours, which the next results of the same tests take the place of.
NOTE = "outcome.json"
OURS = "spyre-ci.xml"
MOST_FAILING = 200


def read_results(folder: Path) -> Found:
    """Read the JUnit files of a folder, of any runner.

    Args:
        folder: what was taken out of a container; may be missing.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failing: list[Failing] = []
    damaged: dict[str, str] = {}
    files = 0
    for path in _xml(folder):
        name = path.relative_to(folder).as_posix()
        try:
            with path.open("rb") as stream:
                for element, _ in junit_cases(stream, name=name):
                    case = case_of(element)
                    counts[case.became] += 1
                    if case.became == "failed" and len(failing) < MOST_FAILING:
                        failing.append(Failing(name=one_line(case.name), message=one_line(case.message)))
            files += 1
        except BadFileError as error:
            damaged[clean(name)] = one_line(error.what, 500)
    return Found(**counts, failing=tuple(failing), files=files, damaged=damaged)


def results_folder(results: Path, tests: ComponentTests) -> Path:
    """Where the results of some tests stand.

    Raises:
        UsageError: something else stands there, which would be lost.
    """
    folder = results / tests.component / tests.kind
    if folder.exists() and not (folder / NOTE).is_file():
        raise UsageError(
            "stands where results belong, and is none",
            where=folder,
            remedy="name another folder with --results",
        )
    return folder


def put_results(folder: Path, taken: Path, outcome: Outcome) -> None:
    """Put the results of some tests where people find them, in the place of those before.

    `junit/` holds what the tests wrote, `damaged/` what of it could not be read, and `spyre-ci.xml` says what
    no file of theirs does.

    Args:
        folder: see `results_folder`.
        taken: what was taken out of the container; may be missing.
        outcome: what became of them.
    """
    with _replaced(folder) as made:
        if taken.is_dir():
            shutil.copytree(taken, made / "junit")
        for path in _xml(made / "junit"):
            name = path.relative_to(made / "junit")
            why = outcome.found.damaged.get(clean(name.as_posix()))
            if why is not None:
                kept = made / "damaged" / name
                kept.parent.mkdir(parents=True, exist_ok=True)
                path.replace(kept)
                _write(path, outcome, name.as_posix(), [f"{name.as_posix()} {why}"])
        told = [one for one in outcome.problems if one not in _damages(outcome)]
        if told or (not outcome.found.files and not outcome.found.damaged):
            _write(made / OURS, outcome, outcome.tests.title, told)
        write_json(made / NOTE, KIND, _note(outcome))


def _damages(outcome: Outcome) -> list[str]:
    return [f"{path} {why}" for path, why in outcome.found.damaged.items()]


def _note(outcome: Outcome) -> dict[str, object]:
    found = outcome.found
    return {
        "component": outcome.tests.component,
        "kind": outcome.tests.kind,
        "good": outcome.is_good,
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 3),
        "passed": found.passed,
        "failed": found.failed,
        "skipped": found.skipped,
        "problems": [one_line(problem, 2000) for problem in outcome.problems],
    }


def _write(path: Path, outcome: Outcome, name: str, problems: list[str]) -> None:
    """Write a JUnit file of ours: one test case, with an error where there are problems."""
    case = junitparser.TestCase(clean(name), clean(outcome.tests.component), round(outcome.seconds, 3))
    if problems:
        error = junitparser.Error(one_line("; ".join(problems), 2000), "spyre-ci")
        error.text = plain("\n".join(outcome.last))
        case.result = [error]
    suite = junitparser.TestSuite(clean(outcome.tests.title))
    suite.add_testcases([case])
    with atomic_writer(path) as stream:
        suite.write(stream)


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of another as the block ends without an error."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield made
        made.chmod(0o755)
        if folder.exists():
            before = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
            folder.replace(before)
            made.replace(folder)
            shutil.rmtree(before)
        else:
            made.replace(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _xml(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.xml") if path.is_file())
