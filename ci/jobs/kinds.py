"""What each kind of job promises its container: mounts, ports, environment; checked before anything is sent.

The contract is this table and nothing else: what is rendered for a cluster and what runs on docker here both
read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ci.core.errors import SettingsError
from ci.jobs.spec import Kind, Spec

SCRATCH = "/scratch"
# What `source` becomes, and what a training's dataset becomes.
INPUTS = f"{SCRATCH}/inputs"
DATASET = f"{SCRATCH}/dataset"
MODEL = "/model"
# Configuration and the slices of the plan; a folder below it is named as the job.
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
