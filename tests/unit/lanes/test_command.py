"""What a lane's attempt is called with, and the environment it gets: its own secrets and nobody else's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.config import load_settings
from ci.config.load import Settings
from ci.core.errors import SettingsError
from ci.lanes.command import TOOLKIT, launch_of, read_values
from ci.lanes.ledger import Attempt, Status

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


def settings_of(folder: Path, name: str = "spyre-ci.yaml", **lanes: dict[str, Any]) -> Settings:
    rows = {
        key: {"cadence": {"cron": "0 0 * * *"}, "run": {"command": ["x"]}, **one}
        for key, one in lanes.items()
    }
    (folder / name).write_text(yaml.safe_dump({"lanes": rows}), encoding="utf-8")
    return load_settings(path=folder / name, environ={}, flags={}, cwd=folder)


def launched(
    settings: Settings, lane: str, values: dict[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    attempt = Attempt(lane=lane, due=1000, attempt=3, status=Status.RUNNING, why="", begun_at=0)
    launch = launch_of(attempt, 2, Path("/there"), settings, values or {})
    assert (launch.cwd, launch.limit_s, launch.ending_s) == (settings.base, 6 * 3600, 120)
    return list(launch.command), dict(launch.environ)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ({"pytorch": {}}, ["nox", "-f", str(TOOLKIT), "-s", "pytorch", "--", "--tier", "nightly"]),
        (
            {"pytorch": {"stage": 1, "arguments": ["--pytorch-src", "git+u@v2"]}},
            [
                "nox",
                "-f",
                str(TOOLKIT),
                "-s",
                "pytorch",
                "--",
                "--stage",
                "1",
                "--tier",
                "nightly",
                "--pytorch-src",
                "git+u@v2",
            ],
        ),
        (
            {"session": {"name": "image", "arguments": ["--push"]}},
            ["nox", "-f", str(TOOLKIT), "-s", "image", "--", "--push"],
        ),
        (
            {"session": {"name": "own", "noxfile": "there/n.py"}},
            ["nox", "-f", "{base}/there/n.py", "-s", "own", "--"],
        ),
        (
            {"job": {"spec": "job.yaml", "arguments": ["--store", "/mnt"]}},
            [
                sys.executable,
                "-P",  # a project may have a folder `ci` of its own
                "-m",
                "ci.cli",
                "job",
                "submit",
                "job.yaml",
                "--run",
                "one-1000-2",
                "--collect",
                "--store",
                "/mnt",
            ],
        ),
        ({"command": ["python", "loop.py"]}, ["python", "loop.py"]),
    ],
)
def test_a_lane_calls_what_people_call(tmp_path: Path, work: dict[str, Any], words: list[str]) -> None:
    settings = settings_of(tmp_path, one={"run": work, "seed": 7})
    command, environ = launched(settings, "one")
    assert command == [word.format(base=tmp_path) for word in words]
    named = {"LANE": "one", "LANE_RUN": "one-1000-2", "LANE_TIER": "nightly", "LANE_SEED": "7"}
    runs = {"SPYRE_CI__RUNS": "/there/runs"} if "pytorch" in work else {}
    assert environ == {**{f"SPYRE_CI_{key}": value for key, value in named.items()}, **runs}


def test_other_settings_are_handed_on(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, "other.yaml", tests={"run": {"pytorch": {}}}, job={"run": {"job": {"spec": "s"}}}
    )
    for lane in ("tests", "job"):
        command, _ = launched(settings, lane)
        assert command[command.index("--config") + 1] == str(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("name", "lane", "stage", "tier"),
    [
        ("lanes-nightly.yaml", "stage-1-nightly", "1", "nightly"),
        ("lanes-nightly.yaml", "stage-3-daily", "3", "nightly"),
        ("lanes-weekly.yaml", "weekly", "4", "weekly"),
    ],
)
def test_the_examples_run_the_main_job(name: str, lane: str, stage: str, tier: str) -> None:
    settings = load_settings(path=EXAMPLES / name, environ={}, flags={}, cwd=EXAMPLES)
    attempt = Attempt(lane=lane, due=0, attempt=1, status=Status.RUNNING, why="", begun_at=0)
    command = launch_of(attempt, 1, Path(), settings, {}).command
    assert command[5:8] == ["--", "--stage", stage]
    assert command[-2:] == ["--tier", tier]


def test_a_lane_gets_its_own_secrets_and_nobody_elses(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, one={"secrets": ["TOKEN", "KEY", "GH_TOKEN"]}, two={"secrets": ["OTHER"]}, none={}
    )
    text = "export TOKEN='-----BEGIN-----\nabc\n'\nKEY=pa$$w${HOME}rd\nOTHER=\"a b\" # why\nUNASKED=u\n"
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    (tmp_path / ".env").chmod(0o600)
    environ = {"PATH": "/bin", "OTHER": "from outside", "GITHUB_TOKEN": "g", "GH_TOKEN": "h", "KEY": ""}
    values = read_values(settings, environ, ["one", "two", "none"])
    found = {
        lane: {key: value for key, value in launched(settings, lane, values)[1].items() if "SPYRE" not in key}
        for lane in ("one", "two", "none")
    }
    rest = {"PATH": "/bin", "UNASKED": "u"}
    assert found == {
        "one": {**rest, "TOKEN": "-----BEGIN-----\nabc\n", "KEY": "pa$$w${HOME}rd", "GH_TOKEN": "h"},
        "two": {**rest, "OTHER": "from outside"},
        "none": rest,
    }


def test_every_missing_name_is_told_at_once_with_its_lanes(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, one={"secrets": ["TOKEN", "KEY"]}, two={"secrets": ["KEY"]}, off={"secrets": ["X"]}
    )
    (tmp_path / ".env").mkdir()  # of a virtual environment, and no file of secrets
    with pytest.raises(SettingsError) as caught:
        read_values(settings, {"OTHER": "hush"}, ["one", "two"])
    assert caught.value.what == "there is no value for KEY (lane one, two); TOKEN (lane one)"
    assert "one NAME=value per line" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("line", [b'TOKEN="hush', b"TOKEN='hush' hush", b"TOKEN=hush\xff", b"TOKEN=hush\0"])
def test_a_line_that_holds_no_secret_is_named_and_not_shown(tmp_path: Path, line: bytes) -> None:
    settings = settings_of(tmp_path, one={"secrets": ["TOKEN"]})
    (tmp_path / ".env").write_bytes(b"# why\n" + line + b"\n")
    (tmp_path / ".env").chmod(0o600)
    with pytest.raises(SettingsError, match="cannot be read as NAME=value") as caught:
        read_values(settings, {}, ["one"])
    assert (caught.value.where, "hush" in str(caught.value)) == (f"{tmp_path / '.env'}:2", False)


@pytest.mark.parametrize(("mode", "refused"), [(0o600, False), (0o640, False), (0o644, True), (0o660, True)])
def test_a_file_of_secrets_that_others_may_read_or_change_is_refused(
    tmp_path: Path, mode: int, *, refused: bool
) -> None:
    settings = settings_of(tmp_path, one={"secrets": ["TOKEN"]})
    (tmp_path / ".env").write_text("TOKEN=hush\n", encoding="utf-8")
    (tmp_path / ".env").chmod(mode)
    if not refused:
        assert read_values(settings, {}, ["one"])["TOKEN"] == "hush"
        return
    with pytest.raises(SettingsError, match=f"its mode is {mode:04o}") as caught:
        read_values(settings, {}, ["one"])
    assert caught.value.remedy == f"chmod 600 {tmp_path / '.env'}"
    assert "hush" not in str(caught.value)
