"""`spyre-ci job submit`: a spec becomes a job on a cluster, on the container engine here, or manifests."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.core.errors import EXIT_GOES_ON, EXIT_INTERRUPTED, UsageError
from ci.core.object_store import Bucket
from ci.core.text import counted
from ci.jobs.cli import InContext, Namespace, PendingLimit, watched
from ci.jobs.cli_collect import Collection, ask_reasons, say, store_of, tell_end, tracker_of
from ci.jobs.cluster import PATIENCE_S, SPEC_ANNOTATION, Cluster, open_cluster
from ci.jobs.errors import ClusterAwayError
from ci.jobs.job import Job
from ci.jobs.labels import labels_of
from ci.jobs.prepare import Asked, at_checkout, prepare, token_secret
from ci.jobs.record import HERE, JobRecord, record_of, refuse_another_deal, write_record
from ci.jobs.render import render, to_yaml
from ci.jobs.submit import Submitted
from ci.jobs.submit import submit as make_job
from ci.jobs.uploader import put_plan
from ci.jobs.watch import PATIENCE_S as WATCH_PATIENCE_S
from ci.jobs.watch import Ending, View
from ci.steps import options
from ci.steps.context import Context
from test_selection.files import document_text


def submit(
    ctx: typer.Context,
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The job's YAML file; examples/ has some.")],
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Set a parameter; repeatable.")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Run whose plan to use; default: `tests.plan`."),
    ] = None,
    run: Annotated[str | None, typer.Option(help="Id of the run; default: the plan's, or a new one.")] = None,
    allow_dirty: Annotated[bool, typer.Option("--allow-dirty", help="Allow uncommitted changes.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifests; use no cluster.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Let the cluster check it; create nothing.")] = False,
    local: Annotated[bool, typer.Option("--local", help="Run it in containers on this host.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Watch the job until it ends.")] = False,
    collect: Annotated[bool, typer.Option("--collect", help="Watch, report, exit with its code.")] = False,
    gather: Annotated[bool, typer.Option("--gather", help="Watch, then collect the journals.")] = False,
    pending_limit: PendingLimit = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the spec's volume is mounted here; --local: any folder."),
    ] = None,
    network: Annotated[str, typer.Option(help="With --local: the containers' network.")] = "bridge",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="With --local: the host's port.")] = None,
    namespace: Namespace = None,
    cluster_context: InContext = None,
    json_output: options.Json = False,
) -> None:
    """Submit a job, after the cluster has checked all its objects.

    Repeated for the same run it creates only what is missing. `--dry-run` prints manifests for `kubectl
    create -f -`.

    Example: spyre-ci job submit examples/tests-stage1.yaml

    Example: spyre-ci job submit examples/tests-stage1.yaml --check

    Example: spyre-ci job submit examples/gpu-evaluation.yaml --run trial --dry-run
    """
    context = options.make_context(ctx, {}, json_output=json_output or dry_run)
    asked = Asked(run=run, plan=plan, parameters=param or (), namespace=namespace or "default")
    if local:
        raise typer.Exit(_Submission(context, spec, asked, store).run_here(network, port))
    if dry_run:
        asked = at_checkout(asked, Path.cwd(), allow_dirty=True)
        _Submission(context, spec, asked, store).show(as_json=json_output)
        return
    waits = watch or collect or gather
    patience_s = WATCH_PATIENCE_S if waits else PATIENCE_S
    cluster = open_cluster(os.environ, namespace=namespace, context=cluster_context, patience_s=patience_s)
    asked = replace(asked, namespace=cluster.namespace, begins=True)
    made = _Submission(context, spec, at_checkout(asked, Path.cwd(), allow_dirty=allow_dirty), store)
    # Before anybody watches for hours what could not be collected then.
    where = made.journals() if gather or (collect and made.of_tests) else ""
    done = made.make(cluster, check_only=check)
    if json_output:  # at once: whoever reads this wants the name
        made.tell(done.begins)
    if check:
        return
    made.begin_tracking()
    if not waits:
        context.say(f"watch it with `spyre-ci job watch {made.job.name}`")
        return
    view = View(console=context.console, environ=os.environ)
    follow = partial(watched, cluster, made.job.name, view, pending_limit)
    if where:
        raise typer.Exit(made.follow_tests(follow, cluster, where, report=not gather))
    ending, _ = follow()
    if not made.of_tests and not ending.goes_on:
        tell_end(context, made.folder, made.record(), ending, store=str(store) if store else None)
    raise typer.Exit(ending.exit_code)


class _Submission:
    """A job of a spec's file on its way to a cluster, or to the container engine here.

    Args:
        context: the outside world.
        spec: the file.
        asked: what was said besides.
        store: the spec's volume as seen from here; None: nobody says.
    """

    def __init__(self, context: Context, spec: Path, asked: Asked, store: Path | None) -> None:
        self.job, self.folder = prepare(context, spec, asked)
        self._context, self._spec, self._store = context, spec, store

    @property
    def of_tests(self) -> bool:
        """True if it is a plan's, so that journals come of it."""
        return self.job.spec.kind == "tests"

    def record(self, namespace: str | None = None) -> JobRecord:
        """What is noted of it."""
        return record_of(self.job, namespace=namespace)

    def journals(self) -> str:
        """The store as seen from here."""
        job = self.job
        if not self.of_tests:
            raise UsageError(
                f"only jobs of kind tests have journals, this is kind {job.spec.kind}", remedy="use --watch"
            )
        return store_of(str(self._store) if self._store else None, self.record(), job.name)

    def tell(self, begun_by: str) -> None:
        """Print it as JSON."""
        job = self.job
        names = {"job": job.name, "namespace": job.namespace, "run": job.run, "run_dir": self.folder.path}
        more = {"pods": job.pods, "image": job.image, "begun_by": begun_by}
        typer.echo(document_text("job-submit", names | more))

    def show(self, *, as_json: bool) -> None:
        """Print its manifests, and what a submit does besides."""
        job = self.job
        if as_json:
            self.tell("")
            return
        if not job.image:
            raise UsageError(
                "the image is built when the job is submitted",
                where=self._spec,
                remedy="build it, and give its name in image.name",
            )
        typer.echo(to_yaml(render(job)), nl=False)
        if job.plan:
            typer.echo(f"only `spyre-ci job submit` uploads the plan to {job.store}", err=True)
        if makes_token(job):
            name = token_secret(job)
            made = f"oc create secret generic -n {job.namespace} {name} --from-file=token=/dev/stdin"
            said = f"its pod waits for the secret {name}, which only `spyre-ci job submit` creates; by hand:"
            typer.echo(f"{said}\nopenssl rand -hex 24 | tr -d '\\n' | {made}", err=True)

    def make(self, cluster: Cluster, *, check_only: bool) -> Submitted:
        """Have the cluster make it, and say what that did."""
        self._find_image()
        refuse_another_deal(self.folder.path, self.record())
        # What pods read is there before they are, and who they are is known before they do anything.
        ready = partial(self._prepare_folder, self.record())
        done = make_job(cluster, manifests_of(self.job), check_only=check_only, ready=ready)
        for warning in done.warnings:
            say(self._context, f"warning: {warning}")
        job = self.job
        begun = f"started by {done.begins}" if done.begins else "the cluster accepts it; nothing was created"
        self._context.say(f"{job.name}: {counted(job.pods, 'pod')}, run {job.run}; {begun}")
        if done.begins and makes_token(job):
            self._context.say(f"its token is in the secret {token_secret(job)}")
        return done

    def begin_tracking(self) -> None:
        """Tell MLflow that it began."""
        tracker_of(self._context, self.folder).begin(self.job, str(self._spec), self._spec.read_bytes())

    def follow_tests(
        self, follow: Callable[[], object], cluster: Cluster, where: str, *, report: bool
    ) -> int:
        """Watch it, then report or collect what it left, also where the cluster went away."""
        goes_on, reasons = False, dict[int, str]()
        try:
            follow()
            reasons, _ = ask_reasons(self._context, self.record(), lambda: cluster)
        except ClusterAwayError as error:
            say(self._context, f"{error.what}; {error.remedy}")
            goes_on = True
        found = replace(self._collection(where, self.record()), reasons=reasons, goes_on=goes_on)
        code = found.report() if report else found.collect()
        return EXIT_GOES_ON if goes_on else code

    def run_here(self, network: str, port: int | None) -> int:
        """Run its pods on the container engine here, and report a run of tests; the exit code."""
        from ci.jobs.local import Here, run_here, user_of  # noqa: PLC0415  # the engine's client takes its time

        context = self._context
        if self.job.spec.image.name is None:
            self._find_image()
        # Else the engine's own image of that name: all pods run here, so no tag moves between them.
        home = context.state("jobs", self.job.name)
        here = Here(
            results=(self._store or home / "results").resolve(),
            work=home / "work",
            environ=os.environ,
            user=user_of(os.getuid()),
            devices=context.settings.model.image.devices,
            network=network,
            port=port,
        )
        record = self.record(HERE)
        self._prepare_folder(record)
        self.begin_tracking()
        try:
            code = run_here(self.job, here, echo=context.say)
        except KeyboardInterrupt:
            ending = Ending(exit_code=EXIT_INTERRUPTED)
            tell_end(context, self.folder, record, ending, store=str(here.results))
            raise
        if self.of_tests:
            where = self.job.store if self.job.plan else str(here.results)
            return self._collection(where, record).report()
        tell_end(context, self.folder, record, Ending(exit_code=code), store=str(here.results))
        return code

    def _collection(self, where: str, record: JobRecord) -> Collection:
        return Collection(context=self._context, folder=self.folder, where=where, record=record, ended=True)

    def _prepare_folder(self, record: JobRecord) -> None:
        job = self.job
        if job.plan:
            bucket = Bucket(job.store, where="store.bucket")
            self._context.say(f"plan: {put_plan(bucket, job.run, job.plan)}")
        self.folder.path.mkdir(parents=True, exist_ok=True)
        write_record(self.folder.path, record)

    def _find_image(self) -> None:
        """Take the image by its digest, built and pushed first if the spec has it so."""
        from ci.image.builder import ImageBuilder  # noqa: PLC0415  # with requests and docker's settings
        from ci.jobs.images import Builder  # noqa: PLC0415  # the same

        echo, image = self._context.say, self._context.settings.model.image
        command = ImageBuilder(name=image.builder, environ=os.environ, echo=echo, network=image.network)
        folder = self._spec.resolve().parent
        builder = Builder(folder=folder, environ=os.environ, builder=command, echo=echo)
        self.job = replace(self.job, image=builder.resolve(self.job.spec.image))


def manifests_of(job: Job) -> list[dict[str, Any]]:
    """A job's manifests; with the secret of a notebook's token first if the spec names none."""
    manifests = render(job)
    if not makes_token(job):
        return manifests
    digest = manifests[-1]["metadata"]["annotations"][SPEC_ANNOTATION]
    about = {"name": token_secret(job), "namespace": job.namespace, "labels": labels_of(job)}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": about | {"annotations": {SPEC_ANNOTATION: digest}},
        "type": "Opaque",
        "stringData": {"token": secrets.token_urlsafe(24)},
    }
    return [secret, *manifests]


def makes_token(job: Job) -> bool:
    """True if a submit makes the secret of a notebook's token."""
    return job.spec.notebook is not None and job.spec.notebook.token == token_secret(job)
