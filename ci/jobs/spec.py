"""The spec of a job: one typed YAML file, the same for every kind of job."""

from __future__ import annotations

import re
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

# Kubernetes' rules: RFC 1123 subdomains, and quantities. What else it refuses, a dry run of a submit tells.
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DnsName = Annotated[str, StringConstraints(pattern=rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$", max_length=253)]
Quantity = Annotated[
    str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$", max_length=32)
]
ParameterName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
_REPOSITORY = r"[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*"
ImageName = Annotated[
    str,
    StringConstraints(
        pattern=rf"^{_REPOSITORY}(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(@sha256:[0-9a-f]{{64}})?$",
        max_length=512,
    ),
]
# A first part alone with a port would be a name with a tag.
ImageRepository = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9][a-z0-9.-]*((:[0-9]+)?(/[a-z0-9._-]+)+)?$",
        max_length=384,
    ),
]
Bucket = Annotated[
    str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#\x00-\x1f\x7f]*)?$")
]
EXAMPLE_SPYRE = "ibm.com/spyre_pf"
# A number without a unit is bytes, which nobody means below this.
LEAST_MEMORY = 1 << 20


def leads_out(path: str) -> bool:
    """Whether a relative path names something outside its folder."""
    return path.startswith("/") or ".." in PurePosixPath(path).parts or bool(re.match(r"[A-Za-z]:", path))


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


def _stays_inside(path: str) -> str:
    if leads_out(path):
        raise ValueError("leads out of its folder")
    return path


InnerPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"), AfterValidator(_stays_inside)
]


class SecretRef(Section):
    """A value that stays in a secret of the cluster; nothing of it is in the spec."""

    secret: DnsName = Field(description="name of the secret, in the job's namespace")
    key: str = Field(description="which of its keys")


def _no_nul(value: str) -> str:
    # No process takes NUL in a word or a variable, and half a surrogate pair is in no encoding.
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("holds a NUL, or half a pair of surrogates")
    return value


def _value(value: object) -> object:
    """One message, where each type there is would have its own."""
    if isinstance(value, dict):
        return SecretRef.model_validate(value)
    if not isinstance(value, str | int | float | SecretRef):
        raise ValueError("is no text, number, true or false, nor secret and key: quote it")  # noqa: TRY004  # pydantic's
    return _no_nul(value) if isinstance(value, str) else value


NO_NUL = AfterValidator(_no_nul)
Word = Annotated[str, Field(min_length=1, max_length=4096), NO_NUL]
Value = Annotated[str | int | float | bool | SecretRef, BeforeValidator(_value)]


class GitImage(Section):
    """An image that is built of a repository."""

    url: Annotated[str, StringConstraints(pattern=GIT_ADDRESS)] = Field(
        description="address of the repository"
    )
    ref: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$", description="branch, tag or commit")
    containerfile: InnerPath = Field(default="Containerfile", description="path in the repository")
    to: ImageRepository = Field(description="registry, namespace and name it is pushed to, without a tag")

    @field_validator("url")
    @classmethod
    def _open(cls, value: str) -> str:
        # The value itself is not in the message.
        if without_credentials(value) != value:
            raise ValueError("holds a user or a password, which a saved spec would tell")
        return value


class UploadImage(Section):
    """An image that is built of a folder here."""

    folder: str = Field(min_length=1, description="relative to the spec's own folder")
    containerfile: InnerPath = Field(default="Containerfile", description="path in it")
    to: ImageRepository = Field(description="registry, namespace and name it is pushed to, without a tag")


class Image(Section):
    """What the pods run in: exactly one of a name, a repository or a folder."""

    name: ImageName | None = Field(default=None, description="an image in a registry, best by its digest")
    git: GitImage | None = Field(default=None, description="a repository it is built of")
    upload: UploadImage | None = Field(default=None, description="a folder here it is built of")
    pull_secrets: list[DnsName] = Field(default_factory=list, description="secrets that pull it")
    allow_moving_tag: bool = Field(
        default=False, description="take the tag as it is where its digest cannot be had"
    )

    _one_way = _exactly_one("name", "git", "upload")


class Scratch(Section):
    """A pod's own disk at /scratch, which ends with it."""

    size: Quantity = Field(default="10Gi", description="how much it may hold")
    storage_class: DnsName | None = Field(
        default=None, description="of a volume claimed for each pod; none: the node's own disk (emptyDir)"
    )


