"""All settings of a checkout, with their defaults; every key says what it means.

The descriptions are what `spyre-ci config show --describe` prints.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ci.addresses import is_loopback
from ci.config.hud_model import Hud
from ci.config.package_model import Package
from ci.config.pipeline_model import Pipeline
from ci.config.section import GIT_ADDRESS, REPOSITORY, Seconds, Section
from test_selection.capabilities import known_dtype

Percent = Annotated[float, Field(ge=0, le=100)]
# PyTorch's relay may take about 47 s; whoever goes away before has no answer, and his second try is refused.
RELAY_TIMEOUT_S = 60
LaneName = Literal["pr", "nightly", "weekly"]


class Stage(Section):
    """A row of the roll-out: how much of PyTorch's in-scope tests runs, on how many cards, how often."""

    percent: Percent = Field(description="share of the in-scope tests, in per cent")
    by: Literal["count", "seconds"] = Field(
        default="count", description="what the share is of: the number of tests, or their seconds"
    )
    cards: int = Field(ge=1, le=4096, description="cards the stage may use")
    cadence: str = Field(min_length=1, description="when it runs")
    blocking: bool = Field(default=True, description="whether a red run blocks a merge")
    lane: LaneName = Field(default="nightly", description="whose limits hold: pr, nightly or weekly")


class Lane(Section):
    """What a lane allows one test; what needs more moves to a later lane and is listed."""

    test_s: Seconds | None = Field(default=None, description="seconds a test may take; none: any")
    cards: int | None = Field(default=None, ge=1, le=4096, description="cards a test may need; none: any")
    memory_gib: float | None = Field(
        default=None, gt=0, le=1e6, description="GiB of memory a test may need; none: any"
    )


class Lanes(Section):
    """The lanes, from the one that runs most often to the one that may take longest."""

    pr: Lane = Field(default=Lane(test_s=60, cards=1, memory_gib=16))
    nightly: Lane = Field(default=Lane(test_s=600, cards=8, memory_gib=64))
    weekly: Lane = Field(default=Lane())


def _roll_out() -> dict[int, Stage]:
    often = "3 to 4 times a day"
    return {
        0: Stage(percent=0, cards=24, cadence="no PyTorch tests"),
        1: Stage(percent=5, cards=128, cadence="nightly"),
        2: Stage(percent=25, cards=512, cadence="nightly"),
        3: Stage(percent=50, cards=1024, cadence=often),
        4: Stage(percent=80, cards=2048, cadence=often),
        5: Stage(percent=80, cards=2048, cadence="every pull request", blocking=False, lane="pr"),
    }


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
    ladder: Path = Field(
        default=Path("ladder.lock.gz"), description="lock of every test's place; used where it is there"
    )


class Device(Section):
    """The device under test."""

    name: str = Field(
        default="spyre", pattern=r"^[a-z][a-z0-9_]*$", description="device type; `cpu` is the control"
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
    speeds: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        default_factory=list,
        description="one factor a card, 0.5 for one that takes twice as long; none: all are equal",
    )


class Run(Section):
    """The runner."""

    cards: int = Field(
        default=0, ge=0, le=4096, description="cards used on this host, a worker each; 0: one a CPU core"
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
    grace_s: Seconds = Field(default=5, description="time a process gets to end before it is killed")
    worker_restarts: int = Field(
        default=3, ge=0, description="how often a card's lost worker is replaced before the card is given up"
    )
    static: bool = Field(
        default=False, description="every card runs its shard and nothing else; else idle ones help"
    )
    retries: int = Field(
        default=1, ge=0, le=10, description="how often a failed test is run again, alone, on another card"
    )
    retry_budget: int = Field(
        default=100,
        ge=0,
        description="tests that are run again at most; where more fail, it is no flake",
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
        default="none", description="device on which what failed runs once more, to tell whose fault it is"
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
        description="folder where the runs of this host note whose a card is and which are benched; "
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
        default=3, ge=1, le=1000, description="faults after which a card is benched, for other runs too"
    )
    card_bench_s: Seconds = Field(
        default=3600, description="how long a card is benched, and how long a fault counts"
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
        default=3, ge=1, le=100, description="how many times its expected seconds a leg may take"
    )
    timeout_extra_minutes: int = Field(
        default=30, ge=0, le=1440, description="minutes a leg may take besides, for checkout, image and hangs"
    )
    beyond: Literal["matrices", "indexed-job"] = Field(
        default="matrices",
        description="more than 256 GitHub legs: several matrices, or one leg that submits an Indexed Job",
    )

    @model_validator(mode="after")
    def _has_runners_with_cards(self) -> Matrix:
        if not any(self.runner_cards):
            raise ValueError("runner_cards must hold a number above 0")
        return self


class Dispatch(Section):
    """A GitHub repository that reports for a CI that the relay does not know."""

    repository: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$",
        description="owner/name that `hud dispatch` asks to report; none: nobody",
    )
    workflow: str = Field(
        default="hud-report.yml", pattern=r"^[A-Za-z0-9_.-]+\.ya?ml$", description="its workflow file"
    )
    ref: str = Field(
        default="main",
        pattern=r"^[A-Za-z0-9_./-]{1,255}$",
        description="branch or tag the file is taken from",
    )
    api: str = Field(
        default="https://api.github.com",
        pattern=r"^https?://[^\s?#@]+$",
        description="GitHub's API; another one is taken from the environment only",
    )
    token_file: Path | None = Field(
        default=None,
        description="file with a token that may start workflows; the variable SPYRE_CI_GITHUB_TOKEN wins",
    )


