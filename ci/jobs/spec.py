"""The spec of a job: one typed YAML file, the same for every kind of job.

Names and amounts that Kubernetes has rules for are the cluster's to refuse, before anything is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from ci.config.explain import explain
from ci.config.section import GIT_ADDRESS, Section
from ci.core.addresses import without_credentials
from ci.core.errors import MissingInputError
from test_selection.yaml_reader import load_document


def leads_out(path: str) -> bool:
    """Whether a relative path names something outside its folder."""
    return path.startswith("/") or ".." in PurePosixPath(path).parts or bool(re.match(r"[A-Za-z]:", path))


def _stays_inside(path: str) -> str:
    if leads_out(path):
        raise ValueError("leads out of its folder")
    return path


def _no_nul(value: str) -> str:
    # No process takes NUL in a word or a variable, and half a surrogate pair is in no encoding.
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("contains a NUL or an unpaired surrogate")
    return value


def _pattern(expression: str) -> StringConstraints:
    return StringConstraints(pattern=f"^{expression}$")


# What an image of a registry may be called, https://pkg.go.dev/github.com/distribution/reference
_REGISTRY = r"[a-z0-9][a-z0-9.-]*"
_PATH = r"(/[a-z0-9._-]+)"
ImageName = Annotated[
    str, _pattern(rf"{_REGISTRY}(:[0-9]+)?{_PATH}*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{{64}})?")
]
# A first part alone with a port would be a name with a tag.
ImageRepository = Annotated[str, _pattern(rf"{_REGISTRY}((:[0-9]+)?{_PATH}+)?")]
Bucket = Annotated[str, _pattern(r"s3://[a-z0-9][a-z0-9.-]+(/[^\s?#\x00-\x1f\x7f]*)?")]
InnerPath = Annotated[str, _pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]*"), AfterValidator(_stays_inside)]
Name = Annotated[str, Field(min_length=1)]
Amount = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]
Word = Annotated[Name, AfterValidator(_no_nul)]
Command = Annotated[list[Word], Field(min_length=1)]
# Users and groups, less root's.
Id = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
Minutes = Annotated[int, Field(ge=1, le=30 * 24 * 60)]


def _maybe(description: str) -> Any:
    """A key that may be left out."""
    return Field(default=None, description=description)


def _exactly_one(*names: str) -> Any:
    """A validator of a section: one of these keys is given, and no other."""

    def check(model: Section) -> Section:
        given = [name for name in names if getattr(model, name) is not None]
        if len(given) != 1:
            *first, last = names
            choice = f"{', '.join(first)} and {last}"
            raise ValueError(f"give exactly one of {choice}, not {' and '.join(given) or 'none'}")
        return model

    return model_validator(mode="after")(check)


class SecretRef(Section):
    """A value that stays in a secret of the cluster; nothing of it is in the spec."""

    secret: Name = Field(description="name of the secret, in the job's namespace")
    key: str = Field(description="key in the secret")


def _value(value: object) -> object:
    """One message, where each type there is would have its own."""
    if isinstance(value, dict):
        return SecretRef.model_validate(value)
    if not isinstance(value, str | int | float | SecretRef):
        raise ValueError("must be text, a number, true or false, or secret and key: quote it")  # noqa: TRY004  # pydantic's
    return _no_nul(value) if isinstance(value, str) else value


Value = Annotated[str | int | float | bool | SecretRef, BeforeValidator(_value)]


class GitImage(Section):
    """An image that is built of a repository."""

    url: Annotated[str, StringConstraints(pattern=GIT_ADDRESS)] = Field(
        description="address of the repository"
    )
    ref: Annotated[str, _pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]*")] = Field(description="branch, tag or commit")
    containerfile: InnerPath = Field(default="Containerfile", description="its path in the repository")
    to: ImageRepository = Field(description="registry, namespace and name it is pushed to, without a tag")

    @field_validator("url")
    @classmethod
    def _open(cls, value: str) -> str:
        # The value itself is not in the message.
        if without_credentials(value) != value:
            raise ValueError("contains a user or a password, which a saved spec would show")
        return value


class UploadImage(Section):
    """An image that is built of a folder here."""

    folder: Name = Field(description="path of the folder, relative to the spec's own")
    containerfile: InnerPath = Field(default="Containerfile", description="its path in that folder")
    to: ImageRepository = Field(description="registry, namespace and name it is pushed to, without a tag")


class Image(Section):
    """What the pods run in: exactly one of a name, a repository or a folder."""

    name: ImageName | None = _maybe("image in a registry, best with its digest")
    git: GitImage | None = _maybe("repository to build the image from")
    upload: UploadImage | None = _maybe("folder on this machine to build the image from")
    pull_secrets: list[Name] = Field(default=[], description="names of image pull secrets")
    allow_moving_tag: bool = Field(False, description="use the tag as it is if its digest is not found")

    _one_way = _exactly_one("name", "git", "upload")


class Scratch(Section):
    """A pod's own disk at /scratch, which ends with it."""

    size: Name = Field(default="10Gi", description="size of the disk")
    storage_class: Name | None = _maybe("of a volume that each pod claims; none: the node's own disk")


