"""What every job's spec is made of: image, resources, parameters, sources, where results go."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from ci.config.section import GIT_ADDRESS, Section
from ci.core.addresses import without_credentials

# Kubernetes' rules: RFC 1123 labels and subdomains, label keys and values, and quantities.
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DnsName = Annotated[str, StringConstraints(pattern=rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$", max_length=253)]
# What a label's value is made of, a LocalQueue's name among them: a DNS label.
DnsLabel = Annotated[str, StringConstraints(pattern=rf"^{_DNS_LABEL}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$",
        max_length=317,
    ),
]
Quantity = Annotated[
    str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$", max_length=32)
]
SecretKey = Annotated[str, StringConstraints(pattern=r"^[-._A-Za-z0-9]{1,253}$")]
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


def leads_out(path: str) -> bool:
    """Whether a relative path names something outside its folder."""
    return path.startswith("/") or ".." in PurePosixPath(path).parts or bool(re.match(r"[A-Za-z]:", path))


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
    key: SecretKey = Field(description="which of its keys")


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

    @model_validator(mode="after")
    def _exactly_one(self) -> Image:
        given = [name for name in ("name", "git", "upload") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of name, git and upload, not {' and '.join(given) or 'none'}")
        return self


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

    key: LabelKey | None = Field(default=None, description="the taint's key; none: any")
    operator: Literal["Exists", "Equal"] = Field(default="Exists", description="how the value is compared")
    value: LabelValue | None = Field(default=None, description="with Equal")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="none: any"
    )
    seconds: int | None = Field(default=None, ge=0, description="for how long, with NoExecute")

    @model_validator(mode="after")
    def _fits(self) -> Toleration:
        if (self.value is None) != (self.operator == "Exists"):
            raise ValueError("Equal wants a value, and Exists has none")
        if self.key is None and self.operator == "Equal":
            raise ValueError("without a key only Exists can be asked")
        if self.seconds is not None and self.effect != "NoExecute":
            raise ValueError("seconds are of NoExecute alone")
        return self


class Artifact(Section):
    """An artifact of a tracked run, in MLflow."""

    run: str = Field(pattern=r"^[0-9a-f]{32}$", description="the run's id")
    path: InnerPath = Field(description="of the artifact in the run")


class Source(Section):
    """A model or data that is fetched to /scratch before the job begins: exactly one of the two."""

    artifact: Artifact | None = Field(default=None, description="an artifact of a tracked run")
    bucket: Bucket | None = Field(default=None, description="s3://bucket/prefix")

    @model_validator(mode="after")
    def _exactly_one(self) -> Source:
        if (self.artifact is None) == (self.bucket is None):
            raise ValueError("give exactly one of artifact and bucket")
        return self


class Store(Section):
    """Where pods put their journals as they go, and their output: exactly one of the two."""

    volume: DnsName | None = Field(
        default=None, description="a persistent volume claim that all pods write (ReadWriteMany)"
    )
    bucket: Bucket | None = Field(default=None, description="s3://bucket/prefix; keys by `environment`")

    @model_validator(mode="after")
    def _exactly_one(self) -> Store:
        if (self.volume is None) == (self.bucket is None):
            raise ValueError("give exactly one of volume and bucket")
        return self


class Tracking(Section):
    """What MLflow is told; its address is the environment's MLFLOW_TRACKING_URI."""

    experiment: str = Field(min_length=1, max_length=200, description="which experiment the run is put in")
    output: InnerPath | None = Field(
        default=None, description="folder of the run's in the store, whose files become artifacts"
    )
