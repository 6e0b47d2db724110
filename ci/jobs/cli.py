"""`spyre-ci job watch|logs|cancel|validate`: jobs that are on a cluster, and whether it is fit for them."""

from __future__ import annotations

import os
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ci.core.addresses import shown
from ci.core.errors import UsageError
from ci.core.text import clean, counted, iso_utc
from ci.core.workflow_commands import defused
from ci.jobs.cluster import Cluster, open_cluster
from ci.jobs.logs import SECONDS, LogReader, Unit, find_sources, missing, sink
from ci.jobs.spec import read_spec
from ci.jobs.status import Aggregates, job_status
from ci.jobs.submit import cancel as cancel_job
from ci.jobs.watch import PATIENCE_S, Ending, View, find_job, watch_job
from ci.steps import options
from test_selection.files import document_text

Name = Annotated[str, typer.Argument(help="Name of the job, as `job submit` prints it.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the job; default: the context's.")
]
InContext = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig; default: the current one.")
]
PendingLimit = Annotated[
    float | None, typer.Option(min=0, help="Stop watching after this many minutes without a running pod.")
]
# What reads a spec or reports a run is registered beside these, in `ci.cli.verbs`.
app = typer.Typer(no_args_is_help=True)


@app.command("watch")
def watch_verb(
    name: Name,
    *,
    pending_limit: PendingLimit = None,
    as_json: options.Json = False,
    namespace: Namespace = None,
    context: InContext = None,
) -> None:
    """Watch a job until it ends: its pods, and why they wait. Ctrl-C leaves the job running.

    Exit code: 0 done, 1 tests failed, 3 incomplete, 75 the cluster is unreachable and the job is still
    running.

    Example: spyre-ci job watch tests-calm-otter-1f2e3 --pending-limit 30
    """
    cluster = open_cluster(os.environ, namespace=namespace, context=context, patience_s=PATIENCE_S)
    view = View(console=options.make_console(os.environ, stderr=as_json), environ=os.environ)
    ending, found = watched(cluster, name, view, pending_limit)
    if as_json:
        typer.echo(watched_document(name, ending, found))
    raise typer.Exit(ending.exit_code)


def watched_document(name: str, ending: Ending, found: Aggregates) -> str:
    """What `--json` prints of a job that was watched, on one line."""
    counts = {str(phase): number for phase, number in sorted(found.counts.items()) if number}
    content = {"job": name, "pods": found.job.pods, "counts": counts}
    end = {"exit_code": ending.exit_code, "why": ending.why}
    return document_text("job-watch", content | end, on_one_line=True)


def watched(
    cluster: Cluster, name: str, view: View, limit_minutes: float | None
) -> tuple[Ending, Aggregates]:
    """Watch a job until it ends, and say how it did; Ctrl-C leaves it running."""
    limit_s = None if limit_minutes is None else limit_minutes * 60
    try:
        ending, found = watch_job(cluster, name, view, pending_limit_s=limit_s)
    except KeyboardInterrupt:
        typer.echo(
            f"the job is still running: watch it again with `spyre-ci job watch {name}`,"
            f" end it with `spyre-ci job cancel {name}`",
            err=True,
        )
        raise
    if ending.why:
        view.say(ending.why)
    return ending, found


@app.command()
def logs(
    name: Name,
    *,
    shift_unit: Annotated[Unit | None, typer.Option(help="Unit of --shift-amount.")] = None,
    shift_amount: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Show the log of the last N units; default: 1.")
    ] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Show only the pod of this index.")] = None,
    container: Annotated[str, typer.Option(help="Container whose log to show.")] = "main",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stream the log until it ends.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", help="Show the log of the container before its last restart.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Write one file per pod into this folder."),
    ] = None,
    namespace: Namespace = None,
    context: InContext = None,
) -> None:
    """Print or save the logs of a job's pods, each line prefixed with its pod's index.

    Example: spyre-ci job logs tests-calm-otter-1f2e3 --shift-unit days --shift-amount 3 --to logs/
    """
    if follow and to is not None:
        raise UsageError("--follow and --to exclude each other", remedy="leave one of them out")
    if shift_amount is not None and shift_unit is None:
        raise UsageError("--shift-amount needs --shift-unit", remedy="give both, or neither")
    since_s = None if shift_unit is None else SECONDS[shift_unit] * (shift_amount or 1)
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    pods = job_status(find_job(cluster, name)[1]).pods
    sources = find_sources(cluster, name, index=index, follow=follow)
    query = {"container": container, "sinceSeconds": since_s, "follow": follow, "previous": previous}
    reader = LogReader(cluster=cluster, query=query, say=lambda line: _echo(line, err=True))
    _echo(missing(sources, pods, index), err=True)
    code = reader.write_all(sources, sink(to, _echo))
    if to is not None:
        _echo(f"logs of {counted(len(sources), 'pod')}: {to}", err=True)
    raise typer.Exit(code)