EXAMPLE_SPYRE = "ibm.com/spyre_pf"
# A number without a unit is bytes, which nobody means below this.
LEAST_MEMORY = 1 << 20


class Resources(Section):
    """What one pod gets; requests are limits."""

    cards: int = Field(default=0, ge=0, le=64, description="cards per pod")
    resource: Name = Field(EXAMPLE_SPYRE, description="resource name of a card, such as nvidia.com/gpu")
    tier: Literal[0, 1, 2] | None = _maybe("how near a pod's cards are, in PCI hops; needs spyre-scheduler")
    cpu: Amount = Field(default="4", description="cores")
    memory: Amount = Field(default="16Gi", description="memory")
    scratch: Scratch = Field(default=Scratch(), description="disk at /scratch")

    @field_validator("memory")
    @classmethod
    def _no_bytes(cls, value: str) -> str:
        if re.fullmatch(r"\d+(\.\d+)?m?", value) and float(value.rstrip("m")) < LEAST_MEMORY:
            raise ValueError(f"{value} means bytes, too few for a pod: write {value}Mi or {value}Gi")
        return value

    @model_validator(mode="after")
    def _tiers_come_in_pairs(self) -> Resources:
        # The device plugin's rule: tiers 1 and 2 take one card or an even number.
        if self.tier and self.cards > 1 and self.cards % 2:
            raise ValueError(f"tier {self.tier} takes 1 card or an even number, not {self.cards}")
        if self.tier is not None and not self.cards:
            raise ValueError("a tier needs cards, but `cards` is 0")
        if self.tier is not None and not self.resource.startswith("ibm.com/"):
            raise ValueError(f"only cards of ibm.com have tiers, not {self.resource}")
        return self

    @property
    def card_resource(self) -> str:
        """The extended resource that is asked for, its tier with it."""
        return self.resource if self.tier is None else f"{self.resource}_tier{self.tier}"


class Toleration(Section):
    """A taint of nodes that pods may run on all the same."""

    key: str | None = _maybe("the taint's key; none: any")
    operator: Literal["Exists", "Equal"] = Field(default="Exists", description="how the value is compared")
    value: str | None = _maybe("its value, with Equal")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = _maybe("its effect; none: any")
    seconds: int | None = _maybe("how long the pod stays, with NoExecute")


class Artifact(Section):
    """An artifact of a tracked run, in MLflow."""

    run: Annotated[str, _pattern("[0-9a-f]{32}")] = Field(description="id of the MLflow run")
    path: InnerPath = Field(description="path of the artifact in the run")


class Source(Section):
    """A model or data that is fetched to /scratch before the job begins: exactly one of the two."""

    artifact: Artifact | None = _maybe("artifact of an MLflow run")
    bucket: Bucket | None = _maybe("s3://bucket/prefix")

    _one_way = _exactly_one("artifact", "bucket")


class Store(Section):
    """Where pods put their journals as they go, and their output: exactly one of the two."""

    volume: Name | None = _maybe("persistent volume claim that all pods write to (ReadWriteMany)")
    bucket: Bucket | None = _maybe("s3://bucket/prefix; its access keys are set in `environment`")

    _one_way = _exactly_one("volume", "bucket")


