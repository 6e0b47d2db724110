"""What a job's pods are, the same on a cluster and on a container engine here.

Each kind of job promises its container some mounts, a port and an environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ci.jobs.spec import CONFIGS_WORD, RESULTS_WORD, Kind, SecretRef, Source, Spec, Value

SCRATCH = "/scratch"
# Where `source` and a training's dataset are fetched to.
INPUTS = f"{SCRATCH}/inputs"
DATASET = f"{SCRATCH}/dataset"
MODEL = "/model"
# Of configuration files and the plan's chunks; a folder below it is named as the job.
CONFIG_ROOT = "/etc/spyre-ci"
# Where a store that is a volume is mounted.
RESULTS = "/results"
# What a kind listens at.
PORTS: dict[Kind, int] = {"serve": 8080, "notebook": 8888}
# What it runs where the spec has no command: words behind the image's entry, such as its roles.
COMMANDS: Mapping[Kind, tuple[str, ...]] = {
    "tests": ("spyre-ci", "job", "pod"),
    "load": ("spyre-ci", "job", "put"),
    "serve": ("serve",),
    "notebook": ("notebook",),
}
# What a pod of kind tests reads of its job, besides JOB_COMPLETION_INDEX.
NAME_VARIABLE = "SPYRE_CI_JOB_NAME"
RUN_VARIABLE = "SPYRE_CI_JOB_RUN"
INPUT_VARIABLE = "SPYRE_CI_JOB_INPUT"
STORE_VARIABLE = "SPYRE_CI_JOB_STORE"
SHARE_VARIABLE = "SPYRE_CI_JOB_SHARE"
IMAGE_VARIABLE = "SPYRE_CI_IMAGE"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_NO_KEYS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is rendered for a cluster, or run here.

    Attributes:
        spec: as it was read.
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
        files: configs by the path the spec gives, or chunks of the plan; mounted read-only in `config_dir`.
        plan: packed, for a store that is a bucket; empty otherwise.
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
    plan: bytes = b""

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
class Helper:
    """A container that fetches before the job's own begins, or uploads beside it.

    Attributes:
        name: of the container.
        command: words, no shell between.
        image: it runs in.
        folder: of the scratch disk that it fills; empty if it makes its own.
        at: where what it fetched is found.
        beside: it runs as long as the job's own; else it ends before that begins.
    """

    name: str
    command: tuple[str, ...]
    image: str
    folder: str = ""
    at: str = ""
    beside: bool = False


def container_of(job: Job) -> Container:
    """The container of a job's pods, without what tells one pod from another."""
    spec = job.spec
    own = getattr(getattr(spec, spec.kind), "command", None)
    words = tuple(
        word.replace(CONFIGS_WORD, job.config_dir).replace(RESULTS_WORD, f"{job.store}/{job.run}")
        for word in own or COMMANDS[spec.kind]
    )
    if spec.load is not None:
        words = (*words, helpers_of(job)[0].at, spec.load.to)
    environment = environment_of(job)
    if job.plan:
        # Tests must not have the store's keys: the uploader beside them has.
        environment = {name: value for name, value in environment.items() if not _is_key(name)}
    # The runtime image's entry has the roles, hands signals on and sees to orphans: it stays in front.
    command, args = (words, ()) if own else ((), words)
    return Container(command=command, args=args, environment=environment, port=PORTS.get(spec.kind))


def _is_key(name: str) -> bool:
    """True if a variable may hold or name a key of S3: all but those that say where the store is."""
    return name.startswith("AWS_") and name not in _NO_KEYS and not name.startswith("AWS_ENDPOINT_URL")


def environment_of(job: Job) -> dict[str, str | SecretRef]:
    """The environment of a job's helpers, and of its own container where that may have all of it."""
    spec = job.spec
    found: dict[str, Value | None] = {
        # Whoever it runs as may have no home that can be written, and frameworks keep what they fetch there.
        "HOME": SCRATCH,
        # Whose model is fetched is nobody else's business.
        "MLFLOW_DISABLE_TELEMETRY": "true" if spec.source and spec.source.artifact else None,
        **spec.environment,
        **{f"PARAM_{name}": value for name, value in spec.parameters.items()},
        NAME_VARIABLE: job.name,
        RUN_VARIABLE: job.run,
        IMAGE_VARIABLE: job.image,
        STORE_VARIABLE: job.store or None,
        INPUT_VARIABLE: job.config_dir if spec.kind == "tests" else None,
        SHARE_VARIABLE: "1" if spec.tests and spec.tests.share else None,
    }
    if spec.serve and spec.serve.quantization_bits:
        found["QUANTIZATION_BITS"] = spec.serve.quantization_bits
    if spec.notebook and spec.notebook.token:
        found["JUPYTER_TOKEN"] = SecretRef(secret=spec.notebook.token, key="token")
    return {name: _text(value) for name, value in sorted(found.items()) if value is not None}


def _text(value: Value) -> str | SecretRef:
    """A value as a process gets it; true and false as YAML and JSON write them."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, SecretRef) else str(value)


def helpers_of(job: Job) -> list[Helper]:
    """The helpers of a job's pods, in the order they begin."""
    spec = job.spec
    dataset = spec.train.dataset if spec.train else None
    sources = [("fetch-source", spec.source, INPUTS), ("fetch-dataset", dataset, DATASET)]
    found = [_fetch(job, name, source, to) for name, source, to in sources if source is not None]
    if job.plan:
        pod = ("spyre-ci", "job", "pod", "--role")
        found.append(Helper(name="restore", command=(*pod, "restore"), image=job.image))
        found.append(Helper(name="uploader", command=(*pod, "upload"), image=job.image, beside=True))
    return found


def _fetch(job: Job, name: str, source: Source, to: str) -> Helper:
    image = job.spec.source_image or job.image
    if source.artifact is None:
        words = ("spyre-ci", "job", "fetch", source.bucket or "", to)
        return Helper(name=name, command=words, image=image, folder=to, at=to)
    path = PurePosixPath(source.artifact.path)
    # By its URI: with --run-id, MLflow 2 makes all folders of the path, MLflow 3 the last alone.
    address = f"runs:/{source.artifact.run}/{path}"
    command = ("mlflow", "artifacts", "download", "--artifact-uri", address, "--dst-path", to)
    return Helper(name=name, command=command, image=image, folder=to, at=f"{to}/{path.name}")


def mounts_of(job: Job) -> dict[str, str]:
    """Where the container finds what, by the volume's name: scratch, config, results, and the model.

    The model of a server is the folder of the scratch disk that `source` is found at: `Helper.at`.
    """
    found = {"scratch": SCRATCH}
    if job.files:
        found["config"] = job.config_dir
    if job.spec.store is not None and job.spec.store.volume is not None:
        found["results"] = RESULTS
    if job.spec.kind == "serve":
        found["model"] = MODEL
    return found
