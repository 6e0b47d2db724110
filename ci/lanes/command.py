"""What an attempt of a lane runs: its command, and an environment with its own secrets and nobody else's."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from ci.config.lanes_model import Lane
from ci.config.load import DEFAULT_FILE, Settings
from ci.core.errors import SettingsError
from ci.core.secrets import read_secret
from ci.core.withheld import without_job_secrets
from ci.lanes.attempt import Launch
from ci.lanes.ledger import Attempt
from ci.runner.child import module_words

TOOLKIT = Path(__file__).parent.parent.parent / "noxfile.py"
# Nobody else reads it or writes to it; a group may read it, as where a cluster mounts it.
_TOO_OPEN = stat.S_IRWXO | stat.S_IWGRP


def launch_of(
    attempt: Attempt, tries: int, folder: Path, settings: Settings, values: Mapping[str, str]
) -> Launch:
    """What an attempt runs.

    Args:
        attempt: of a lane of the settings.
        tries: attempts of its run that count, with this one. A job is known by it: after a restart the same
            job is followed, and not another one submitted.
        folder: of the attempt.
        settings: of the lanes.
        values: the environment with the file's secrets.
    """
    lane, worker = settings.model.lanes[attempt.lane], settings.model.lane_worker
    run = f"{attempt.lane}-{attempt.due}-{tries}"
    listed = {name for one in settings.model.lanes.values() for name in one.secrets}
    environ = {name: value for name, value in without_job_secrets(values).items() if name not in listed}
    environ |= {
        **{name: values[name] for name in lane.secrets},
        "SPYRE_CI_LANE": attempt.lane,
        "SPYRE_CI_LANE_RUN": run,
        "SPYRE_CI_LANE_TIER": lane.tier,
        "SPYRE_CI_LANE_SEED": str(lane.seed),
    }
    if lane.run.pytorch is not None:
        environ["SPYRE_CI__RUNS"] = str(folder / "runs")
    return Launch(
        command=_command(lane, run, settings),
        environ=environ,
        cwd=settings.base,
        limit_s=lane.time_limit_s,
        ending_s=worker.ending_s,
    )


def _command(lane: Lane, run: str, settings: Settings) -> list[str]:
    work, path = lane.run, settings.path
    config = [] if path is None or path.name == DEFAULT_FILE else ["--config", str(path.absolute())]
    if work.command is not None:
        return work.command
    if work.job is not None:
        submit = ["job", "submit", str(work.job.spec), "--run", run, "--collect", *work.job.arguments]
        return [*module_words("ci.cli", here=settings.base), *config, *submit]
    noxfile = TOOLKIT if TOOLKIT.is_file() else settings.base / "noxfile.py"
    if work.session is not None:
        noxfile = settings.base / work.session.noxfile.expanduser() if work.session.noxfile else noxfile
        return ["nox", "-f", str(noxfile), "-s", work.session.name, "--", *work.session.arguments]
    assert work.pytorch is not None  # noqa: S101  # exactly one is set
    stage = [] if work.pytorch.stage is None else ["--stage", str(work.pytorch.stage)]
    arguments = [*stage, *config, "--tier", lane.tier, *work.pytorch.arguments]
    return ["nox", "-f", str(noxfile), "-s", "pytorch", "--", *arguments]


def read_values(settings: Settings, environ: Mapping[str, str], lanes: Iterable[str]) -> dict[str, str]:
    """The environment, and below it what the file of secrets holds.

    Args:
        settings: of the lanes.
        environ: the environment, which beats the file.
        lanes: names of those that will run, whose secrets have to be there.

    Raises:
        SettingsError: others may read the file; or secrets are missing, with every name and its lanes.
    """
    path = settings.resolve(settings.model.lane_worker.secrets)
    values = {**_read(path), **{name: value for name, value in environ.items() if value}}
    missing: dict[str, list[str]] = {}
    for lane in lanes:
        for name in settings.model.lanes[lane].secrets:
            if not values.get(name):
                missing.setdefault(name, []).append(lane)
    if missing:
        named = "; ".join(f"{name} (lane {', '.join(of)})" for name, of in sorted(missing.items()))
        raise SettingsError(
            f"there is no value for {named}",
            where=path,
            remedy="set it in the environment or this file (`lane_worker.secrets`), one NAME=value per line",
        )
    return values


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():  # a folder of the usual name is a virtual environment
        return {}
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _TOO_OPEN:
        raise SettingsError(
            f"others may read or change it (its mode is {mode:04o}), and it contains secrets",
            where=path,
            remedy=f"chmod 600 {path}",
        )
    found = {}
    for one in parse_stream(io.StringIO(read_secret(path, "secrets"))):
        if one.error or {"\0", "\ufffd"} & set(one.original.string):
            raise SettingsError(
                "cannot be read as NAME=value in UTF-8",
                where=f"{path}:{one.original.line}",
                remedy="quote a value that has blanks, quotes or several lines",
            )
        if one.key is not None:
            found[one.key] = one.value or ""
    return found