class Tracking(Section):
    """What MLflow is told; its address is the environment's MLFLOW_TRACKING_URI."""

    experiment: Name = Field(description="MLflow experiment of the run")
    output: InnerPath | None = _maybe("folder of the run in the store, whose files become artifacts")


class Tests(Section):
    """A run's plan, its shards dealt to pods."""

    plan: Name = Field(default="latest", description="the run's folder, its id, or `latest`")
    pods: Annotated[int, Field(ge=1, le=4096)] | None = _maybe("most pods; none: a card for every shard")
    share: bool = Field(
        False, description="idle pods take over work of others, through the volume of `store`"
    )


class Evaluation(Section):
    """A command of one's own with its configuration."""

    command: Command = Field(
        description="words, no shell; {configs}: folder of config files, {results}: the run's in the store"
    )
    configs: list[Word] = Field(default=[], description="config files, relative to the spec's folder")


class Load(Section):
    """Fetch a model into a bucket."""

    to: Bucket = Field(description="s3://bucket/prefix to put the model at")


class Train(Evaluation):
    """Train a model; the base model is `source`."""

    dataset: Source | None = _maybe("data set, fetched to /scratch/dataset")


class Serve(Section):
    """Serve a model at port 8080; the model is `source`, found at /model."""

    command: Command | None = _maybe("words of the command; none: the image's `serve`")
    quantization_bits: Literal[4, 8, 16] | None = _maybe("bits to quantize the model to; none: unchanged")


class Notebook(Section):
    """A notebook at port 8888."""

    command: Command | None = _maybe("words of the command; none: the image's `notebook`")
    token: Name | None = _maybe("secret whose key `token` is needed to log in; none: submit creates one")


Kind = Literal["tests", "evaluation", "load", "train", "serve", "notebook"]
KINDS: tuple[Kind, ...] = ("tests", "evaluation", "load", "train", "serve", "notebook")
DAY_MINUTES = 24 * 60
TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"
# In the words of a command: where the configuration is, and the run's own folder in the store.
CONFIGS_WORD, RESULTS_WORD = "{configs}", "{results}"
# Of variables and tags, those that a job has by itself.
_OURS = ("PARAM_", "SPYRE_CI_JOB_", "SPYRE_CI_IMAGE", "JOB_COMPLETION_", "spyre-ci.io/")
# What is said of jobs that come to an end.
_ENDS = ("deadline_minutes", "retries", "ttl_minutes")


