"""The spec of a job: one typed YAML file, the same for every kind of job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from ci.config.explain import explain
from ci.config.section import Section
from ci.core.errors import MissingInputError
from ci.jobs.parts import (
    NO_NUL,
    Bucket,
    DnsLabel,
    DnsName,
    Image,
    ImageName,
    LabelKey,
    LabelValue,
    ParameterName,
    Resources,
    Source,
    Store,
    Toleration,
    Tracking,
    Value,
    VariableName,
    Word,
    leads_out,
)
from test_selection.yaml_reader import load_document

Kind = Literal["tests", "evaluation", "load", "train", "serve", "notebook"]
KINDS: tuple[Kind, ...] = ("tests", "evaluation", "load", "train", "serve", "notebook")
Command = Annotated[list[Word], Field(min_length=1)]
Configs = list[Annotated[str, Field(min_length=1, max_length=512), NO_NUL]]
DAY_MINUTES = 24 * 60
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
    configs: Configs = Field(default_factory=list, description="files, relative to the spec's own folder")


class Load(Section):
    """Fetch a model into a bucket."""

    to: Bucket = Field(description="s3://bucket/prefix that takes it")


class Train(Section):
    """Train a model; the base model is `source`."""

    command: Command = Field(
        description="words, no shell between; {configs} is the files' folder, {results} the run's own"
    )
    dataset: Source | None = Field(default=None, description="fetched to /scratch/dataset")
    configs: Configs = Field(default_factory=list, description="files, relative to the spec's own folder")


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
    node_selector: dict[LabelKey, LabelValue] = Field(
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
    queue: DnsLabel | None = Field(default=None, description="Kueue's LocalQueue; none: started at once")
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
    tags: dict[LabelKey, Annotated[str, Field(max_length=500), NO_NUL]] = Field(
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

    @field_validator("environment")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name.startswith(("PARAM_", "SPYRE_CI_JOB_", "JOB_COMPLETION_")) or name == "SPYRE_CI_IMAGE":
                raise ValueError(f"{name} is what the job itself sets; give `parameters` for PARAM_")
        return value

    @field_validator("tags")
    @classmethod
    def _not_our_tags(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.startswith("spyre-ci.io/"):
                raise ValueError(f"{name} is what the job itself is tagged with; name it otherwise")
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
    """Read and check a spec's form; what its kind asks besides says `ci.jobs.kinds.check_contract`.

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
