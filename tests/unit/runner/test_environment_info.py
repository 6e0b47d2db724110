"""What is told of where tests run: back end with version and commit, torch, image, variables."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

from ci.core.errors import EXIT_USAGE, BackEndError
from ci.record.identity import EMULATED
from ci.runner.environment_info import back_end, head, ran_in_here, refuse_silent_emulation, unallowed_ci
from ci.runner.inventory import CARDS_VARIABLE, EMULATE, EMULATED_VARIABLE, Card

SHA = "0123456789abcdef0123456789abcdef01234567"


class Installed(importlib.metadata.Distribution):
    """A package that was installed in some way."""

    def __init__(self, direct_url: str | None) -> None:
        self.direct_url = direct_url

    def read_text(self, filename: str) -> str | None:
        return {
            "METADATA": "Name: torch_spyre\nVersion: 1.2\n",
            "direct_url.json": self.direct_url,
        }.get(filename)

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def checkout(path: Path, head: str, **files: str) -> Path:
    (path / ".git" / "refs" / "heads").mkdir(parents=True)
    (path / ".git" / "HEAD").write_text(head)
    for name, content in files.items():
        (path / ".git" / name.replace("__", "/").replace("_", "-")).write_text(content)
    return path


def there(name: str) -> object:
    return name


@pytest.mark.parametrize(
    ("direct_url", "said"),
    [
        (None, "torch_spyre 1.2"),
        (
            json.dumps({"url": "git+https://x", "vcs_info": {"commit_id": SHA}}),
            f"torch_spyre 1.2 at {SHA:.12}",
        ),
        ('{"url": "https://x/a.whl", "archive_info": {}}', "torch_spyre 1.2"),
        ('{"url": "file:///nowhere", "dir_info": {"editable": true}}', "torch_spyre 1.2"),
        ("[", "torch_spyre 1.2"),
        ("[]", "torch_spyre 1.2"),
        ('{"vcs_info": 3}', "torch_spyre 1.2"),
    ],
)
def test_a_package_is_told_by_version_and_commit(direct_url: str | None, said: str) -> None:
    assert back_end({}, lambda _: Installed(direct_url), there) == said


def test_a_package_that_is_developed_here_is_told_by_the_commit_of_its_checkout(tmp_path: Path) -> None:
    url = checkout(tmp_path / "a b", SHA).as_uri()
    row = json.dumps({"url": url, "dir_info": {"editable": True}})
    assert back_end({}, lambda _: Installed(row), there) == f"torch_spyre 1.2 at {SHA:.12}"


def test_without_the_package_the_device_is_emulated() -> None:
    def find(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    assert back_end({}, find, lambda _: None) == EMULATED
    assert back_end({}, find, there) == "torch_spyre"


def test_notes_of_a_package_that_is_gone_are_no_back_end() -> None:
    assert back_end({}, lambda _: Installed(None), lambda _: None) == EMULATED


def test_the_emulated_device_may_be_asked_for_beside_the_package() -> None:
    assert back_end({EMULATE: "1"}, lambda _: Installed(None), there) == EMULATED


REAL = [Card(name="0000:1a:00.0", environment={CARDS_VARIABLE: "0"})]
NONE = [Card(name="emulated:0", environment={EMULATED_VARIABLE: "emulated:0"})]


def test_beside_real_cards_the_emulated_device_is_never_tested_unasked() -> None:
    with pytest.raises(BackEndError, match=r"would be tested in place of 0000:1a:00\.0") as refused:
        refuse_silent_emulation(REAL, {}, device="spyre", found=EMULATED)
    assert refused.value.exit_code == EXIT_USAGE
    assert refused.value.where == sys.prefix
    assert "pipeline.environment" in str(refused.value.remedy)
    assert f"{EMULATE}=1" in str(refused.value.remedy)


def test_a_job_for_cards_refuses_to_emulate_where_it_sees_none() -> None:
    with pytest.raises(BackEndError, match=f"{EMULATE}=0 rules the emulated device out"):
        refuse_silent_emulation(NONE, {EMULATE: "0"}, device="spyre", found=EMULATED)


def test_in_a_ci_no_emulated_device_is_tested_that_the_settings_do_not_allow() -> None:
    github = {"GITHUB_ACTIONS": "true"}
    assert (unallowed_ci({}, allowed=False), unallowed_ci(github, allowed=True)) == ("", "")
    assert [unallowed_ci({"CI": said}, allowed=False) for said in ("true", "1", "false", "")] == [
        "a CI (CI=true)", "a CI (CI=1)", "", "",
    ]  # fmt: skip
    in_ci = unallowed_ci(github, allowed=False)
    with pytest.raises(BackEndError, match="would be tested in github") as refused:
        refuse_silent_emulation(NONE, github, device="spyre", found=EMULATED, in_ci=in_ci)
    assert refused.value.exit_code == EXIT_USAGE
    assert (refused.value.where, "device.emulated: allow" in str(refused.value.remedy)) == (sys.prefix, True)
    for asked, found in (({EMULATE: "1"}, EMULATED), ({}, "torch_spyre 1.2")):
        refuse_silent_emulation(NONE, asked, device="spyre", found=found, in_ci=in_ci)


@pytest.mark.parametrize(
    ("cards", "environ", "device", "found"),
    [
        (NONE, {}, "spyre", EMULATED),  # a laptop
        (NONE, {EMULATE: "1"}, "spyre", EMULATED),
        (REAL, {EMULATE: "1"}, "spyre", EMULATED),
        (REAL, {}, "spyre", "torch_spyre 1.2"),
        (REAL, {EMULATE: "0"}, "spyre", "torch_spyre 1.2"),
        (NONE, {EMULATE: "0"}, "cpu", EMULATED),
        (REAL, {}, "other", EMULATED),
    ],
)
def test_whatever_was_asked_for_or_is_installed_may_run(
    cards: list[Card], environ: dict[str, str], device: str, found: str
) -> None:
    refuse_silent_emulation(cards, environ, device=device, found=found)


def test_the_head_of_a_checkout_is_found_however_git_keeps_it(tmp_path: Path) -> None:
    branch = "ref: refs/heads/main\n"
    assert head(checkout(tmp_path / "detached", f"{SHA}\n")) == SHA
    assert head(checkout(tmp_path / "loose", branch, refs__heads__main=f"{SHA}\n")) == SHA
    packed = checkout(tmp_path / "packed", branch, packed_refs=f"# pack-refs\n{SHA} refs/heads/main\n")
    assert head(packed) == SHA
    inner = packed / ".git" / "worktrees" / "w"
    inner.mkdir(parents=True)
    (inner / "HEAD").write_text(branch)
    (inner / "commondir").write_text("../..\n")
    worktree = tmp_path / "worktree"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {inner}\n")
    assert head(worktree) == SHA
    assert head(checkout(tmp_path / "empty", branch)) == ""
    assert head(checkout(tmp_path / "strange", "\x00hello")) == ""
    (tmp_path / "secret").write_text("hidden")
    assert head(checkout(tmp_path / "outside", "ref: ../../secret")) == ""
    assert head(tmp_path / "none") == ""


IMAGE = f"registry.example/spyre@sha256:{'1' * 64}"


def test_back_end_torch_and_image_are_those_of_this_process() -> None:
    told = ran_in_here({EMULATE: "1", "SPYRE_CI_IMAGE": IMAGE}, "spyre")
    assert (told["back_end"], told["image"]) == ("the emulated device", IMAGE)
    assert told["torch"]


def test_of_another_device_its_name_is_all_there_is_to_say() -> None:
    assert ran_in_here({}, "cpu")["back_end"] == "cpu"
    assert ran_in_here({"SPYRE_CI_IMAGE": "x:latest"}, "cpu")["image"] == ""
