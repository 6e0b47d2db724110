"""Imports go one way: cli > steps > the rooms > what all use > test_selection."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LAYERS = {
    "test_selection": 0,
    "ci.core.addresses": 1, "ci.core.object_store": 1, "ci.config": 1, "ci.core.errors": 1, "ci.core.extras": 1, "ci.core.findings": 1,
    "ci.core.github": 1,
    "ci.core.interrupts": 1, "ci.jenkins": 1,
    "ci.core.process": 1,
    "ci.core.progress": 1, "ci.core.provider": 1, "ci.core.resources": 1, "ci.system": 1, "ci.core.supervise": 1,
    "ci.core.withheld": 1,
    "ci.bisect": 2, "ci.compare": 2, "ci.doctor": 2, "ci.init": 2, "ci.reproduce": 2, "ci.retention": 2,
    "ci.device": 2, "ci.hud": 2, "ci.image": 2, "ci.jobs": 2, "ci.lanes": 2, "ci.live": 2, "ci.package": 2,
    "ci.pins": 2, "ci.pipeline": 2,
    "ci.report": 2,
    "ci.runner": 2, "ci.webhooks": 2,
    "ci.steps": 3,
    "ci.cli": 4,
}  # fmt: skip
# A report is made of journals, so it reads what the runner writes; what is seen of a run while it goes on is
# the report of the journals so far, in the report's words.
ACROSS = {
    ("ci.report", "ci.record.journal"),
    ("ci.live", "ci.record.run_state"),
    ("ci.live", "ci.record.verdict"),
    ("ci.live", "ci.core.text"),
    # A job here is a container as an image's tests are; what pods say commands no CI and no terminal.
    ("ci.jobs", "ci.image.container"),
    ("ci.jobs", "ci.image.engine"),
    # An image of a repository or a folder is built, pushed and found as the runtime image is.
    ("ci.jobs", "ci.image.build"),
    ("ci.jobs", "ci.image.checkout"),
    ("ci.jobs", "ci.image.pantry"),
    ("ci.jobs", "ci.image.push"),
    ("ci.jobs", "ci.image.registry"),
    ("ci.jobs", "ci.image.repositories"),
    ("ci.jobs", "ci.image.shell"),
    ("ci.jobs", "ci.core.workflow_commands"),
    ("ci.jobs", "ci.core.text"),
    ("ci.jobs", "ci.core.templates"),
    ("ci.jobs", "ci.report.svg"),
    # Journals are sent as they grow, and what never ran is told in one.
    ("ci.jobs", "ci.record.journal"),
    ("ci.jobs", "ci.record.journal_line"),
    # What a checkout is at is asked of Git as packaging asks it.
    ("ci.jobs", "ci.core.git"),
    # So are commits and what they say; with what tests say it is shown in a report's words.
    ("ci.bisect", "ci.core.git"),
    ("ci.bisect", "ci.core.templates"),
    ("ci.bisect", "ci.report.summary"),
    ("ci.bisect", "ci.core.text"),
    # The test tree of an image is what the main job reads of PyTorch's repository.
    ("ci.image", "ci.runner.checkout"),
    # A page shows what tests say, and calls flaky what a report calls flaky.
    ("ci.hud", "ci.core.text"),
    # A test that is brought back is told of in a report's words, by what journals, an artifact or a HUD tell.
    ("ci.reproduce", "ci.record.reproduce_line"),
    ("ci.reproduce", "ci.record.failure_signature"),
    ("ci.reproduce", "ci.core.text"),
    ("ci.reproduce", "ci.record.verdict"),
    ("ci.reproduce", "ci.record.journal"),
    # The image of a run is opened as any image of ours.
    ("ci.reproduce", "ci.image.shell"),
    # How a test is brought back is said alike in a report, on a page and in a comment.
    ("ci.hud", "ci.record.reproduce_line"),
    ("ci.pipeline", "ci.record.reproduce_line"),
    ("ci.pipeline", "ci.record.identity"),
    ("ci.hud", "ci.core.templates"),
    ("ci.hud", "ci.report.flakes"),
    # What tests in a container wrote is read as any runner's JUnit is, and shown in a report's words.
    ("ci.image", "ci.hud.junit_rows"),
    ("ci.image", "ci.hud.row_layout"),
    ("ci.image", "ci.hud.rows"),
    ("ci.image", "ci.core.text"),
    # What a step says is kept from commanding a CI as what a test says is.
    ("ci.image", "ci.core.workflow_commands"),
    # What a linter or a test says of a project's files neither commands a CI nor a terminal.
    ("ci.package", "ci.core.workflow_commands"),
    ("ci.package", "ci.core.text"),
    # What a gate asks of a run's verdicts is asked in a report's words.
    ("ci.package", "ci.record.verdict"),
    ("ci.package", "ci.record.environment"),
    # Where a checkout stands is asked of Git as packaging asks it.
    ("ci.init", "ci.core.git"),
    # A project's device tests are put into a tree as the runner takes it.
    ("ci.package", "ci.runner.source"),
    # What two runs are compared by are a report's verdicts, told in its words and drawn as its pages are.
    ("ci.compare", "ci.core.templates"),
    ("ci.compare", "ci.record.failure_signature"),
    ("ci.compare", "ci.report.summary"),
    ("ci.compare", "ci.core.text"),
    ("ci.compare", "ci.record.verdict"),
    # A comment says what `spyre-ci compare` says.
    ("ci.pipeline", "ci.compare.comparison"),
    ("ci.pipeline", "ci.compare.existing"),
    ("ci.pipeline", "ci.compare.markdown"),
    ("ci.pipeline", "ci.compare.side"),
    # An image is looked at as an image's tests are run, and an index is asked as packaging asks it.
    ("ci.pins", "ci.image.container"),
    ("ci.pins", "ci.image.engine"),
    ("ci.pins", "ci.image.registry"),
    ("ci.pins", "ci.image.tags"),
    ("ci.pins", "ci.package.archive"),
    ("ci.pins", "ci.package.artifacts"),
    ("ci.pins", "ci.package.asking"),
    ("ci.pins", "ci.package.listing"),
    # What images and indexes say commands no CI and no terminal.
    ("ci.pins", "ci.core.workflow_commands"),
    ("ci.pins", "ci.core.text"),
    # What a lost run of a lane leaves is found as what a test leaves is, and told in a report's words.
    ("ci.lanes", "ci.runner.strays"),
    # A worker has its state as whoever resumes a run has the run's folder.
    ("ci.lanes", "ci.core.run_lock"),
    # What a variant of PyTorch is, stands in the stack of the runtime image.
    ("ci.lanes", "ci.image.stack"),
    ("ci.lanes", "ci.image.tree"),
    ("ci.lanes", "ci.core.text"),
    # What a run far away came to is put into the history as its report would do here.
    ("ci.lanes", "ci.report.history_runs"),
    ("ci.lanes", "ci.record.identity"),
    ("ci.lanes", "ci.report.results"),
    # What a run of a workflow handed on is found, unpacked and read as a comment on a pull request does.
    ("ci.lanes", "ci.pipeline.gather"),
    ("ci.lanes", "ci.pipeline.payload"),
    ("ci.lanes", "ci.pipeline.runs"),
    ("ci.lanes", "ci.pipeline.told"),
    ("ci.lanes", "ci.core.untrusted_zip"),
    # A lane's job on a cluster is looked at and ended as `spyre-ci job` does.
    ("ci.lanes", "ci.jobs.board"),
    ("ci.lanes", "ci.jobs.cancel"),
    ("ci.lanes", "ci.jobs.cluster"),
    ("ci.lanes", "ci.jobs.fate"),
    ("ci.lanes", "ci.jobs.labels"),
    ("ci.lanes", "ci.jobs.paths"),
    ("ci.lanes", "ci.jobs.record"),
    ("ci.lanes", "ci.jobs.spec"),
    ("ci.lanes", "ci.jobs.standing"),
    ("ci.lanes", "ci.jobs.watch"),
    # What a change touches is asked of Git as packaging asks it.
    ("ci.pipeline", "ci.core.git"),
    # What decides which tests there are decides whether two plans are the same.
    ("ci.pipeline", "ci.runner.collect_cache"),
    # Names of files and labels command neither a CI nor a terminal, and are no markup.
    ("ci.pipeline", "ci.core.workflow_commands"),
    ("ci.pipeline", "ci.report.summary"),
    ("ci.pipeline", "ci.core.text"),
    # A comment tells what a report holds, in its words; results that are reused are noted for a report.
    ("ci.pipeline", "ci.report.results"),
    ("ci.pipeline", "ci.report.reused"),
    ("ci.pipeline", "ci.record.verdict"),
    ("ci.pipeline", "ci.report.write"),
    # A change of a pin is made of what Git has, asked as packaging asks it.
    ("ci.pins", "ci.core.git"),
    # A machine is looked at as whoever uses it would: cards by their leases, engine, cluster and endpoint by
    # the clients that ask them, tokens where they are looked for; what is seen is plain text.
    ("ci.doctor", "ci.device.environment"),
    ("ci.doctor", "ci.hud.client"),
    ("ci.doctor", "ci.hud.endpoint"),
    ("ci.doctor", "ci.hud.oidc"),
    ("ci.doctor", "ci.hud.opening"),
    ("ci.doctor", "ci.hud.token"),
    ("ci.doctor", "ci.hud.wire"),
    ("ci.doctor", "ci.image.engine"),
    ("ci.doctor", "ci.image.registry"),
    ("ci.doctor", "ci.jobs.cluster"),
    ("ci.doctor", "ci.jobs.errors"),
    ("ci.doctor", "ci.jobs.paths"),
    ("ci.doctor", "ci.jobs.validate.rights"),
    ("ci.doctor", "ci.core.workflow_commands"),
    ("ci.doctor", "ci.package.causes"),
    ("ci.doctor", "ci.package.credentials"),
    ("ci.doctor", "ci.package.pump"),
    ("ci.doctor", "ci.core.text"),
    ("ci.doctor", "ci.runner.back_end"),
    ("ci.doctor", "ci.runner.cards"),
    ("ci.doctor", "ci.runner.health"),
    ("ci.doctor", "ci.runner.inventory"),
    ("ci.doctor", "ci.runner.leases"),
    ("ci.doctor", "ci.runner.preflight"),
    ("ci.doctor", "ci.runner.prepare"),
    ("ci.doctor", "ci.runner.whereabouts"),
    # A run's folder goes while nobody can begin to work in it; what went is told in a report's words.
    ("ci.retention", "ci.core.run_lock"),
    ("ci.retention", "ci.core.text"),
    # What a folder is, the file says that whoever made it leaves in it.
    ("ci.retention", "ci.core.shared_folders"),
    ("ci.retention", "ci.bisect.record"),
    ("ci.retention", "ci.record.reproduction"),
    # What a person asks for, and what a release calls itself, is no markup in a checklist.
    ("ci.pins", "ci.report.summary"),
}
IMPURE = {"socket", "subprocess", "requests", "time", "random", "os.environ", "multiprocessing", "threading"}


@functools.cache
def modules() -> tuple[tuple[str, frozenset[str]], ...]:
    """Each module with what it imports; the tree is read once for all tests."""
    found = []
    for package in ("ci", "test_selection"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found.append((name, frozenset(imports(ast.parse(path.read_text(encoding="utf-8"))))))
    return tuple(found)


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module a file names in an import, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def room(name: str) -> str | None:
    return next((one for one in LAYERS if name == one or name.startswith(f"{one}.")), None)


def test_every_module_stands_in_a_layer() -> None:
    assert [name for name, _ in modules() if name != "ci" and room(name) is None] == []


def test_no_module_imports_upwards_or_sideways() -> None:
    wrong = []
    for name, imported_ones in modules():
        here = room(name)
        for imported in imported_ones:
            there = room(imported)
            if here is None or there is None or here == there:
                continue
            sideways = LAYERS[there] == LAYERS[here] == 2
            allowed = any(here == one and imported.startswith(other) for one, other in ACROSS)
            if LAYERS[there] > LAYERS[here] or (sideways and not allowed):
                wrong.append(f"{name} imports {imported}")
    assert wrong == []


def test_selection_is_pure() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, imported_ones in modules()
        if name.startswith("test_selection")
        for imported in imported_ones
        if imported in IMPURE or imported.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_only_one_module_is_about_running_commands() -> None:
    # The others start Python processes of our own that they talk to while those run.
    # One runs in a container, with nothing of ours.
    allowed = {
        "ci.image.verify.inside", "ci.core.process", "ci.runner.child", "ci.runner.collect", "ci.runner.link",
        "ci.runner.supervisor",
    }  # fmt: skip
    users = {name for name, imported_ones in modules() if "subprocess" in imported_ones}
    assert users <= allowed
