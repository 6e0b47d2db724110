"""All settings of a checkout, with their defaults; every key says what it means.

The descriptions are what `spyre-ci config show --describe` prints. Larger sections have modules of their own.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from ci.config.bisect_model import Bisect
from ci.config.hud_model import Hud
from ci.config.lanes_model import Lane, LaneName, LaneWorker
from ci.config.package_model import Package
from ci.config.pins_model import Pins
from ci.config.pipeline_model import Pipeline
from ci.config.report_model import Report
from ci.config.retention_model import Retention
from ci.config.run_model import Collect, Device, Matrix, Plan, PyTorch, Run
from ci.config.section import GIT_ADDRESS, Section
from ci.config.stage_model import Stage, Tiers, roll_out
from ci.config.store_model import Store


class Image(Section):
    """The runtime image."""

    stack: Path = Field(default=Path("images/stack.yaml"), description="the file of its components")
    variant: str = Field(default="pinned", description="which of the stack's PyTorches")
    platform: Literal["linux/amd64", "linux/ppc64le", "linux/s390x"] = Field(
        default="linux/amd64", description="it is built for"
    )
    builder: Literal["docker", "podman", "buildah"] = Field(
        default="docker", description="the command that builds and pushes; docker needs its buildx plugin"
    )
    network: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]*$")] | None = Field(
        default=None, description="of a build's steps, such as host; none: the engine's default"
    )
    cache: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][A-Za-z0-9.:/_-]*$")] | None = Field(
        default=None, description="image whose layers are taken where the engine has none, such as the last"
    )
    repository: (
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)+$")] | None
    ) = Field(
        default=None, description="registry, namespace and name it is pushed to; none: it is not pushed"
    )
    devices: list[Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9_.,/@+-]+$")]] = Field(
        default_factory=list,
        description="absolute paths of the cards that tests with a device get; none: the emulated device",
    )
    max_growth_percent: float = Field(
        default=10, ge=0, description="by which an image may be larger than the one its tag points to"
    )
    role_timeout_s: float = Field(
        default=300, gt=0, description="seconds until a role's port answers, or `test` ends, when verified"
    )
    model: Path | None = Field(
        default=None, description="folder that `serve` finds at /model when verified; none: one of no use"
    )
    certificates: Path | None = Field(
        default=None, description="a company's certificates (PEM), given to every step and kept in no layer"
    )
    pytorch_url: Annotated[str, StringConstraints(pattern=GIT_ADDRESS)] | None = Field(
        default=None,
        description="repository of test trees; none: the one the image says, or PyTorch's",
    )


class SettingsModel(Section):
    """The whole of `spyre-ci.yaml`."""

    runs: Path = Field(default=Path("runs"), description="folder with one folder per run")
    state: Path = Field(
        default=Path(".spyre-ci"), description="folder for caches, the store of results and its token"
    )
    stage: int = Field(default=1, ge=0, description="row of the roll-out that runs by default")
    stages: dict[int, Stage] = Field(default_factory=roll_out, description="the roll-out, by stage number")
    tiers: Tiers = Field(default_factory=Tiers)
    lanes: dict[LaneName, Lane] = Field(default_factory=dict, description="recurring runs, by name")
    lane_worker: LaneWorker = Field(default_factory=LaneWorker)
    pytorch: PyTorch = Field(default_factory=PyTorch)
    device: Device = Field(default_factory=Device)
    collect: Collect = Field(default_factory=Collect)
    plan: Plan = Field(default_factory=Plan)
    run: Run = Field(default_factory=Run)
    matrix: Matrix = Field(default_factory=Matrix)
    report: Report = Field(default_factory=Report)
    hud: Hud = Field(default_factory=Hud)
    store: Store = Field(default_factory=Store)
    image: Image = Field(default_factory=Image)
    package: Package = Field(default_factory=Package)
    pipeline: Pipeline = Field(default_factory=Pipeline)
    pins: Pins = Field(default_factory=Pins)
    bisect: Bisect = Field(default_factory=Bisect)
    retention: Retention = Field(default_factory=Retention)

    @model_validator(mode="after")
    def _stages_nest(self) -> SettingsModel:
        # Later stages hold the earlier ones (law 2), so their shares must not shrink.
        rows = [self.stages[number] for number in sorted(self.stages)]
        for earlier, later in itertools.pairwise(rows):
            if later.percent < earlier.percent:
                raise ValueError(
                    f"stages must not shrink, but {later.percent:g} % follows {earlier.percent:g} %"
                )
        # A share by count need not lie inside a larger one by seconds; none and all of them do.
        kinds = {row.by for row in rows if 0 < row.percent < 100}  # noqa: PLR2004  # per cent
        if len(kinds) > 1:
            raise ValueError("stages by count and stages by seconds do not nest; set the same `by` for all")
        return self

    @model_validator(mode="after")
    def _lanes_name_stages(self) -> SettingsModel:
        # Told now, and not by a run that ends at night before it began.
        for name, lane in self.lanes.items():
            own = None if lane.run.pytorch is None else lane.run.pytorch.stage
            for stage in [*lane.in_stages, *([] if own is None else [own])]:
                if stage not in self.stages:
                    known = ", ".join(map(str, sorted(self.stages)))
                    raise ValueError(f"lane {name} names stage {stage}, and the stages are {known}")
        return self


Origin = Literal["default", "file", "environment", "flag"]