class Spec(Section):
    """A job."""

    version: Literal[1] = Field(description="version of the file format")
    kind: Kind = Field(description=", ".join(KINDS))
    name: Annotated[str, _pattern("[a-z]([-a-z0-9]{0,18}[a-z0-9])?")] | None = _maybe(
        "beginning of the job's name, at most 20 letters; none: the kind"
    )
    image: Image = Field(description="image of the pods")
    resources: Resources = Field(default=Resources(), description="resources of one pod")
    node_selector: dict[str, str] = Field(default={}, description="labels that nodes must have")
    service_account: Name | None = _maybe("service account of the pods; none: the default")
    user: Id | None = _maybe("user id of the pods; none: the namespace's (OpenShift), or the image's")
    group: Id | None = _maybe("group id of the pods, which may write to volumes; none: as for `user`")
    tolerations: list[Toleration] = Field(default=[], description="node taints that the pods tolerate")
    priority: Name | None = _maybe("priority class; none: the default")
    queue: Name | None = _maybe("Kueue's LocalQueue; none: started at once")
    deadline_minutes: Minutes | None = _maybe("time limit of the job; none: by its plan, or a day")
    # What is removed the moment it ends, nobody who watches or collects sees the end of.
    ttl_minutes: Minutes = Field(DAY_MINUTES, ge=10, description="time until an ended job is removed")
    retries: int = Field(default=2, ge=0, le=10, description="how often a pod that failed is replaced")
    parameters: dict[Annotated[str, _pattern("[A-Z][A-Z0-9_]*")], Value] = Field(
        default={}, description="values, or secret and key; passed to the container as PARAM_<NAME>"
    )
    environment: dict[Annotated[str, _pattern("[A-Za-z_][A-Za-z0-9_]*")], Value] = Field(
        default={}, description="other environment variables: values, or secret and key"
    )
    tags: dict[str, Annotated[str, Field(max_length=500), AfterValidator(_no_nul)]] = Field(
        default={}, description="tags of the MLflow run, and annotations of the job"
    )
    source: Source | None = _maybe("model or data to fetch before the job starts")
    source_image: ImageName | None = _maybe("image that fetches `source`; none: that of the pods")
    store: Store | None = _maybe("where journals and output go")
    tracking: Tracking | None = _maybe("MLflow tracking; none: not used")
    tests: Tests | None = _maybe("settings of kind tests")
    evaluation: Evaluation | None = _maybe("settings of kind evaluation")
    load: Load | None = _maybe("settings of kind load")
    train: Train | None = _maybe("settings of kind train")
    serve: Serve | None = _maybe("settings of kind serve")
    notebook: Notebook | None = _maybe("settings of kind notebook")

    @field_validator("environment", "tags")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name.startswith(_OURS):
                raise ValueError(f"{name} is set by the job itself; for PARAM_, use `parameters`")
        return value

    @model_validator(mode="after")
    def _keeps_the_contract(self) -> Spec:
        for what in (*self._misfits_of_kind(), *self._misfits_of_words()):
            raise ValueError(what)
        return self

    def _misfits_of_kind(self) -> Iterator[str]:
        """What does not fit the kind, each with what to do about it."""
        kind, store = self.kind, self.store
        for other in KINDS:
            if other != kind and getattr(self, other) is not None:
                yield f"kind is {kind}, and there is a section `{other}`: leave it out"
        if kind in {"evaluation", "load", "train"} and getattr(self, kind) is None:
            yield f"kind {kind} needs a section `{kind}`"
        if kind in {"load", "train", "serve"} and self.source is None:
            yield f"kind {kind} needs a `source`: give source.artifact or source.bucket"
        if kind == "tests" and self.source is not None:
            yield "`source` has no meaning for kind tests: leave it out"
        if kind in {"tests", "train"} and store is None:
            yield f"kind {kind} needs a `store`: give store.volume (ReadWriteMany) or store.bucket"
        for name in _ENDS if kind == "serve" else ():
            if name in self.model_fields_set:
                yield f"`{name}` has no meaning for kind serve, which runs until it is cancelled"
        if self.tests and self.tests.share and store and store.volume is None:
            yield "tests.share needs a volume that all pods write to: give store.volume"

    def _misfits_of_words(self) -> Iterator[str]:
        """What is named, and is not found."""
        for path in filter(leads_out, self.configs):
            yield f"the config file {path!r} is not below the spec's folder: put it there"
        words = " ".join(getattr(getattr(self, self.kind), "command", None) or ())
        if CONFIGS_WORD in words and not self.configs:
            yield f"the command uses {CONFIGS_WORD}, but there are no config files: give {self.kind}.configs"
        if RESULTS_WORD in words and self.store is None:
            yield f"the command uses {RESULTS_WORD}, but there is no `store`: give one"
        if self.tracking and self.tracking.output and self.store is None:
            yield "tracking.output is a folder of the store, and there is no `store`: give one"
        sources = [self.source, self.train.dataset if self.train else None]
        if any(one and one.artifact for one in sources) and TRACKING_VARIABLE not in self.environment:
            # Without it MLflow would look for the run in a folder of the container.
            yield f"the artifact's MLflow server is not known: give environment.{TRACKING_VARIABLE}"

    @property
    def configs(self) -> list[str]:
        """The configuration files, relative to the spec's folder."""
        section = self.evaluation or self.train
        return [] if section is None else section.configs


def read_spec(path: Path) -> Spec:
    """Read and check a spec, and what its kind asks besides.

    Raises:
        MissingInputError: there is no such file.
        SettingsError: a key or value that cannot be taken, with file, line, key and remedy.
    """
    if not path.is_file():
        raise MissingInputError("there is no such job spec", where=path, remedy="see examples/ for some")
    document = load_document(path)
    try:
        return Spec.model_validate(document.content)
    except ValidationError as error:
        raise explain(error, document, Spec, see="see docs/jobs.md") from None