@app.command()
def cancel(
    name: Name,
    *,
    timeout_minutes: Annotated[
        float, typer.Option(min=0, help="Minutes to wait until all is removed; 0: do not wait.")
    ] = 3,
    as_json: options.Json = False,
    namespace: Namespace = None,
    context: InContext = None,
) -> None:
    """Cancel a job and remove its objects from the cluster; results in its store stay.

    Example: spyre-ci job cancel tests-calm-otter-1f2e3
    """
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    removed = cancel_job(
        cluster, name, timeout_s=timeout_minutes * 60, say=lambda line: _echo(line, err=as_json)
    )
    words = Counter(word.partition(" ")[0] for word in removed)
    listed = ", ".join(f"{number:,} {kind}" for kind, number in words.items())
    _echo(f"{name}: removed {listed}" if removed else f"{name}: nothing to remove", err=as_json)
    if as_json:
        typer.echo(document_text("job-cancel", {"job": name, "removed": removed}, on_one_line=True))


def _echo(line: str, *, err: bool = False) -> None:
    """A line, unless it is empty; what it quotes of a cluster commands neither a terminal nor a CI."""
    if line:
        typer.echo(defused(clean(line)), err=err)


@app.command()
def validate(
    ctx: typer.Context,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="Spec of a job to run on the cluster.")
    ] = None,
    stage: Annotated[int, typer.Option(help="Stage whose number of cards is required.")] = 0,
    image: Annotated[str | None, typer.Option(help="Image to run; default: the spec's.")] = None,
    namespace: Namespace = None,
    context: InContext = None,
    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="Pull the image and check every card.")
    ] = True,
    preflight_timeout: Annotated[
        int, typer.Option(min=1, max=3600, help="Seconds to wait for the nodes' answers.")
    ] = 900,
    out: Annotated[Path | None, typer.Option("--out", help="Markdown report to write, for signing.")] = None,
    json_output: options.Json = False,
) -> None:
    """Check a cluster for a stage: nodes, operator, cards, storage, quota, rights; then try every card.

    Example: spyre-ci job validate --stage 1 --spec examples/tests-stage1.yaml --out validation.md
    """
    from ci.jobs import validate as checks  # noqa: PLC0415  # the official client takes a second
    from ci.jobs.trial import try_cards  # noqa: PLC0415  # the same

    settings = options.make_context(ctx, {}, json_output=json_output).settings
    if (row := settings.model.stages.get(stage)) is None:
        known = ", ".join(map(str, sorted(settings.model.stages)))
        raise UsageError(f"there is no stage {stage}", where="--stage", remedy=f"the stages are {known}")
    cluster = open_cluster(os.environ, namespace=namespace, context=context)
    given = None if spec is None else read_spec(spec)
    image = image or (given.image.name if given else None) or ""
    wanted = checks.Wanted(cluster=cluster, stage=stage, cards=row.cards, spec=given, image=image)
    console = options.make_console(os.environ, stderr=json_output)
    found = checks.check_all(wanted)
    if preflight:
        card_s = settings.model.run.preflight_timeout_s
        found += try_cards(wanted, timeout_s=preflight_timeout, card_s=card_s)
    if out is not None:
        about = {
            "cluster": shown(cluster.host),
            "namespace": cluster.namespace,
            "date": iso_utc(time.time()),
            "stage": f"{stage}: {row.cards:,} cards",
            "image": image or "none",
            "spyre-ci": version("spyre-ci"),
        }
        checks.write_report(out, about, found, wanted.__dict__.get("card_nodes", ()))
        console.print(f"report: {out}", markup=False, highlight=False, soft_wrap=True)
    if json_output:
        names = ("check", "state", "seen", "remedy")
        rows = [{name: getattr(one, name) for name in names} for one in found]
        typer.echo(document_text("job-validate", {"findings": rows}))
    else:
        console.print(checks.table(found))
        console.print(checks.counts(found), markup=False, highlight=False)
    raise typer.Exit(checks.exit_code(found))
