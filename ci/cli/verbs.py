"""The verbs and groups by panel and name: each one's line of help, and what is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, or a group of verbs.

    Attributes:
        at: `module:name` of its function, or of a group's typer.
        help: the first line of its help: the list of verbs is shown, and completed, without its import.
        more: verbs of a group that stand above the group's room; `module:name` by their names.
        shown: verbs that the group's help lists, in order; empty: all. Pods call the others.
    """

    at: str
    help: str
    more: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[str] = ()


# A new verb is a line here. Panels and verbs are in the order of `spyre-ci --help`, the most used first.
PANELS: Mapping[str, Mapping[str, Verb]] = {
    "Run": {
        "pytorch": Verb("ci.main_job.cli:pytorch", "Run a staged share of PyTorch's tests and report it."),
        "doctor": Verb(
            "ci.doctor.cli:doctor",
            "Check that this machine has what a run needs; name a remedy for each fault.",
        ),
        "init": Verb(
            "ci.init.cli:init", "Set up a back end's checkout: settings, workflows and a Jenkinsfile."
        ),
        "collect": Verb(
            "ci.main_job.cli_steps:collect",
            "Collect the tests of a tree into `catalog.jsonl.gz` of a run folder.",
        ),
        "scope": Verb("ci.cli.scope:app", "Show which tests are in scope, which are not, and why."),
        "select": Verb("ci.cli.select:app", "Select a stage's share of the tests into `selection.json`."),
        "plan": Verb("ci.main_job.cli_steps:plan", "Split a selection over shards into `plan.json`."),
        "matrix": Verb(
            "ci.main_job.cli_matrix:matrix",
            "Group a plan's shards into CI jobs of about equal duration, as one line of JSON.",
        ),
        "run": Verb(
            "ci.main_job.cli_steps:run",
            "Run a plan, or some of its shards, on this host; write journals and JUnit.",
        ),
        "report": Verb(
            "ci.main_job.cli_steps:report",
            "Report a run from its journals: results, JUnit, summary, page, history and HUD.",
        ),
    },
    "Look": {
        "reproduce": Verb(
            "ci.reproduce.cli:reproduce",
            "Reproduce one test of a run: same command, environment, seed and image.",
        ),
        "compare": Verb(
            "ci.cli.compare:compare", "Compare two runs test by test: newly failing, fixed, slower."
        ),
        "bisect": Verb(
            "ci.bisect.cli:bisect", "Find the commit of PyTorch that broke a test, in the fewest steps."
        ),
        "flakes": Verb(
            "ci.cli.flakes:flakes",
            "Rank flaky tests over the history; --fail-above PERCENT makes it a check.",
        ),
        "quarantine": Verb(
            "ci.cli.quarantine:app", "Check the tests whose failures do not turn a run red until a date."
        ),
        "history": Verb(
            "ci.cli.history:app", "Show, export and import what earlier runs took, for planning."
        ),
        "forecast": Verb(
            "ci.cli.forecast:forecast",
            "Forecast runs a day, cards needed, and how a plan fares with wrong estimates.",
        ),
        "changes": Verb(
            "ci.cli.changes:app", "Measure what a choice of tests by a change catches.", shown=("measure",)
        ),
        "suite": Verb("ci.cli.suite:app", "Check and promote torch-spyre's suite files."),
        "config": Verb("ci.cli.config:app", "Show the settings of this checkout and where each comes from."),
    },
    "Deliver": {
        "package": Verb(
            "ci.package.cli:app",
            "Lint, test, build, verify and publish a project.",
            {"device": "ci.cli.package_device:device"},
            shown=("lint", "unit", "device", "build", "verify", "release", "publish"),
        ),
        "image": Verb("ci.image.cli:app", "Build, test and push the runtime image."),
        "hud": Verb("ci.hud.cli:app", "Send results to HUD, or serve the embedded HUD."),
        "pipeline": Verb(
            "ci.pipeline.cli:app",
            "Decide for a CI what runs, how it is split, and whether it passed.",
            {
                "legs": "ci.pipeline.cli_plan:legs",
                "plan": "ci.pipeline.cli_plan:plan",
                "reuse": "ci.pipeline.reuse:reuse",
            },
            shown=("changes", "plan", "legs", "reuse", "gate", "comment", "status", "head"),
        ),
        "webhooks": Verb("ci.webhooks.cli:app", "Manage the webhooks of a list of repositories as code."),
    },
    "Operate": {
        "job": Verb(
            "ci.jobs.cli:app",
            "Submit, watch and collect jobs on Kubernetes, OpenShift or a container engine.",
            {
                "submit": "ci.jobs.cli_submit:submit",
                "collect": "ci.jobs.cli_collect:collect",
                "pod": "ci.jobs.cli_pod:pod",
                "preflight": "ci.jobs.cli_pod:preflight",
                "fetch": "ci.jobs.cli_pod:fetch_verb",
                "put": "ci.jobs.cli_pod:put_verb",
            },
            shown=("submit", "watch", "collect", "logs", "cancel", "validate"),
        ),
        "lanes": Verb("ci.lanes.cli:app", "Run and show recurring runs."),
        "pins": Verb("ci.pins.cli:app", "Manage pinned versions: releases, decisions, upgrades."),
        "prune": Verb(
            "ci.retention.cli:prune",
            "Remove old runs, caches, images and results; keep what a release names.",
        ),
    },
}
VERBS: Mapping[str, Verb] = {name: verb for verbs in PANELS.values() for name, verb in verbs.items()}
