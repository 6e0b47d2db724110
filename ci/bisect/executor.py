"""Tries of a commit: runs of `spyre-ci pytorch` here, or in a container of the commit's image.

Nothing is reported: a try of an old commit is not a result of any schedule.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from ci.bisect.build import BUILDERS, Builder, Made, UntestableError
from ci.bisect.record import Record
from ci.bisect.repository import Trees, remove
from ci.core.commands import finish_command
from ci.core.container_engine import check_is_here, engine
from ci.core.containers import Conditions, container, follow
from ci.core.errors import EXIT_USAGE, CommandError
from ci.core.text import last_line, one_line
from ci.core.withheld import without_job_secrets
from ci.record.result import Result
from ci.record.verdict import CODE_FAILED, CODE_PASSED, Verdict
from ci.report.results import RESULTS_FILE, read_results
from ci.runner.child import HOME, module_words
from ci.runner.orphans import end_orphans
from ci.steps.context import Context

# What starting, collecting and planning may take besides the try.
_BESIDE_S = 900
# Processes of a search are found by this variable, and its containers by this label.
MARK = "SPYRE_CI_BISECT"
# One card, no retry and nobody to share with.
_FLAGS = ("--cards", "1", "--static", "--retries", "0", "--control", "none")
_TMP = "/tmp"  # noqa: S108  # the container's own


class Executor:
    """Prepares and tries the commits of a search; several threads call it.

    Args:
        context: the outside world, with the device of the search.
        record: of the search.
        folder: of the search; takes what failed tries leave.
    """

    def __init__(self, context: Context, record: Record, folder: Path) -> None:
        self.stop = threading.Event()
        self._context, self._record, self._folder, self._work = context, record, folder, folder / "work"
        self._environ = without_job_secrets(context.environ) | {MARK: str(folder)}
        self._lock = threading.Lock()
        self.end()
        self._trees = Trees(self._work, Path(record.repository))
        self._builder = Builder(
            settings=context.settings.model.bisect,
            cache=context.state("bisect"),
            environ=self._environ,
            stop=self.stop.is_set,
        )

    @contextmanager
    def prepared(self, position: int) -> Iterator[Made]:
        """A commit with what is built of it; what is worth it is kept by its builder.

        Raises:
            UntestableError: the commit cannot be built.
            CommandError: the machine could not do it, which says nothing about the commit.
        """
        sha = self._record.commits[position]
        with self._lock:
            tree = self._trees.make(sha)
        try:
            with BUILDERS[self._record.builder](self._builder, sha, tree) as made:
                yield made
        finally:
            remove(tree)

    def attempt(self, made: Made) -> Result:
        """Try a commit once; the test passed or failed.

        Raises:
            UntestableError: the commit does not have the test, or skips it.
            CommandError: the machine could not do it, which says nothing about the commit.
        """
        (self._folder / "tries").mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{made.sha[:12]}-", dir=self._folder / "tries"))
        code, output = self._run(made, folder, self._work / f"state-{made.sha[:16]}")
        results = chain.from_iterable(map(read_results, folder.glob(f"*/{RESULTS_FILE}")))
        try:
            return decided(next(results, None), code, output)
        finally:
            if code == 0 or not any(folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)

    def end(self) -> None:
        """End and remove what tries of this search left, also those of one that was killed."""
        end_orphans(str(self._folder), spare=[os.getpid()], variable=MARK)
        if self._record.builder == "image":
            with suppress(CommandError), engine(self._context.environ) as client:
                for left in client.containers.list(all=True, filters={"label": f"{MARK}={self._folder}"}):
                    left.remove(force=True, v=True)
        remove(self._work)

    def _run(self, made: Made, folder: Path, state: Path) -> tuple[int, str]:
        """Run the test; the exit code and the output."""
        settings = self._context.settings
        config = [] if settings.path is None else ["--config", str(settings.path.resolve())]
        words = [*module_words("ci.cli", here=settings.base), "pytorch", *config, *_FLAGS]
        words += ["--pytorch-src", str(made.tree), "--device", settings.model.device.name]
        words += [f"--id={self._record.test}"]
        # Others may have every card for a while.
        timeout_s = _BESIDE_S + settings.model.run.lease_timeout_s + settings.model.bisect.try_timeout_s
        ours = {"RUNS": str(folder), "STATE": str(state), "REPORT__ENDPOINT": "none"}
        environ = self._environ | {f"SPYRE_CI__{name}": value for name, value in ours.items()}
        if made.image:
            lines: list[str] = []
            conditions = self._conditions(made, environ, folder, state)
            with engine(self._context.environ) as client:
                check_is_here(client)
                with container(client, made.image, words[1:], conditions) as running:
                    code = follow(running, timeout_s=timeout_s, echo=lines.append).exit_code
            return code, "\n".join(lines)
        path = filter(None, [made.packages, HOME, environ.get("PYTHONPATH")])
        environ["PYTHONPATH"] = os.pathsep.join(map(str, path))
        stop, cwd = self.stop.is_set, settings.base
        ended = finish_command(words, timeout_s=timeout_s, cwd=cwd, env=environ, stop=stop)
        return ended.code, (ended.stdout + ended.stderr).decode("utf-8", "replace")

    def _conditions(self, made: Made, environ: Mapping[str, str], folder: Path, state: Path) -> Conditions:
        """No network, no secret, and nothing of this machine but the commit and our code."""
        settings, leases = self._context.settings, self._work / "leases"  # keep tries from each other's cards
        for one in (state, leases):
            one.mkdir(exist_ok=True)
        ours = {"PYTHONPATH": str(HOME), "HOME": _TMP, "SPYRE_CI__RUN__LEASES": str(leases)}
        code = [HOME / "ci", HOME / "test_selection", *filter(None, [settings.path])]
        return Conditions(
            environment={name: one for name, one in environ.items() if name.startswith("SPYRE_CI__")} | ours,
            user=f"{os.getuid()}:{os.getgid()}",
            workdir=str(folder),
            entrypoint=("python3",),
            scratch=(_TMP,),
            mounts={str(one): one for one in (made.tree, folder, state, leases)},
            read_only_mounts={str(one): one for one in code},
            devices=tuple(settings.model.image.devices),
            restricted=True,
            labels={MARK: str(self._folder)},
        )


def decided(result: Result | None, code: int, output: str) -> Result:
    """The result of a try, if it says something about the commit. A declared failure is one, too. Pure.

    Args:
        result: None where the run did not come to one.
        code: of the run, which refuses a test that it does not have.
        output: of the run.

    Raises:
        UntestableError: the commit does not have the test, or skips it.
        CommandError: the card, the worker or the memory failed.
    """
    if result is None:
        said = [line for line in output.splitlines() if line.startswith("spyre-ci: ")]
        why = said[-1] if said else last_line(output) or "no output"
        kind = UntestableError if code == EXIT_USAGE else CommandError
        raise kind(f"cannot be tested: {one_line(why)}")
    message = one_line(result.message or result.verdict.words)
    if result.verdict is Verdict.SKIPPED:
        raise UntestableError(f"skips the test: {message}")
    if result.verdict not in CODE_PASSED | CODE_FAILED or result.cause == "oom":
        raise CommandError(message)
    return result
