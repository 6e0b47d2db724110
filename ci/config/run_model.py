"""The settings of a run: which tests there are, on what device, how they are split, run and dealt to a CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.config.section import Seconds, Section
from test_selection.capabilities import known_dtype
from test_selection.seeds import MOST as MOST_SEED


class PyTorch(Section):
    """Which PyTorch tests there are to run."""

    source: str | None = Field(
        default=None,
        description="a folder, an archive or git+URL@ref with PyTorch's source; none: the embedded op suite",
    )
    files: list[str] = Field(
        default_factory=list,
        description="globs of test files, relative to the tests' root; empty: all of them",
    )
    suite: Path | list[Path] | None = Field(
        default=None,
        description="test_suite_config files that declare expected outcomes: a path, folder, glob or list",
    )
    rules: Path | None = Field(default=None, description="scope rules; none: the ones shipped with spyre-ci")
    selection_lock: Path = Field(
        default=Path("selection.lock.gz"), description="lock of the rank of every test; used if it exists"
    )


class Device(Section):
    """The device under test."""

    name: str = Field(
        default="spyre", pattern=r"^[a-z][a-z0-9_]*$", description="device type; `cpu` is the control"
    )
    emulated: Literal["local", "allow"] = Field(
        default="local",
        description="where `spyre` is emulated if there are no cards: local: outside a CI; allow: in one too",
    )
    install: list[Annotated[str, StringConstraints(pattern=r"^[^\r\n\x00]+$")]] = Field(
        default_factory=list,
        description="what pip installs, called in the settings' folder, before PyTorch's tests run in an "
        "environment that nox made, such as [.]; an image has its back end already",
    )
    refuse_ops: list[str] = Field(
        default_factory=list,
        description="aten operators the emulated device refuses, as a card that lacks them",
    )
    refuse_dtypes: list[str] = Field(
        default_factory=list, description="dtypes the emulated device refuses, without `torch.`"
    )
    ops: list[str] = Field(
        default_factory=list,
        description="operators the device declares, by OpInfo name; tests of others are out; empty: all",
    )
    dtypes: list[Annotated[str, AfterValidator(known_dtype)]] = Field(
        default_factory=list,
        description="dtypes the device declares, without `torch.`; tests of others are out; empty: all",
    )


class Collect(Section):
    """Collection: finding every test of a tree."""

    workers: int = Field(default=0, ge=0, le=1024, description="processes side by side; 0: one a CPU core")
    file_timeout_s: Seconds = Field(default=180, description="after which a file's collection is ended")
    cache: bool = Field(default=True, description="whether collections are kept and reused")


class Plan(Section):
    """How the planner splits tests over cards."""

    max_files: int | None = Field(default=None, ge=1, description="files a shard may hold; none: any number")
    durations: Path = Field(
        default=Path("durations.json.gz"),
        description="file with the seconds of earlier runs, as `spyre-ci history export` writes it; used "
        "where there is no history, as on a CI's fresh machine",
    )
    op_map: Path = Field(
        default=Path("opmap.json.gz"),
        description="file with what each test calls, as `spyre-ci history export --op-map` writes it; tests "
        "are ordered by a change with it; without the file, with what the history has",
    )
    recall: Path = Field(
        default=Path("recall.json"),
        description="file with the recall of a choice by change, as `spyre-ci changes measure` writes it",
    )
    speeds: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        default_factory=list,
        description="one factor a card, 0.5 for one that takes twice as long; none: all are equal",
    )


class Run(Section):
    """The runner."""

    cards: int = Field(
        default=0, ge=0, le=4096, description="cards used on this host, a worker each; 0: one a CPU core"
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=MOST_SEED,
        description="of the random numbers; each test's own follows from it; none: drawn for each plan",
    )
    test_timeout_s: Seconds = Field(default=600, description="after which a test counts as hung")
    timeout_factor: float = Field(
        default=10, ge=1, le=1000, description="how many times its file's slowest test a test may take"
    )
    timeout_floor_s: Seconds = Field(
        default=120, description="no time-out from history is shorter; none is longer than test_timeout_s"
    )
    setup_timeout_s: Seconds = Field(
        default=300, description="after which importing and collecting a file counts as hung"
    )
    grace_s: Seconds = Field(
        default=5,
        description="time a process gets to end before it is killed; for a hanging test's stacks: 2 at most",
    )
    worker_restarts: int = Field(
        default=3, ge=0, description="how often a card's lost worker is replaced before the card is given up"
    )
    trace_functions: bool = Field(
        default=False,
        description="note which Python functions of torch each test calls, for the op map; tests take longer",
    )
    static: bool = Field(
        default=False, description="every card runs its shard and nothing else; else idle ones help"
    )
    start_method: Literal["auto", "fork", "spawn"] = Field(
        default="auto",
        description="how a file's process begins: fork, a copy of one that has torch imported; spawn, one "
        "that imports it, which takes seconds more a file; auto: fork on Linux unless the device is open "
        "before the copy is made, spawn elsewhere",
    )
    retries: int = Field(
        default=1, ge=0, le=10, description="how often a failed test is run again, alone, on another card"
    )
    retry_budget: int = Field(
        default=100,
        ge=0,
        description="tests that are run again at most; where more fail, it is no flake",
    )
    max_fail: int = Field(
        default=0,
        ge=0,
        description="failed tests, without quarantined ones, after which nothing more is run; 0: all are run",
    )
    share: str | None = Field(
        default=None,
        min_length=1,
        description="where the hosts of a run claim each other's pieces: a folder all of them write, or the "
        "URL of a Redis; none: every host runs its shards by itself",
    )
    share_lease_s: Seconds = Field(
        default=60, description="after so many seconds of silence a host that shares is taken to be dead"
    )
    share_password_file: Path | None = Field(
        default=None,
        description="file with the Redis' password; the environment's SPYRE_CI_SHARE_PASSWORD wins; it is "
        "sent only to a run.share that the environment gives (SPYRE_CI__RUN__SHARE)",
    )
    control: Literal["none", "cpu"] = Field(
        default="none",
        description="device on which what failed runs once more, to tell whether upstream fails too",
    )
    control_limit: int = Field(
        default=1000, ge=0, description="tests that run on the control device at most, the files in turn"
    )
    quarantine: Path | None = Field(
        default=None,
        description="quarantined tests; none: quarantine.yaml beside the settings, where it is there",
    )
    leases: Path | None = Field(
        default=None,
        description="folder where this host's runs record which cards are in use and which are out of use; "
        "none: one that all users share",
    )
    lease_timeout_s: Seconds = Field(
        default=3600, description="how long a run waits while other runs hold every card"
    )
    preflight: bool = Field(
        default=True, description="whether a card is checked before its first test and after a fault"
    )
    preflight_timeout_s: Seconds = Field(default=60, description="after which a card has failed its check")
    card_strikes: int = Field(
        default=3, ge=1, le=1000, description="faults after which a card is out of use, for other runs too"
    )
    card_bench_s: Seconds = Field(
        default=3600, description="how long a card stays out of use, and how long a fault counts"
    )


class Matrix(Section):
    """How shards are dealt to the jobs of a CI."""

    labels: list[Annotated[str, Field(pattern=r"^([^\s{}]|\{cards\})+$")]] = Field(
        default_factory=lambda: ["linux", "x86_64", "spyre_pf_x{cards}"],
        description="labels of a runner, `{cards}` for its cards; add the image's",
    )
    runner_cards: list[Annotated[int, Field(ge=0, le=64)]] = Field(
        default_factory=lambda: [0, 1, 2, 4], description="cards that runners have"
    )
    timeout_factor: float = Field(
        default=3, ge=1, le=100, description="time limit of a CI job, as a multiple of its expected seconds"
    )
    timeout_extra_minutes: int = Field(
        default=30,
        ge=0,
        le=1440,
        description="minutes added to the time limit of a CI job, for checkout, image and hangs",
    )
    beyond: Literal["matrices", "indexed-job"] = Field(
        default="matrices",
        description="more than 256 GitHub jobs: several matrices, or one job that submits an Indexed Job",
    )

    @model_validator(mode="after")
    def _has_runners_with_cards(self) -> Matrix:
        if not any(self.runner_cards):
            raise ValueError("runner_cards must hold a number above 0")
        return self
