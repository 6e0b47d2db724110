from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import SettingsError
from ci.lanes.secrets import Secrets
from tests.lane_settings import lane

LANES = {
    "one": lane("0 0 * * *", secrets=["TOKEN", "KEY"]),
    "two": lane("0 0 * * *", secrets=["OTHER"]),
    "none": lane("0 0 * * *"),
}


def env_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / ".env"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_a_lane_gets_its_own_secrets_and_nobody_elses(tmp_path: Path) -> None:
    path = env_file(tmp_path, "TOKEN=t\nKEY=k\nOTHER=o\nUNASKED=u\n")
    secrets = Secrets(LANES, {"PATH": "/bin", "OTHER": "from outside", "GITHUB_TOKEN": "g"}, path)
    secrets.check(LANES)
    assert secrets.environ("one") == {"PATH": "/bin", "TOKEN": "t", "KEY": "k"}
    assert secrets.environ("two") == {"PATH": "/bin", "OTHER": "from outside"}
    assert secrets.environ("none") == {"PATH": "/bin"}


def test_a_token_that_a_lane_lists_is_handed_to_it(tmp_path: Path) -> None:
    lanes = {"one": lane("0 0 * * *", secrets=["GITHUB_TOKEN"])}
    secrets = Secrets(lanes, {"GITHUB_TOKEN": "g"}, tmp_path / ".env")
    secrets.check(lanes)
    assert secrets.environ("one") == {"GITHUB_TOKEN": "g"}


def test_a_value_over_lines_and_one_with_signs_come_as_they_are(tmp_path: Path) -> None:
    text = "export TOKEN='-----BEGIN-----\nabc\n-----END-----\n'\nKEY=pa$$w${HOME}rd\nOTHER=\"a b\" # why\n"
    secrets = Secrets(LANES, {}, env_file(tmp_path, text))
    assert secrets.environ("one") == {
        "TOKEN": "-----BEGIN-----\nabc\n-----END-----\n",
        "KEY": "pa$$w${HOME}rd",
    }
    assert secrets.environ("two") == {"OTHER": "a b"}


def test_every_missing_name_is_told_at_once_with_its_lanes(tmp_path: Path) -> None:
    path = env_file(tmp_path, "TOKEN=hush-hush\nKEY=\n")
    with pytest.raises(SettingsError) as caught:
        Secrets(LANES, {"OTHER": ""}, path).check(["none", "one", "two"])
    assert caught.value.what == "there is no value of KEY (lane one); OTHER (lane two)"
    assert "in this file (`lane_worker.secrets`), NAME=value a line" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_lane_that_is_not_begun_needs_nothing(tmp_path: Path) -> None:
    Secrets(LANES, {}, tmp_path / ".env").check(["none"])
    with pytest.raises(SettingsError, match=r"or in such a file"):
        Secrets(LANES, {}, tmp_path / ".env").check(["two"])


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o666])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    path = env_file(tmp_path, "TOKEN=hush\n", mode)
    with pytest.raises(SettingsError, match="others may read or change it") as caught:
        Secrets(LANES, {}, path)
    assert caught.value.remedy == f"chmod 600 {path}"
    assert "hush" not in str(caught.value)


def test_a_virtual_environment_that_is_called_as_the_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.mkdir()
    secrets = Secrets(LANES, {"OTHER": "o"}, path, named=False)
    assert secrets.environ("two") == {"OTHER": "o"}
    with pytest.raises(SettingsError, match=r"in such a file \(`lane_worker.secrets`\)"):
        secrets.check(["one"])
    with pytest.raises(SettingsError, match="is a folder, and secrets stand in a file") as caught:
        Secrets(LANES, {}, path)
    assert caught.value.remedy == "name the file in `lane_worker.secrets`"


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640])
def test_a_file_that_a_group_may_read_is_taken(tmp_path: Path, mode: int) -> None:
    Secrets(LANES, {}, env_file(tmp_path, "TOKEN=t\n", mode))


@pytest.mark.parametrize(
    ("text", "line"),
    [("KEY=k\nTOKEN='never ends\n", 2), ('A=b\n\nTOKEN="x" y\n', 2), ("=hush\n", 1), ("K=a\0b\n", 1)],
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(tmp_path: Path, text: str, line: int) -> None:
    path = env_file(tmp_path, text)
    with pytest.raises(SettingsError, match="cannot be read as NAME=value") as caught:
        Secrets(LANES, {}, path)
    assert caught.value.where is not None
    assert caught.value.where.startswith(f"{path}:")
    assert abs(int(caught.value.where.rpartition(":")[2]) - line) <= 1
    assert "hush" not in str(caught.value)
