"""What each verb's examples find when they are typed, and what they end with.

A verb without a row fails its tests: nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import cards, clusters, hubs, packages, tracks
from .world import World

Preparation = Callable[[World], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a verb is typed on.

    Attributes:
        after: what makes the things that its examples name, in order.
        code: what its examples end with.
        heavy: it takes long, or wants a container engine.
        once: it takes long: its examples are typed with `--json` only, which their other test does.
        until: it goes on for ever: it is a process of its own, which is interrupted when it prints that.
        elsewhere: the file that types its examples, where they want what only that room has.
        says: a word of what it prints.
    """

    after: Sequence[Preparation] = ()
    code: int = 0
    heavy: bool = False
    once: bool = False
    says: str = ""
    until: str = ""
    elsewhere: str = ""


# These want a container engine and a stack to build.
IMAGES = "tests/integration/image/test_examples.py"

ROWS: Mapping[str, Row] = {
    "doctor": Row(says="disk", heavy=True),
    "init": Row(says="--write"),
    "reproduce": Row(says="outcome: passed"),
    "compare": Row(after=[cards.run_again]),
    "bisect": Row(after=[cards.history_of_pytorch]),
    "prune": Row(),
    "pytorch": Row(once=True),
    "collect": Row(once=True),
    "plan": Row(),
    "matrix": Row(says='"include"'),
    "forecast": Row(),
    "run": Row(after=[cards.plan_here]),
    "report": Row(code=1),
    "flakes": Row(),
    "select": Row(after=[cards.changed]),
    # No test of the project runs the kernel, so no fault is found.
    "changes measure": Row(after=[cards.changed], code=3, heavy=True),
    "select diff": Row(),
    "scope": Row(),
    "scope explain": Row(),
    "history export": Row(after=[cards.traced]),
    "history import": Row(after=[cards.class_times]),
    "history show": Row(),
    "quarantine check": Row(after=[cards.quarantine]),
    "config show": Row(),
    "suite check": Row(after=[cards.suites]),
    "suite promote": Row(after=[cards.suites]),
    "hud rows": Row(after=[hubs.bucket]),
    "hud serve": Row(until="HUD on http://"),
    "hud send": Row(),
    "image build": Row(elsewhere=IMAGES),
    "image tree": Row(elsewhere=IMAGES),
    "image test": Row(elsewhere=IMAGES),
    "image shell": Row(elsewhere=IMAGES),
    "package lint": Row(after=[packages.project]),
    "package unit": Row(after=[packages.project], heavy=True, once=True),
    "package build": Row(after=[packages.project], heavy=True, once=True),
    "package verify": Row(after=[packages.built]),
    "package release": Row(after=[packages.built]),
    "package publish": Row(after=[packages.on_an_index]),
    "package device": Row(after=[packages.installed], heavy=True, once=True),
    "pipeline changes": Row(after=[cards.repository]),
    "pipeline gate": Row(after=[cards.needs]),
    "pipeline comment": Row(after=[cards.ci_run, hubs.github]),
    "pipeline head": Row(after=[hubs.github]),
    "pipeline status": Row(after=[hubs.github, hubs.build]),
    "pipeline legs": Row(after=[cards.ci_plan]),
    "pipeline plan": Row(after=[cards.repository]),
    "pipeline reuse": Row(
        after=[cards.ci_plan, hubs.github, hubs.queue], says="does not have commit aaaaaaaaaaaa"
    ),
    "webhooks apply": Row(after=[hubs.webhooks], code=1),
    "job submit": Row(after=[clusters.specs, clusters.cluster]),
    "job watch": Row(after=[clusters.cluster, clusters.ended_job]),
    "job logs": Row(after=[clusters.cluster, clusters.ended_job]),
    "job cancel": Row(after=[clusters.cluster, clusters.ended_job]),
    "job validate": Row(after=[clusters.specs, clusters.cluster, clusters.card_cluster]),
    "job fetch": Row(after=[clusters.bucket]),
    "job put": Row(after=[clusters.bucket]),
    "job collect": Row(after=[clusters.pod_journals], code=1),
    "job pod": Row(after=[clusters.inside_a_pod]),
    "job preflight": Row(),
    "lanes run": Row(after=[tracks.lanes]),
    "lanes status": Row(after=[tracks.lanes]),
    "lanes export": Row(after=[tracks.lanes_of_a_ci]),
    "pins status": Row(after=[tracks.pins]),
    "pins record": Row(after=[tracks.index]),
    "pins request": Row(after=[tracks.pins]),
    "pins campaign": Row(after=[tracks.pins]),
    "pins decide": Row(after=[tracks.pins], code=1),
    "pins apply": Row(after=[tracks.pins]),
}
