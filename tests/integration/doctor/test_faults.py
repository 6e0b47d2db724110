"""Faults of a machine, planted for real: sockets, leases, torches, indexes, endpoints and disks."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ci.doctor import environment, services
from ci.doctor import machine as machines
from ci.doctor.cards import check_cards
from ci.doctor.disk import check_disk
from ci.doctor.environment import check_index, check_nox, check_torch
from ci.doctor.run import run_checks
from ci.runner.compatibility import torch_pin
from ci.runner.leases import Leases
from tests.integration.conftest import need

from .conftest import ROOT, TIMEOUT_S, MakeMachine, Site, serving, usual

PIN = torch_pin()


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    """The engine's socket takes whoever comes, and never says a word."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen(8)
        process = subprocess.Popen(
            [sys.executable, "-m", "ci.cli", "doctor", "--only", "engine"],
            cwd=tmp_path,
            env={**usual(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/s"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        server.settimeout(60)
        asked, _ = server.accept()
        with asked:
            process.send_signal(signal.SIGINT)
            asked.settimeout(60)
            while asked.recv(4096):  # until its end of the line is closed: the process is gone
                pass
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err.splitlines()[-1]) == (130, "spyre-ci: interrupted")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        # Whoever kills the doctor does not kill what it waits for.
        ("#!/bin/sh\nexec sleep 600\n", "it prints no version"),
        ("#!/nowhere\n", "it cannot be started: No such file or directory"),
    ],
)
def test_a_nox_that_hangs_or_cannot_be_started_ends_by_itself(
    machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(machines, "ALONE_S", 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noxfile.py").touch()
    (tmp_path / "nox").write_text(script)
    (tmp_path / "nox").chmod(0o755)
    (found,) = check_nox(machine({"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}))
    assert found.message == f"{tmp_path}/nox cannot be used: {why}"


# Cards


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_a_free_card_is_opened_under_its_lease_and_one_that_fails_is_told(
    machine: MakeMachine, tmp_path: Path
) -> None:
    held = Leases(tmp_path / "leases", run="other", clock=time.time)
    assert held.take("emulated:1")
    first, _ = check_cards(machine(open_cards=True))
    assert first.message == "2 emulated cards: 1 free, of which 1 opened and computed correctly, 1 in use"
    assert held.take("emulated:0"), "it was let go"
    held.release("emulated:0")
    first, second, _ = check_cards(machine({"SPYRE_CI_CARD_FAULTS": "emulated:0=fail"}, open_cards=True))
    assert first.message == "2 emulated cards: 0 free, 1 failing, 1 in use; a run waits until one is free"
    assert second.message.startswith("emulated:0 does not work: ")


def test_a_folder_of_leases_that_cannot_be_used_is_told(machine: MakeMachine, tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("no folder")
    found = run_checks(machine(open_cards=True), ["cards", "disk"])
    messages = [one.message for one in found if str(one.level) == "fault"]
    assert "leases of cards cannot be kept here" in messages[0]
    assert messages[1].startswith("leases of cards: ")


# torch


def fake_torch(folder: Path, code: str) -> dict[str, str]:
    (folder / "path" / "torch").mkdir(parents=True)
    (folder / "path" / "torch" / "__init__.py").write_text(code)
    return {"PYTHONPATH": f"{folder / 'path'}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize(
    ("code", "level", "words"),
    [
        ("__version__ = '1.0+cpu'\nclass version:\n    cuda = None\n", "fault", "1.0+cpu, CPU, "),
        ("__version__ = '1.0'\nclass version:\n    cuda = '13.0'\n", "fault", "1.0, CUDA 13.0, "),
        ("raise ImportError('libomp.so: no')\n", "fault", "cannot be imported: ImportError: libomp.so: no"),
        ("import os\nos.abort()\n", "fault", "cannot be imported: exited with code -6"),
        ("import time\ntime.sleep(600)\n", "warning", "did not end within 1 s"),
        ("import time\ntime.sleep(600)  # alone\n", "fault", f"exited with code -{signal.SIGALRM:d}"),
    ],
)
def test_a_torch_that_is_wrong_is_told(  # noqa: PLR0917  # a row of the table
    machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, level: str, words: str
) -> None:
    if "alone" in code:  # whoever kills the doctor does not kill what it waits for
        monkeypatch.setattr(machines, "ALONE_S", 1)
    elif "sleep" in code:
        monkeypatch.setattr(environment, "TORCH_S", 1.0)
    found = next(iter(check_torch(machine(fake_torch(tmp_path, code)))))
    assert (str(found.level), words in found.message) == (level, True), found


@pytest.mark.usefixtures("torch_installed")
def test_a_file_of_that_name_in_this_folder_is_not_torch(
    machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    (found,) = check_torch(machine())
    assert "site-packages/torch/__init__.py" in found.message
    assert not (tmp_path / "imported").exists()


# Indexes and endpoints


def wheel(version: str = PIN, tag: str = "py3-none-any") -> str:
    return f"<!doctype html><a href='torch-{version}-{tag}.whl'>torch-{version}-{tag}.whl</a>"


LOGIN = "Basic bWU6cmlnaHQ="
OTHER = f"pip finds no torch {PIN} for this Python and machine, but 1.0"


@pytest.mark.parametrize(
    ("page", "login", "given", "level", "words"),
    [
        ((200, wheel("1.0") + wheel()), "", "", "ok", f"torch {PIN} is available from http://127.0.0.1:"),
        ((200, wheel()), LOGIN, "me:right@", "ok", f"torch {PIN} is available"),
        ((200, wheel()), LOGIN, "me:hunter2@", "fault", "401 Client Error"),
        ((200, wheel("1.0")), "", "", "fault", OTHER),
        ((200, wheel("1.0") + wheel(tag="cp27-cp27m-win32")), "", "", "fault", OTHER),
        ((404, ""), "", "", "fault", "pip finds no torch: No matching distribution found for torch"),
        ((503, ""), "", "", "fault", "503 error responses"),
    ],
)
def test_what_is_wrong_with_an_index_is_told(  # noqa: PLR0917  # a row of the table
    machine: MakeMachine, site: Site, page: tuple[int, str], login: str, given: str, level: str, words: str
) -> None:
    site.pages["/simple/torch/"], site.login = page, login
    (found,) = check_index(machine({"PIP_INDEX_URL": site.url.replace("://", f"://{given}") + "/simple"}))
    assert (str(found.level), words in found.message) == (level, True), found
    assert "hunter2" not in f"{found.message}{found.remedy}"


@pytest.mark.nightly
def test_an_index_that_is_away_or_hangs_is_told_and_another_is_enough(
    machine: MakeMachine, site: Site
) -> None:
    with socket.socket() as taken, serving() as slow:
        taken.bind(("127.0.0.1", 0))
        away, slow.hangs = f"http://127.0.0.1:{taken.getsockname()[1]}/simple", True
        site.pages["/simple/torch/"] = (200, wheel())
        environ = {"PIP_INDEX_URL": f"{slow.url}/simple", "PIP_EXTRA_INDEX_URL": f"{away} {site.url}/simple"}
        first, *others = check_index(machine(environ))
        assert str(first.level) == "ok"
        assert [str(one.level) for one in others] == ["warning", "warning"]
        assert {one.message.split()[3].removesuffix("/torch/:") for one in others} == {
            environ["PIP_INDEX_URL"],
            away,
        }
        (found,) = check_index(machine({"PIP_INDEX_URL": away}))
        assert (str(found.level), away in found.message) == ("fault", True)


def test_an_endpoint_is_asked_without_a_token_and_its_clock_compared(
    machine: MakeMachine, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("default login me password hunter2\n")
    (tmp_path / ".netrc").chmod(0o600)
    site.skew_s, site.pages["/github/callback"] = 3600, (405, "")
    environ = {"SPYRE_CI_HUD_TOKEN": "s3cret-t0ken", "SPYRE_CI__REPORT__ENDPOINT": site.url}
    one, two = run_checks(machine(environ), ["hud", "clock"])
    assert (str(one.level), str(two.level)) == ("ok", "fault")
    assert "behind the endpoint's" in two.message
    assert not any("authorization" in asked for asked in site.asked)
    site.pages["/github/callback"] = (302, "")
    (found,) = services.check_hud(machine(environ))
    assert "a redirect" in found.message
    assert len(site.asked) == 3
    monkeypatch.setattr(services, "HUD_S", 0.5)
    site.hangs = True
    (found,) = services.check_hud(machine(environ))
    assert "does not answer within 0.5 s" in found.message


# Disks, and all at once


def test_disks_that_are_full_and_read_only_are_told(machine: MakeMachine, tmp_path: Path) -> None:
    """On file systems of their own, in a namespace of its own where these may be made."""
    need(Path("/proc/sys").is_dir(), "/proc")  # where not even root makes files
    assert next(iter(check_disk(machine(runs="/proc/sys/runs")))).message.startswith("runs: /proc/sys cannot")
    mounts = []
    for name, options in (("runs", "size=16k"), ("state", "ro")):
        (tmp_path / name).mkdir()
        mounts.append(f"mount -t tmpfs -o {options} none {shlex.quote(str(tmp_path / name))}")
    wrap, mounting = ["unshare", "-rm", "sh", "-c"], " && ".join(mounts)
    if not shutil.which("unshare") or subprocess.run([*wrap, mounting], check=False, timeout=60).returncode:
        pytest.xfail("no file system may be mounted here")
    call = shlex.join([sys.executable, "-m", "ci.cli", "doctor", "--only", "disk"])
    ended = subprocess.run(
        [*wrap, f"{mounting} && {call}"],
        cwd=tmp_path,
        env={**usual(tmp_path), "SPYRE_CI__STATE": "state"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 2
    assert f"runs: {tmp_path}/runs cannot be written: No space left on device" in ended.stdout
    assert f"state: {tmp_path}/state cannot be written: Read-only file system" in ended.stdout
    assert "2 faults" in ended.stdout


def test_whatever_hangs_all_ends_and_each_is_told(machine: MakeMachine, site: Site) -> None:
    site.hangs = True
    one = machine({"PIP_INDEX_URL": f"{site.url}/simple"}, report__endpoint=site.url)
    found = run_checks(one, ["hud", "index", "disk"], total_s=1.0)
    assert [one.message for one in found[:2]] == ["did not end within 1 s"] * 2
    assert found[2].check == "disk"
    assert not one.waiting, "no command is left"
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("check-"))