class Resources(Section):
    """What one pod gets; requests are limits."""

    cards: int = Field(default=0, ge=0, le=64, description="cards of a pod")
    resource: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9_.-]{1,63}$")] = Field(
        default=EXAMPLE_SPYRE, description="what the cluster calls a card, such as nvidia.com/gpu elsewhere"
    )
    tier: Literal[0, 1, 2] | None = Field(
        default=None, description="how near a pod's cards are, in PCI hops; asks spyre-scheduler for it"
    )
    cpu: Quantity = Field(default="4", description="cores")
    memory: Quantity = Field(default="16Gi", description="memory")
    scratch: Scratch = Field(default_factory=Scratch, description="disk at /scratch")

    @field_validator("cpu", "memory", mode="before")
    @classmethod
    def _numbers_too(cls, value: object) -> object:
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @field_validator("memory")
    @classmethod
    def _no_bytes(cls, value: str) -> str:
        if re.fullmatch(r"[0-9.]+m?", value) and float(value.rstrip("m")) < LEAST_MEMORY:
            raise ValueError(f"{value} are bytes, and no pod runs in them: is it {value}Mi or {value}Gi?")
        return value

    @model_validator(mode="after")
    def _tiers_come_in_pairs(self) -> Resources:
        # The device plugin's rule: tiers 1 and 2 take one card or an even number.
        if self.tier and self.cards > 1 and self.cards % 2:
            raise ValueError(f"tier {self.tier} takes 1 card or an even number, not {self.cards}")
        if self.tier is not None and not self.cards:
            raise ValueError("a tier is of cards, and there are none")
        if self.tier is not None and not self.resource.startswith("ibm.com/"):
            raise ValueError(f"tiers are of ibm.com's cards, not of {self.resource}")
        return self

    @property
    def card_resource(self) -> str:
        """The extended resource that is asked for, its tier with it."""
        return self.resource if self.tier is None else f"{self.resource}_tier{self.tier}"


class Toleration(Section):
    """A taint of nodes that pods may run on all the same."""

    key: str | None = Field(default=None, description="the taint's key; none: any")
    operator: Literal["Exists", "Equal"] = Field(default="Exists", description="how the value is compared")
    value: str | None = Field(default=None, description="with Equal")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="none: any"
    )
    seconds: int | None = Field(default=None, ge=0, description="for how long, with NoExecute")


class Artifact(Section):
    """An artifact of a tracked run, in MLflow."""

    run: str = Field(pattern=r"^[0-9a-f]{32}$", description="the run's id")
    path: InnerPath = Field(description="of the artifact in the run")


class Source(Section):
    """A model or data that is fetched to /scratch before the job begins: exactly one of the two."""

    artifact: Artifact | None = Field(default=None, description="an artifact of a tracked run")
    bucket: Bucket | None = Field(default=None, description="s3://bucket/prefix")

    _one_way = _exactly_one("artifact", "bucket")


class Store(Section):
    """Where pods put their journals as they go, and their output: exactly one of the two."""

    volume: DnsName | None = Field(
        default=None, description="a persistent volume claim that all pods write (ReadWriteMany)"
    )
    bucket: Bucket | None = Field(default=None, description="s3://bucket/prefix; keys by `environment`")

    _one_way = _exactly_one("volume", "bucket")


class Tracking(Section):
    """What MLflow is told; its address is the environment's MLFLOW_TRACKING_URI."""

    experiment: str = Field(min_length=1, max_length=200, description="which experiment the run is put in")
    output: InnerPath | None = Field(
        default=None, description="folder of the run's in the store, whose files become artifacts"
    )


Kind = Literal["tests", "evaluation", "load", "train", "serve", "notebook"]
KINDS: tuple[Kind, ...] = ("tests", "evaluation", "load", "train", "serve", "notebook")
Command = Annotated[list[Word], Field(min_length=1)]
DAY_MINUTES = 24 * 60
# Of variables and tags, those that a job has by itself.
_OURS = ("PARAM_", "SPYRE_CI_JOB_", "SPYRE_CI_IMAGE", "JOB_COMPLETION_", "spyre-ci.io/")
# Of users and groups, less root's.
_ID = Field(ge=1, le=(1 << 31) - 1)


class Tests(Section):
    """A run's plan, its shards dealt to pods."""

    plan: str = Field(default="latest", min_length=1, description="the run's folder, its id, or `latest`")
    pods: int | None = Field(
        default=None, ge=1, le=4096, description="pods at most; none: a card for every shard"
    )
    share: bool = Field(
        default=False, description="pods take over each other's tail, through the volume of `store`"
    )


class Evaluation(Section):
    """A command of one's own with its configuration."""

    command: Command = Field(
        description="words, no shell between; {configs} is the files' folder, {results} the run's own"
    )
    configs: list[Annotated[str, Field(min_length=1, max_length=512), NO_NUL]] = Field(
        default_factory=list, description="files, relative to the spec's own folder"
    )


