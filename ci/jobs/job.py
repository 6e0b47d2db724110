"""What a job's pods are, the same on a cluster and on a container engine here.

Each kind of job promises its container some mounts, a port and an environment: its contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ci.core.errors import SettingsError
from ci.jobs.spec import Kind, SecretRef, Source, Spec, Value

SCRATCH = "/scratch"
# Where `source` and a training's dataset are fetched to.
INPUTS = f"{SCRATCH}/inputs"
DATASET = f"{SCRATCH}/dataset"
MODEL = "/model"
# Of configuration files and the plan's chunks; a folder below it is named as the job.
CONFIG_ROOT = "/etc/spyre-ci"
# Where a store that is a volume is mounted.
RESULTS = "/results"
SERVE_PORT = 8080
NOTEBOOK_PORT = 8888
PARAMETER_PREFIX = "PARAM_"
BITS_VARIABLE = "QUANTIZATION_BITS"
TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"
# In the words of a command: where the configuration is, and the run's own folder in the store.
CONFIGS_WORD = "{configs}"
RESULTS_WORD = "{results}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a kind of job is.

    Attributes:
        source: whether `source` is wanted, may be given, or has no meaning.
        source_at: where what was fetched is found.
        store: whether a store is wanted.
        port: it listens at; None: none.
        command: words where the spec gives none.
    """

    source: str
    source_at: str = INPUTS
    store: bool = False
    port: int | None = None
    command: tuple[str, ...] = ()


# What is said of jobs that come to an end.
_ENDS = {"deadline_minutes", "retries", "ttl_minutes"}
WANTED, MAY, NONE = "wanted", "may be given", "has no meaning"

CONTRACTS: Mapping[Kind, Contract] = {
    "tests": Contract(source=NONE, store=True, command=("spyre-ci", "job", "pod")),
    "evaluation": Contract(source=MAY),
    "load": Contract(source=WANTED, command=("spyre-ci", "job", "put")),
    "train": Contract(source=WANTED, store=True),
    # The words of an image's entry: its roles.
    "serve": Contract(source=WANTED, source_at=MODEL, port=SERVE_PORT, command=("serve",)),
    "notebook": Contract(source=MAY, port=NOTEBOOK_PORT, command=("notebook",)),
}


def check_contract(spec: Spec, where: object) -> None:
    """Refuse a spec that lacks what its kind promises its container.

    Args:
        spec: read.
        where: what errors name: the spec's file.

    Raises:
        SettingsError: what is missing, or has no meaning for this kind.
    """
    for what, remedy in _misfits(spec):
        raise SettingsError(what, where=str(where), remedy=remedy)


def _misfits(spec: Spec) -> Iterator[tuple[str, str]]:
    """What does not fit, each with what to do about it."""
    kind, store = spec.kind, spec.store
    contract = CONTRACTS[kind]
    if contract.source == WANTED and spec.source is None:
        yield f"kind {kind} wants a `source`", "give source.artifact or source.bucket"
    if contract.source == NONE and spec.source is not None:
        yield f"`source` has no meaning for kind {kind}", "leave it out"
    if contract.store and store is None:
        yield f"kind {kind} wants a `store`", "give store.volume (ReadWriteMany) or store.bucket"
    if kind == "serve":
        for name in sorted(_ENDS & spec.model_fields_set):
            yield f"`{name}` has no meaning for kind serve, which lasts until it is cancelled", "leave it out"
    if spec.tests is not None and spec.tests.share and (store is None or store.volume is None):
        yield "tests.share wants a volume that all pods write", "give store.volume"
    words = " ".join(getattr(getattr(spec, kind), "command", None) or ())
    if CONFIGS_WORD in words and not spec.configs:
        yield f"the command names {CONFIGS_WORD}, and there are none", f"give {kind}.configs"
    if RESULTS_WORD in words and store is None:
        yield (
            f"the command names {RESULTS_WORD}, and there is no `store`",
            "give store.volume or store.bucket",
        )
    sources = [spec.source, spec.train.dataset if spec.train else None]
    if any(one and one.artifact for one in sources) and TRACKING_VARIABLE not in spec.environment:
        # Without it MLflow would look for the run in a folder of the container.
        yield "an artifact is fetched, and nothing says from where", f"give environment.{TRACKING_VARIABLE}"


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
    contract = CONTRACTS[spec.kind]
    section = getattr(spec, spec.kind)
    own = getattr(section, "command", None)
    words = tuple(
        word.replace(CONFIGS_WORD, job.config_dir).replace(RESULTS_WORD, f"{job.store}/{job.run}")
        for word in own or contract.command
    )
    if spec.load is not None:
        words = (*words, helpers_of(job)[0].at, spec.load.to)
    # The runtime image's entry has the roles, hands signals on and sees to orphans: it stays in front.
    environment = environment_of(job)
    if job.plan:
        # Tests must not have the store's keys: the uploader beside them has.
        environment = {name: value for name, value in environment.items() if not _is_key(name)}
    return Container(
        command=words if own else (),
        args=() if own else words,
        environment=environment,
        port=contract.port,
    )


def _is_key(name: str) -> bool:
    """True if a variable may hold or name a key of S3: all but those that say where the store is."""
    return name.startswith("AWS_") and name not in _NO_KEYS and not name.startswith("AWS_ENDPOINT_URL")


def environment_of(job: Job) -> dict[str, str | SecretRef]:
    """The environment of a job's helpers, and of its own container where that may have all of it."""
    spec = job.spec
    found: dict[str, Value] = dict(spec.environment)
    found |= {f"{PARAMETER_PREFIX}{name}": value for name, value in spec.parameters.items()}
    found[NAME_VARIABLE] = job.name
    found[RUN_VARIABLE] = job.run
    found[IMAGE_VARIABLE] = job.image
    if job.store:
        found[STORE_VARIABLE] = job.store
    if spec.kind == "tests":
        found[INPUT_VARIABLE] = job.config_dir
        if spec.tests is not None and spec.tests.share:
            found[SHARE_VARIABLE] = "1"
    if spec.serve is not None and spec.serve.quantization_bits is not None:
        found[BITS_VARIABLE] = spec.serve.quantization_bits
    if spec.notebook is not None and spec.notebook.token is not None:
        found["JUPYTER_TOKEN"] = SecretRef(secret=spec.notebook.token, key="token")
    # Whoever it runs as may have no home that can be written, and frameworks keep what they fetch there.
    found.setdefault("HOME", SCRATCH)
    if spec.source is not None and spec.source.artifact is not None:
        # Whose model is fetched is nobody else's business.
        found.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    return {name: _text(found[name]) for name in sorted(found)}


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
        pod = ("spyre-ci", "job", "pod")
        found.append(Helper(name="restore", command=(*pod, "--role", "restore"), image=job.image))
        found.append(
            Helper(name="uploader", command=(*pod, "--role", "upload"), image=job.image, beside=True)
        )
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
    if (at := CONTRACTS[job.spec.kind].source_at) != INPUTS:
        found["model"] = at
    return found
