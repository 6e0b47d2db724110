"""What each kind of job promises its container: mounts, ports, environment; checked before anything is sent.

The contract is this table and nothing else: what is rendered for a cluster and what runs on docker here both
read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ci.errors import SettingsError
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
CONFIGS_WORD = "{configs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a kind of job is.

    Attributes:
        source: whether `source` is wanted, may be given, or has no meaning.
        source_at: where what was fetched is found.
        store: whether a store is wanted.
        port: it listens at; None: none.
        command: words where the spec gives none.
        lasts: it runs until it is ended, as a server does.
    """

    source: str
    source_at: str = INPUTS
    store: bool = False
    port: int | None = None
    command: tuple[str, ...] = ()
    lasts: bool = False


WANTED, MAY, NONE = "wanted", "may be given", "has no meaning"

CONTRACTS: Mapping[Kind, Contract] = {
    "tests": Contract(source=NONE, store=True, command=("spyre-ci", "job", "pod")),
    "evaluation": Contract(source=MAY),
    "load": Contract(source=WANTED, command=("spyre-ci", "job", "put")),
    "train": Contract(source=WANTED, store=True),
    # The words of an image's entry: its roles.
    "serve": Contract(source=WANTED, source_at=MODEL, port=SERVE_PORT, command=("serve",), lasts=True),
    "notebook": Contract(source=MAY, port=NOTEBOOK_PORT, command=("notebook",), lasts=True),
}


def check_contract(spec: Spec, where: object) -> None:
    """Refuse a spec that lacks what its kind promises its container.

    Args:
        spec: read.
        where: what errors name: the spec's file.

    Raises:
        SettingsError: what is missing, or has no meaning for this kind.
    """
    contract = CONTRACTS[spec.kind]
    if contract.source == WANTED and spec.source is None:
        raise _bad(where, f"kind {spec.kind} wants a `source`", "give source.artifact or source.bucket")
    if contract.source == NONE and spec.source is not None:
        raise _bad(where, f"`source` has no meaning for kind {spec.kind}", "leave it out")
    if contract.store and spec.store is None:
        raise _bad(
            where, f"kind {spec.kind} wants a `store`", "give store.volume (ReadWriteMany) or store.bucket"
        )
    if spec.tests is not None and spec.tests.share and (spec.store is None or spec.store.volume is None):
        raise _bad(where, "tests.share wants a volume that all pods write", "give store.volume")
    sources = [spec.source, spec.train.dataset if spec.train else None]
    if any(one and one.artifact for one in sources) and TRACKING_VARIABLE not in spec.environment:
        # Without it MLflow would look for the run in a folder of the container.
        raise _bad(
            where,
            "an artifact is fetched, and nothing says from where",
            f"give environment.{TRACKING_VARIABLE}",
        )


def _bad(where: object, what: str, remedy: str) -> SettingsError:
    return SettingsError(what, where=str(where), remedy=remedy)