class Load(Section):
    """Fetch a model into a bucket."""

    to: Bucket = Field(description="s3://bucket/prefix that takes it")


class Train(Evaluation):
    """Train a model; the base model is `source`."""

    dataset: Source | None = Field(default=None, description="fetched to /scratch/dataset")


class Serve(Section):
    """Serve a model at port 8080; the model is `source`, found at /model."""

    command: Command | None = Field(default=None, description="words; none: the image's own entry, `serve`")
    quantization_bits: Literal[4, 8, 16] | None = Field(
        default=None, description="how the model is quantized; none: as it is"
    )


class Notebook(Section):
    """A notebook at port 8888."""

    command: Command | None = Field(
        default=None, description="words; none: the image's own entry, `notebook`"
    )
    token: DnsName | None = Field(
        default=None, description="secret whose key `token` is asked for; none: one that submit makes"
    )


class Spec(Section):
    """A job."""

    version: Literal[1] = Field(description="of this form")
    kind: Kind = Field(description=", ".join(KINDS))
    name: Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$")] | None = Field(
        default=None, description="stands in front of the job's name, 20 letters at most; none: the kind"
    )
    image: Image = Field(description="what the pods run in")
    resources: Resources = Field(default_factory=Resources, description="what one pod gets")
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="labels of nodes, such as an accelerator's product"
    )
    service_account: DnsName | None = Field(default=None, description="whom pods run as; none: the default")
    user: Annotated[int, _ID] | None = Field(
        default=None, description="number pods run as; none: the namespace's (OpenShift), or the image's"
    )
    group: Annotated[int, _ID] | None = Field(
        default=None, description="number of their group, which volumes are made writable for; none: the same"
    )
    tolerations: list[Toleration] = Field(default_factory=list, description="taints of nodes they may run on")
    priority: DnsName | None = Field(default=None, description="priority class; none: the default")
    queue: DnsName | None = Field(default=None, description="Kueue's LocalQueue; none: started at once")
    deadline_minutes: int | None = Field(
        default=None, ge=1, le=30 * DAY_MINUTES, description="until it is ended; none: by its plan, or a day"
    )
    ttl_minutes: int = Field(
        default=DAY_MINUTES,
        # What is removed the moment it ends, nobody who watches or collects sees the end of.
        ge=10,
        le=30 * DAY_MINUTES,
        description="until what has ended is removed",
    )
    retries: int = Field(default=2, ge=0, le=10, description="how often a pod that failed is replaced")
    parameters: dict[ParameterName, Value] = Field(
        default_factory=dict, description="reach the container as PARAM_<NAME>; values, or secret and key"
    )
    environment: dict[VariableName, Value] = Field(
        default_factory=dict, description="other variables; values, or secret and key"
    )
    tags: dict[str, Annotated[str, Field(max_length=500), NO_NUL]] = Field(
        default_factory=dict, description="of the tracked run, and annotations of the job"
    )
    source: Source | None = Field(default=None, description="model or data fetched before it begins")
    source_image: ImageName | None = Field(
        default=None, description="what fetches `source`; none: the image of the pods"
    )
    store: Store | None = Field(default=None, description="where journals and output go")
    tracking: Tracking | None = Field(default=None, description="MLflow; none: nobody is told")
    tests: Tests | None = Field(default=None, description="of kind tests")
    evaluation: Evaluation | None = Field(default=None, description="of kind evaluation")
    load: Load | None = Field(default=None, description="of kind load")
    train: Train | None = Field(default=None, description="of kind train")
    serve: Serve | None = Field(default=None, description="of kind serve")
    notebook: Notebook | None = Field(default=None, description="of kind notebook")

    @field_validator("environment", "tags")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name.startswith(_OURS):
                raise ValueError(f"{name} is what the job itself sets; give `parameters` for PARAM_")
        return value

    @model_validator(mode="after")
    def _sections_fit_the_kind(self) -> Spec:
        others = [kind for kind in KINDS if kind != self.kind and getattr(self, kind) is not None]
        if others:
            raise ValueError(f"kind is {self.kind}, and there is a section `{others[0]}`: leave it out")
        if self.kind in {"evaluation", "load", "train"} and getattr(self, self.kind) is None:
            raise ValueError(f"kind {self.kind} wants a section `{self.kind}`")
        for path in self.configs:
            if leads_out(path):
                raise ValueError(f"the config file {path!r} is not below the spec's folder")
        return self

    @property
    def configs(self) -> list[str]:
        """The configuration files, relative to the spec's folder."""
        section = self.evaluation or self.train
        return [] if section is None else list(section.configs)


def read_spec(path: Path) -> Spec:
    """Read and check a spec's form; what its kind asks besides says `ci.jobs.job.check_contract`.

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
