"""Who a run is: written once by the planner into `run.json`, carried by every report of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.addresses import without_credentials
from ci.errors import BadFileError
from ci.report.text import iso_utc, shell_line
from test_selection.files import read_json, write_json

KIND = "run"
FILE = "run.json"


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
        reproduce: the words of the command that ran it, to which `--id ID` is added.
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


def identity_from_json(content: Mapping[str, Any], *, where: Path) -> RunIdentity:
    """The identity that `RunIdentity.as_json` wrote; other keys are passed over.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    try:
        return RunIdentity(
            run=_text(content["run"]),
            run_id=int(content["run_id"]),
            run_attempt=int(content["run_attempt"]),
            device=_text(content["device"]),
            pytorch_version=_text(content["pytorch_version"]),
            pytorch_sha=_text(content["pytorch_sha"]),
            stage=None if content["stage"] is None else int(content["stage"]),
            percent=float(content["percent"]),
            started_at=datetime.fromisoformat(content["started_at"]).timestamp(),
            lane=_text(content["lane"]),
            job_name=_text(content["job_name"]),
            workflow=_text(content["workflow"]),
            url=_text(content["url"]),
            provider=_text(content["provider"]),
            commit=_text(content.get("commit", "")),
            back_end=_text(content.get("back_end", "")),
            image=_text(content.get("image", "")),
            restricted=_text(content.get("restricted", "")),
            reproduce=tuple(map(_text, content["reproduce"])),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadFileError(
            f"a key is missing or of the wrong kind: {error}",
            where=where,
            remedy="plan the run again with `spyre-ci plan`",
        ) from error


def reproduce_command(name: str, identity: RunIdentity) -> str:
    """The command line, quoted for a shell, that runs one test again as this run did.

    Args:
        name: the test's canonical id.
        identity: of the run.
    """
    return shell_line([*identity.reproduce, "--id", name])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