class Signature(Section):
    """A secret shared with a server of our own that signs reports; for networks without OIDC."""

    name: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_.-]{0,64}$",
        description="by which the server knows the secret (its hud.hmac); none: reports are not signed",
    )
    secret_file: Path | None = Field(
        default=None,
        description="file with the secret; the environment's SPYRE_CI_HUD_HMAC_SECRET wins",
    )

    @model_validator(mode="after")
    def _has_a_name(self) -> Signature:
        if self.secret_file is not None and not self.name:
            raise ValueError(
                "secret_file is given without a name: say which secret it is in the server's hud.hmac"
            )
        return self


class Report(Section):
    """What becomes of the results."""

    endpoint: str = Field(
        default="embedded",
        pattern=r"^(embedded|none|https?://\S+)$",
        description="`embedded`, `none`, or the URL of a HUD-compatible server (the relay's callback path "
        "is added where the URL has no path); a token is sent there only where the environment gives it",
    )
    token_file: Path | None = Field(
        default=None,
        description="file with the bearer token; the environment's SPYRE_CI_HUD_TOKEN wins; without either a "
        "GitHub job with `id-token: write` mints one a report",
    )
    hmac: Signature = Field(default_factory=Signature)
    audience: str = Field(
        default="pytorch-cross-repo-ci-relay",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="whom a token minted by GitHub is for",
    )
    event_file: Path | None = Field(
        default=None,
        description="file with the relay's dispatch the run answers, given by hand; none: GitHub's event",
    )
    own_server: bool = Field(
        default=False,
        description="whether the endpoint is a server of our own, so that a pull request's report may carry "
        "what HUD's contract has no field for; upstream wants the dispatch's payload unchanged",
    )
    dispatch: Dispatch = Field(default_factory=Dispatch)
    post_times: Path | None = Field(
        default=None,
        description="folder where runs note when they posted, to stay below the relay's limit together; "
        "none: one in the temporary folder for all runs of the user",
    )
    repository: str = Field(
        default="torch-spyre/torch-spyre",
        pattern=REPOSITORY,
        description="owner/name the results are reported for, in its exact letter case",
    )
    timeout_s: Seconds = Field(
        default=RELAY_TIMEOUT_S,
        description="of one HTTP request; below the 60 that PyTorch's relay may take only to a server of our "
        "own (embedded, on this machine, own_server, hmac.name)",
    )
    budget_s: Seconds = Field(
        default=60, description="time a run spends on delivering its report; the outbox keeps what is left"
    )

    @model_validator(mode="after")
    def _outlasts_the_relay(self) -> Report:
        if self.timeout_s < RELAY_TIMEOUT_S and self._is_foreign():
            raise ValueError(
                f"timeout_s is {self.timeout_s:g}, and PyTorch's relay may take up to {RELAY_TIMEOUT_S} s to "
                "answer: raise it, or set own_server where the endpoint is a server of yours"
            )
        return self

    def _is_foreign(self) -> bool:
        """Whether reports may go to PyTorch's relay: to no server that is known to be of our own."""
        if self.endpoint in {"embedded", "none"} or self.own_server or self.hmac.name:
            return False
        try:
            return not is_loopback(urlsplit(self.endpoint).hostname or "")
        except ValueError:
            return False  # it is no address, which is said when it is used


class History(Section):
    """The store of past runs."""

    path: Path = Field(default=Path("history.sqlite"), description="file, relative to the state folder")
    keep_days: int = Field(default=180, ge=1, description="after which a run leaves the history")


class Image(Section):
    """The runtime image."""

    stack: Path = Field(default=Path("images/stack.yaml"), description="the file of its components")
    variant: str = Field(default="pinned", description="which of the stack's PyTorches")
    platform: Literal["linux/amd64", "linux/ppc64le", "linux/s390x"] = Field(
        default="linux/amd64", description="it is built for"
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

    runs: Path = Field(default=Path("runs"), description="folder that holds a folder a run")
    state: Path = Field(
        default=Path(".spyre-ci"), description="folder for caches, history, the HUD store and its token"
    )
    stage: int = Field(default=1, ge=0, description="row of the roll-out that runs by default")
    stages: dict[int, Stage] = Field(default_factory=_roll_out, description="the roll-out, by stage number")
    lanes: Lanes = Field(default_factory=Lanes)
    pytorch: PyTorch = Field(default_factory=PyTorch)
    device: Device = Field(default_factory=Device)
    collect: Collect = Field(default_factory=Collect)
    plan: Plan = Field(default_factory=Plan)
    run: Run = Field(default_factory=Run)
    matrix: Matrix = Field(default_factory=Matrix)
    report: Report = Field(default_factory=Report)
    hud: Hud = Field(default_factory=Hud)
    history: History = Field(default_factory=History)
    image: Image = Field(default_factory=Image)
    package: Package = Field(default_factory=Package)
    pipeline: Pipeline = Field(default_factory=Pipeline)

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
            raise ValueError("stages by count and stages by seconds do not nest; set `by` alike for all")
        return self


Origin = Literal["default", "file", "environment", "flag"]
