"""The verbs and groups there are, by name: what each is in a line, and what is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, or a group of verbs.

    Attributes:
        at: `module:name` of its function, or of a group's typer.
        help: the first line of its help: the list of verbs is shown, and completed, without its import.
        more: verbs of a group that stand above the group's room; `module:name` by their names.
    """

    at: str
    help: str
    more: Mapping[str, str] = field(default_factory=dict)


# A new verb is a line here, in the order of `spyre-ci --help`.
VERBS: Mapping[str, Verb] = {
    "doctor": Verb(
        "ci.doctor.cli:doctor",
        "Look at this machine: what a run needs, what is there, and the remedy where it is not.",
    ),
    "init": Verb("ci.init.cli:init", "Set a back end's checkout up: settings, workflows and a Jenkinsfile."),
    "pytorch": Verb("ci.main_job.cli:pytorch", "Run a staged share of PyTorch's tests and report it."),
    "collect": Verb(
        "ci.main_job.cli_steps:collect",
        "Collect the tests of a tree into `catalog.jsonl.gz` of a new run folder, or of --run-dir.",
    ),
    "plan": Verb("ci.main_job.cli_steps:plan", "Split a selection over shards into `plan.json`."),
    "matrix": Verb(
        "ci.main_job.cli_matrix:matrix",
        "Deal a plan's shards to legs that end at about the same time, as one line of JSON.",
    ),
    "forecast": Verb(
        "ci.cli.forecast:forecast",
        "Forecast runs a day, the cards they take, and how the run's plan fares with wrong estimates.",
    ),
    "run": Verb(
        "ci.main_job.cli_steps:run",
        "Run a plan, or some of its shards, on this host; journals and JUnit go to the run folder.",
    ),
    "report": Verb(
        "ci.main_job.cli_steps:report",
        "Report a run from its journals: results, JUnit, summary, page, history and HUD.",
    ),
    "reproduce": Verb(
        "ci.reproduce.cli:reproduce",
        "Bring one test of a run back: its command, environment, seed and image.",
    ),
    "compare": Verb("ci.cli.compare:compare", "Say what one run changes against another, test by test."),
    "bisect": Verb(
        "ci.bisect.cli:bisect", "Find the commit of PyTorch that broke a test, in the fewest steps."
    ),
    "prune": Verb(
        "ci.retention.cli:prune", "Remove old runs, caches, images and results; what a release names stays."
    ),
    "flakes": Verb(
        "ci.cli.flakes:flakes", "Rank flaky tests over the history, and say whether fewer than 5 % are."
    ),
    "select": Verb("ci.cli.select:app", "Choose the tests of a stage from a catalog into `selection.json`."),
    "scope": Verb("ci.cli.scope:app", "What is in scope, what is not, and why."),
    "hud": Verb("ci.hud.cli:app", "HUD: report results, and serve the pages of the embedded endpoint."),
    "image": Verb("ci.image.cli:app", "The runtime image, from its components to the registry."),
    "package": Verb(
        "ci.package.cli:app",
        "Lint, test, build, verify and publish a project.",
        {"device": "ci.cli.package_device:device"},
    ),
    "pipeline": Verb(
        "ci.pipeline.cli:app",
        "What pipelines ask: what runs, how it is split, whether it was enough.",
        {
            "legs": "ci.pipeline.cli_plan:legs",
            "plan": "ci.pipeline.cli_plan:plan",
            "reuse": "ci.pipeline.reuse:reuse",
        },
    ),
    "webhooks": Verb("ci.webhooks.cli:app", "Webhooks of a list of repositories, as code."),
    "job": Verb(
        "ci.jobs.cli:app",
        "Jobs on Kubernetes and OpenShift.",
        {
            "submit": "ci.jobs.cli_submit:submit",
            "collect": "ci.jobs.cli_collect:collect",
            "pod": "ci.jobs.cli_pod:pod",
            "preflight": "ci.jobs.cli_pod:preflight",
            "fetch": "ci.jobs.cli_pod:fetch_verb",
            "put": "ci.jobs.cli_pod:put_verb",
        },
    ),
    "lanes": Verb("ci.lanes.cli:app", "Recurring runs: what is next and why, and the worker."),
    "pins": Verb("ci.pins.cli:app", "Pinned versions: their ledger, and when they may change."),
    "history": Verb("ci.cli.history:app", "History: what past runs took, for planning."),
    "quarantine": Verb("ci.cli.quarantine:app", "Tests whose failures do not turn a run red, until a day."),
    "config": Verb("ci.cli.config:app", "The settings of this checkout."),
    "suite": Verb("ci.cli.suite:app", "torch-spyre's suite files."),
}
