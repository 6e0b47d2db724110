"""Who a run is: written once by the planner into `run.json`, carried by every report of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.core.addresses import without_credentials
from ci.core.errors import BadFileError
from ci.core.text import iso_utc
from ci.record.reproduce_line import ref_of, reproduce_line
from ci.record.result import Result
from test_selection.files import convert, read_json, write_json

KIND = "run"
# What a file shows of a command; an id may be endless.
MAX_COMMAND = 4000
FILE = "run.json"
# The back end of a device that no card makes.
EMULATED = "the emulated device"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The identity of a run; user names and passwords in its addresses are left out.

    Attributes:
        run: the readable run id, the name of the run's folder.
        run_id: the CI's whole number, or the epoch second; above 0.
        run_attempt: from 1.
        device: the device's name.
        pytorch_version: such as `2.13.0`.
        pytorch_sha: the exact commit; of a tree without git its version and content hash.
        pytorch_commit: that the torch of the tree's version was built from; empty where it is not known.
        stage: the row of the roll-out; None where a percentage was asked for by itself.
        percent: the share of the tests in scope that was asked for.
        started_at: seconds since the epoch.
        lane: the recurring run it belongs to, such as `nightly-pinned`; empty where there is none.
        job_name: the CI's job; empty where there is none.
        workflow: the CI's workflow.
        url: page of the CI's run; empty where there is none.
        provider: github, jenkins or none.
        commit: of the checkout the CI runs, as it says; empty where it does not.
        back_end: what made the device, with its version and commit where they are known; empty in old runs.
        image: the image it ran in, name@sha256:…; empty where nobody said.
        restricted: what left tests out besides the share, such as `--files`; empty: nothing did.
        reproduce: the words of the command that ran it; `--pytorch-src` among them says where its tests are.
        seed: of the run, as its plan has it; None before it is reported, and in old runs.
    """

    run: str
    run_id: int
    run_attempt: int
    device: str
    pytorch_version: str
    pytorch_sha: str
    stage: int | None
    percent: float
    started_at: float
    lane: str = ""
    job_name: str = ""
    workflow: str = ""
    url: str = ""
    provider: str = "none"
    commit: str = ""
    back_end: str = ""
    image: str = ""
    restricted: str = ""
    reproduce: tuple[str, ...] = ("spyre-ci", "run")
    seed: int | None = None
    pytorch_commit: str = ""

    def __post_init__(self) -> None:
        # Here, so that no report, page or command can show what was in an address (law 9).
        object.__setattr__(self, "url", without_credentials(self.url))
        object.__setattr__(self, "reproduce", tuple(map(without_credentials, self.reproduce)))

    @property
    def key(self) -> tuple[int, int, str]:
        """What makes it the same run again (law 6): CI run, attempt and readable id.

        Jobs of a CI count their runs each for itself, and all have their run in a folder of one name.
        """
        where = (self.workflow, self.lane) if self.provider != "none" else ()
        return self.run_id, self.run_attempt, "/".join(one for one in (*where, self.run) if one)

    @property
    def ref(self) -> str:
        """What names this run to `spyre-ci reproduce`."""
        return ref_of(run=self.run, provider=self.provider, run_id=self.run_id, run_attempt=self.run_attempt)

    @property
    def source(self) -> str | None:
        """Where its tests came from, as `--pytorch-src` takes it; None: the embedded op suite."""
        return source_in(self.reproduce)

    def as_json(self) -> dict[str, Any]:
        """Plain values, the time as ISO-8601 in UTC."""
        return asdict(self) | {"started_at": iso_utc(self.started_at)}


def write_identity(run_dir: Path, identity: RunIdentity) -> None:
    """Write `run.json` of a run folder."""
    write_json(run_dir / FILE, KIND, identity.as_json())


def read_identity(run_dir: Path) -> RunIdentity:
    """Read `run.json` of a run folder.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a key is missing or of the wrong kind.
    """
    path = run_dir / FILE
    return identity_from_json(read_json(path, KIND), where=path)


def identity_from_json(content: Any, *, where: Path) -> RunIdentity:
    """The identity that `RunIdentity.as_json` wrote; other keys are passed over.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    remedy = "plan the run again with `spyre-ci plan`"
    begun = epoch_in(content, "started_at", where=where, remedy=remedy)
    return convert({**content, "started_at": begun}, RunIdentity, where=where, remedy=remedy)


def epoch_in(content: Any, key: str, *, where: Path, remedy: str) -> float:
    """A time of a file, in seconds since the epoch.

    Args:
        content: as JSON has it.
        key: under which it stands, as ISO-8601.
        where: what errors name.
        remedy: what to do where it is none.

    Raises:
        BadFileError: it is missing, or no time.
    """
    try:
        return datetime.fromisoformat(content[key]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}", where=where, remedy=remedy
        ) from error


def source_in(words: Sequence[str]) -> str | None:
    """What a command names as `--pytorch-src`; None where it names nothing."""
    following = list(words)[list(words).index("--pytorch-src") + 1 :] if "--pytorch-src" in words else []
    return following[0] if following else None


def command_of(result: Result, identity: RunIdentity) -> str:
    """The command line, quoted for a shell, that runs a test again as this run did.

    It is of the try that the test's verdict speaks of, as far as it is known which.
    """
    return reproduce_line(
        result.id,
        device=identity.device,
        source=identity.source,
        sha=identity.pytorch_sha,
        seed=identity.seed,
        ref=identity.ref,
        attempt=result.tried or 1,
    )
