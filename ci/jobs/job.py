"""A job that is ready to be rendered or run: the spec with all that it names looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ci.jobs.kinds import (
    BITS_VARIABLE,
    CONFIG_ROOT,
    CONFIGS_WORD,
    CONTRACTS,
    DATASET,
    INPUTS,
    PARAMETER_PREFIX,
    RESULTS,
    RESULTS_WORD,
    SCRATCH,
)
from ci.jobs.parts import SecretRef, Source, Value
from ci.jobs.spec import Spec

# What a pod of kind tests reads of its job, besides JOB_COMPLETION_INDEX.
NAME_VARIABLE = "SPYRE_CI_JOB_NAME"
RUN_VARIABLE = "SPYRE_CI_JOB_RUN"
INPUT_VARIABLE = "SPYRE_CI_JOB_INPUT"
STORE_VARIABLE = "SPYRE_CI_JOB_STORE"
SHARE_VARIABLE = "SPYRE_CI_JOB_SHARE"
IMAGE_VARIABLE = "SPYRE_CI_IMAGE"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is rendered for a cluster, or run here.

    Attributes:
        spec: as it was read; the contract of its kind holds.
        name: of the job, a DNS label.
        run: the readable run id; results are known by it.
        image: what the pods run in, best by its digest.
        namespace: of the cluster.
        commit: of the checkout it was submitted from; empty where that is no repository.
        dirty: whether that had changes nobody committed.
        fingerprint: of the plan; empty for other kinds than tests.
        pods: completions: how many pods there are, by index from 0.
        deadline_s: seconds after which the whole job is ended, waiting for cards and second tries with it.
        pod_deadline_s: seconds after which a pod is ended; 0: with the job.
        shards: of each pod, by index; empty for other kinds than tests.
        files: configs by the path the spec gives, or slices of the plan; mounted read-only in `config_dir`.
        by_volume: the slices lie in the store, for they are too many for ConfigMaps.
    """

    spec: Spec
    name: str
    run: str
    image: str
    namespace: str
    pods: int
    deadline_s: int
    pod_deadline_s: int = 0
    shards: tuple[tuple[int, ...], ...] = ()
    commit: str = ""
    dirty: bool = False
    fingerprint: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    by_volume: bool = False

    @property
    def config_dir(self) -> str:
        """Where `files` are mounted: unique to the job, so that a log line names whose they are."""
        return f"{CONFIG_ROOT}/{self.name}"

    @property
    def store(self) -> str:
        """Where pods put what they have, as they see it: a folder or s3://…; empty where there is none."""
        if self.spec.store is None:
            return ""
        return (self.spec.store.bucket or RESULTS).rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A job's container, the same on a cluster and on docker here.

    Attributes:
        command: words; empty: the image's own entry with `args`.
        args: words behind the image's entry.
        environment: texts and references to secrets, by name.
        port: it listens at; None: none.
    """

    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: Mapping[str, str | SecretRef]
    port: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What an init container fetches before the job's own begins.

    Attributes:
        name: of the init container.
        source: an artifact or a bucket.
        to: folder of the scratch disk that takes it.
    """

    name: str
    source: Source
    to: str

    @property
    def at(self) -> str:
        """Where it is found then: MLflow puts an artifact into the folder under the last part of its path."""
        if self.source.artifact is None:
            return self.to
        return f"{self.to}/{PurePosixPath(self.source.artifact.path).name}"

    @property
    def command(self) -> tuple[str, ...]:
        """Words, no shell between: MLflow's own for an artifact, ours for a bucket."""
        if self.source.artifact is not None:
            one = self.source.artifact
            # By its URI: with --run-id, MLflow 2 makes all folders of the path, MLflow 3 the last alone.
            address = f"runs:/{one.run}/{PurePosixPath(one.path)}"
            return ("mlflow", "artifacts", "download", "--artifact-uri", address, "--dst-path", self.to)
        assert self.source.bucket is not None  # noqa: S101  # the spec has exactly one
        return ("spyre-ci", "job", "fetch", self.source.bucket, self.to)


def container_of(job: Job) -> Container:
    """The container of a job's pods, without what tells one pod from another."""
    spec = job.spec
    contract = CONTRACTS[spec.kind]
    section = getattr(spec, spec.kind)
    own = getattr(section, "command", None)
    words = tuple(
        word.replace(CONFIGS_WORD, job.config_dir).replace(RESULTS_WORD, f"{job.store}/{job.run}")
        for word in own or contract.command
    )
    if spec.load is not None:
        words = (*words, fetches_of(job)[0].at, spec.load.to)
    # The runtime image's entry has the roles, hands signals on and sees to orphans: it stays in front.
    return Container(
        command=words if own else (),
        args=() if own else words,
        environment=_environment(job),
        port=contract.port,
    )


def _environment(job: Job) -> dict[str, str | SecretRef]:
    spec = job.spec
    found: dict[str, Value] = dict(spec.environment)
    found |= {f"{PARAMETER_PREFIX}{name}": value for name, value in spec.parameters.items()}
    found[NAME_VARIABLE] = job.name
    found[RUN_VARIABLE] = job.run
    found[IMAGE_VARIABLE] = job.image
    if job.store:
        found[STORE_VARIABLE] = job.store
    if spec.kind == "tests":
        found[INPUT_VARIABLE] = f"{job.store}/{job.run}/inputs" if job.by_volume else job.config_dir
        if spec.tests is not None and spec.tests.share:
            found[SHARE_VARIABLE] = "1"
    if spec.serve is not None and spec.serve.quantization_bits is not None:
        found[BITS_VARIABLE] = spec.serve.quantization_bits
    if spec.notebook is not None and spec.notebook.token is not None:
        found["JUPYTER_TOKEN"] = SecretRef(secret=spec.notebook.token, key="token")
    # Whoever it runs as may have no home that can be written, and frameworks keep what they fetch there.
    found.setdefault("HOME", SCRATCH)
    if any(one.source.artifact for one in fetches_of(job)):
        # Whose model is fetched is nobody else's business.
        found.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    return {name: _text(found[name]) for name in sorted(found)}


def _text(value: Value) -> str | SecretRef:
    """A value as a process gets it; true and false as YAML and JSON write them."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, SecretRef) else str(value)


def fetches_of(job: Job) -> list[Fetch]:
    """What is fetched to /scratch before the job begins, in order."""
    spec = job.spec
    found = []
    if spec.source is not None:
        found.append(Fetch(name="fetch-source", source=spec.source, to=INPUTS))
    if spec.train is not None and spec.train.dataset is not None:
        found.append(Fetch(name="fetch-dataset", source=spec.train.dataset, to=DATASET))
    return found


def mounts_of(job: Job) -> dict[str, str]:
    """Where the container finds what, by the volume's name: scratch, config, results, and the model.

    The model of a server is the folder of the scratch disk that `source` is found at: `Fetch.at`.
    """
    found = {"scratch": SCRATCH}
    if job.files and not job.by_volume:
        found["config"] = job.config_dir
    if job.spec.store is not None and job.spec.store.volume is not None:
        found["results"] = RESULTS
    if (at := CONTRACTS[job.spec.kind].source_at) != INPUTS:
        found["model"] = at
    return found
