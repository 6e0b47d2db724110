"""Every fault of a machine, planted for real: sockets, leases, disks and torches that are broken."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci.doctor import cards, engine, looks, pytorch
from ci.doctor.disk import look_disk
from ci.doctor.finding import Level
from ci.runner.leases import Leases
from tests.integration.conftest import need

from .conftest import ROOT, TIMEOUT_S, MakeWorld, Site, faults, usual

HOLD = """
import sys, time
from pathlib import Path
from ci.runner.leases import Leases
leases = Leases(Path(sys.argv[1]), run="nightly", clock=time.time)
assert leases.take("emulated:0")
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket that takes whoever comes, and never says a word."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)
        yield server


def wait_until_gone(server: socket.socket, meanwhile: Callable[[], object] = int) -> None:
    """Wait until whoever asks is there, and then until its end of the line is closed: the process is gone."""
    server.settimeout(60)
    asked, _ = server.accept()
    with asked:
        meanwhile()
        asked.settimeout(60)
        while asked.recv(4096):
            pass


# --- engine


@pytest.mark.nightly
def test_an_engine_that_hangs_costs_its_own_line_and_its_process(
    world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LIMIT_S", 3.0)
    with listening(tmp_path / "s") as server:
        found = engine.look_engine(world({"DOCKER_HOST": f"unix://{tmp_path}/s"}))
        assert faults(found) == [f"unix://{tmp_path}/s does not answer: took longer than its time"]
        wait_until_gone(server)


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    with listening(tmp_path / "s") as server:
        environ = {**usual(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/s"}
        process = subprocess.Popen(
            [sys.executable, "-m", "ci.cli", "doctor", "--only", "engine"],
            cwd=tmp_path,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until_gone(server, lambda: process.send_signal(signal.SIGINT))
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err.splitlines()[-1]) == (130, "spyre-ci: interrupted")


# --- cards


def test_a_card_of_another_process_is_told_with_a_remedy_that_frees_it(
    world: MakeWorld, tmp_path: Path
) -> None:
    folder = tmp_path / "leases"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        _, held = cards.look_cards(world(), opening=False)
        assert held.said.startswith(f"emulated:0 is held by run nightly (process {holder.pid} of ")
        assert f" on {socket.gethostname()}) since " in held.said
        command = held.remedy.rpartition(": ")[2]
        assert shlex.split(command) == ["kill", str(holder.pid)]
        os.kill(int(shlex.split(command)[1]), signal.SIGTERM)
        holder.wait(30)
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    assert cards.look_cards(world())[0].said == "2 emulated cards, 2 free"


def test_a_card_whose_supervisor_ended_is_held_by_what_that_started(world: MakeWorld, tmp_path: Path) -> None:
    """The lock outlives who took it where a worker has the descriptor, too."""
    folder = tmp_path / "leases"
    code = HOLD.replace(
        'print("held", flush=True)\ntime.sleep(600)',
        'import subprocess\nd = leases.descriptor("emulated:0")\n'
        "quiet = subprocess.DEVNULL\n"
        'subprocess.Popen(["cat"], stdin=0, stdout=quiet, stderr=quiet, pass_fds=[d])\n'
        'print("held", flush=True)\n',
    )
    given, ours = os.pipe()
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=given,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        )
        assert ended.stdout == "held\n"
        _, held = cards.look_cards(world())
        assert "that process has ended, and what it started goes on" in held.said
        assert held.remedy == f"find it: fuser -v {folder}/emulated:0.lease"
    finally:
        os.close(ours)
        os.close(given)


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_a_free_card_is_opened_under_its_lease(world: MakeWorld, tmp_path: Path) -> None:
    held = Leases(tmp_path / "leases", run="other", clock=time.time)
    assert held.take("emulated:1")
    found = cards.look_cards(world(), opening=True)
    assert found[0].said == "2 emulated cards, 1 free, 1 held, 1 opened and well", found
    assert held.take("emulated:0"), "it was let go"


@pytest.mark.nightly
@pytest.mark.usefixtures("torch_installed")
def test_a_card_that_fails_is_told(world: MakeWorld) -> None:
    one = world({"SPYRE_CI_CARD_FAULTS": "emulated:0=fail"}, run__cards=1)
    object.__setattr__(one, "cores", 1)
    first, second = cards.look_cards(one, opening=True)
    assert (first.level, second.level) == (Level.FAULT, Level.FAULT)
    assert second.said.startswith("emulated:0 does not work: ")


def test_a_folder_of_leases_that_cannot_be_used_is_told(world: MakeWorld, tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("no folder")
    account = looks.examine(world(), ["cards", "disk"], opening=True)
    (found,) = account.found["cards"]
    assert (found.level, "leases of cards cannot be kept here" in found.said) == (Level.FAULT, True)
    assert faults(account.found["disk"])[0].startswith("leases of cards: ")


# --- torch


def fake_torch(folder: Path, code: str) -> dict[str, str]:
    (folder / "path" / "torch").mkdir(parents=True)
    (folder / "path" / "torch" / "__init__.py").write_text(code)
    return {"PYTHONPATH": f"{folder / 'path'}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize(
    ("code", "level", "words"),
    [
        ("__version__ = '1.0+cpu'\nclass version:\n    cuda = None\n", Level.FAULT, "1.0+cpu, CPU"),
        (
            "raise ImportError('libomp.so: cannot open')\n",
            Level.FAULT,
            "cannot be imported: ImportError: libomp.so",
        ),
        ("import os\nos.abort()\n", Level.FAULT, "cannot be imported: ended with code -6"),
        ("import time\ntime.sleep(600)\n", Level.WARNING, "did not end within 1 s"),
    ],
)
def test_a_torch_that_is_wrong_is_told(  # noqa: PLR0917  # a row of the table
    world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, level: Level, words: str
) -> None:
    if "sleep" in code:
        monkeypatch.setattr(pytorch, "LIMIT_S", 1.0)
    found = pytorch.look_torch(world(fake_torch(tmp_path, code)))[0]
    assert found.level is level, found
    assert words in found.said


def test_an_import_that_nobody_waits_for_any_more_ends_by_itself(
    world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who kills the doctor kills not what it waits for."""
    monkeypatch.setattr(pytorch, "ALONE_S", 1)
    found = pytorch.look_torch(world(fake_torch(tmp_path, "import time\ntime.sleep(600)\n")))[0]
    assert f"ended with code -{signal.SIGALRM:d}" in found.said


@pytest.mark.usefixtures("torch_installed")
def test_a_file_of_that_name_in_this_folder_is_not_torch(
    world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    (found,) = pytorch.look_torch(world())
    assert "site-packages/torch/__init__.py" in found.said
    assert not (tmp_path / "imported").exists()


# --- disks


def test_a_place_that_refuses_to_be_written_is_told(world: MakeWorld) -> None:
    """Not even root makes files there."""
    need(Path("/proc/sys").is_dir(), "/proc")
    (said,) = faults(look_disk(world(runs="/proc/sys/runs")))
    assert said.startswith("runs: /proc/sys cannot be written: ")


def test_disks_that_are_full_and_read_only_are_told(tmp_path: Path) -> None:
    """On file systems of their own, in a namespace of its own where these may be made."""
    mounts = []
    for name, options in (("runs", "size=16k"), ("state", "ro")):
        (tmp_path / name).mkdir()
        mounts.append(f"mount -t tmpfs -o {options} none {shlex.quote(str(tmp_path / name))}")
    wrap, mounting = ["unshare", "-rm", "sh", "-c"], " && ".join(mounts)
    if (
        shutil.which("unshare") is None
        or subprocess.run([*wrap, mounting], check=False, timeout=60).returncode
    ):
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
    assert "remedy: see whose it is" in ended.stdout
    assert "2 faults" in ended.stdout


# --- all at once


def test_whatever_hangs_all_ends_and_each_is_told(tmp_path: Path, world: MakeWorld, site: Site) -> None:
    """One look never ends by itself; the others say what they have, and its thread holds no exit."""
    site.hangs = True
    one = world({"PIP_INDEX_URL": f"{site.url}/simple"}, report__endpoint=site.url)
    account = looks.examine(one, ["hud", "index", "disk"], total_s=1.0)
    assert [account.found[name][0].said for name in ("index", "hud")] == ["said nothing within 1 s"] * 2
    assert account.found["disk"][0].level is not Level.FAULT
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("look-"))
    assert tmp_path.is_dir()
