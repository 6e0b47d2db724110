"""An image that a real engine starts: each thing that can be wrong with it is named in one clear line."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci.core.container_shell import Caller, find_client, shell_command
from tests.engine import build_image

from .conftest import ROOT, TORCH, World, wheel

WEB = 'python -m http.server --bind 0.0.0.0 --directory "$HOME" "$PORT"'
ROLES = f"""roles:
  test: {{command: 'bash -c "exit $1" role', check: ["0"]}}
  notebook: {{command: '{WEB}'}}
  serve: {{command: 'python -m http.server --bind 0.0.0.0 --directory "$MODEL" "$PORT"'}}
"""
CHECKS = ["labels", "user", "torch", "setuid", "role test", "role notebook", "role serve", "size"]


def checks(err: str) -> list[str]:
    lines = [line for line in err.splitlines() if line.startswith(("ok ", "FAIL "))]
    return [line[5:].partition(":")[0] for line in lines]


@pytest.mark.gate
def test_an_image_passes_every_check_before_it_is_pushed(world: World, tmp_path: Path) -> None:
    world.edit("components:", f"{ROLES}components:")
    sbom = tmp_path / "sbom.json"
    result = world.image("build", "--push", "--tag", "pr-1", "--sbom", str(sbom), "--json")
    first = result.json
    assert checks(result.err) == CHECKS
    assert "role notebook: port 8888 answers 200" in result.err
    assert "role serve: port 8080 answers 200" in result.err
    assert "torch: 2.13.0 at ffff" in result.err
    assert re.search(r"nothing to compare with: there is no \S+:pr-1 yet", result.err)
    assert result.err.index("FAIL" if "FAIL" in result.err else "ok ") < result.err.index("pushed")

    text = sbom.read_text()
    parts = {one["name"]: one for one in json.loads(text)["components"]}
    assert parts["dpkg"]["purl"].startswith("pkg:deb/debian/dpkg@")
    assert world.index not in text
    checked = world.image("test", f"{world.name}:pr-1", code=0)
    assert checks(checked.err) == CHECKS[:-1]
    assert first["digest"] == world.digest("pr-1")


@pytest.mark.nightly
def test_all_that_failed_is_named_and_nothing_is_pushed(world: World) -> None:
    # A package that is installed after PyTorch is another one.
    wheel(world.folder / "packages", "torch", "2.12.0", TORCH.replace("2.13.0", "2.12.0"))
    world.edit("components:", "roles: {test: {command: python -c 'raise SystemExit(9)'}}\ncomponents:")
    shown = world.shown()
    result = world.image("build", "--push", "--tag", "latest", code=1)
    assert "2 of 6 checks failed" in result.output
    assert f"torch: 2.12.0 at {'f' * 40}, not 2.13.0" in result.output
    assert "role test: ended with code 9" in result.output
    assert [world.digest(tag) for tag in (shown["tag"], "latest")] == [None, None]


SITE = "/opt/spyre/venv/lib/python3*/site-packages/torch/__init__.py"
ROLE_FILE = "USER 0:0\nRUN echo '{}' > /opt/spyre/roles/{}\nUSER 10001:0"
WRONG = {
    "root": ("USER 0:0", "user: USER is 0:0"),
    "name": ("USER spyre", "user: USER is spyre"),
    "writes": (
        'ENTRYPOINT ["/bin/bash", "-ec", "touch /opt/spyre/home/a; exec /opt/spyre/entry \\"$@\\"", "x"]',
        "torch: import torch ended with code 1, last output: touch: .*Read-only file system",
    ),
    "torch": (f"USER 0:0\nRUN sed -i s/2.13.0/2.12.9/ {SITE}\nUSER 10001:0", "torch: 2.12.9 .*, not 2.13.0"),
    "commit": (f"LABEL io.github.torch-spyre.pytorch.commit={'a' * 40}", "torch: .*, not a{40}"),
    "setuid": ("USER 0:0\nRUN install -m 4755 /bin/true /opt/power\nUSER 10001:0", "setuid: /opt/power"),
    "silent": (ROLE_FILE.format("exec sleep 600", "notebook"), "port 8888 answers nothing after 4 s"),
    "dies": (
        ROLE_FILE.format("echo no card; exit 5", "serve"),
        "ended with code 5 before port 8080 answered, last output: no card",
    ),
    "fails": (ROLE_FILE.format("echo 1 failed; exit 1", "test"), "ended with code 1, last output: 1 failed"),
}


@pytest.mark.nightly
def test_what_is_wrong_is_named_in_a_line(world: World) -> None:
    world.edit("components:", f"{ROLES}components:")
    good = world.made("build")["image"]
    name = f"{world.registry}/derived-{world.run}:1"
    for lines, seen in WRONG.values():
        build_image(world.client, name, f"FROM {good}\n{lines}\n")
        result = world.image("test", name, code=1, SPYRE_CI__IMAGE__ROLE_TIMEOUT_S="4")
        failed = [line for line in result.err.splitlines() if line.startswith("FAIL")]
        assert re.search(seen, "\n".join(failed)), (seen, failed)


@pytest.mark.nightly
def test_what_a_role_cannot_do_is_said(world: World) -> None:
    world.edit("components:", f"{ROLES}components:")
    image = world.made("build")["image"]

    def said(*words: str, **environ: str) -> tuple[int, str]:
        made_ = world.client.containers.run(
            image, list(words), environment=environ, detach=True, network_mode="none", read_only=True
        )
        try:
            return int(made_.wait(timeout=60)["StatusCode"]), made_.logs().decode().strip()
        finally:
            made_.remove(force=True)

    no_model = "spyre: there is no model at {}: mount one there, or set MODEL to where it is"
    assert said("serve") == (2, no_model.format("/model"))
    assert said("serve", MODEL="/nowhere") == (2, no_model.format("/nowhere"))
    no_port = "spyre: PORT=tcp://10.0.0.1 is no port: give a number, or nothing for 8888"
    assert said("notebook", PORT="tcp://10.0.0.1") == (2, no_port)
    assert said("run") == (2, "spyre: run wants a command")
    assert said("test", "7") == (7, "")
    assert said("nothing")[0] == 127
    # Alone, it says which PyTorch it has.
    assert said() == (0, "2.13.0 " + "f" * 40)


@pytest.mark.nightly
def test_an_image_of_others_is_told_all_it_lacks(world: World) -> None:
    result = world.image("test", os.environ["TEST_BASE_IMAGE"], code=1)
    assert "io.github.torch-spyre.pytorch is missing" in result.output
    assert "user: USER is not set" in result.output
    assert 'exec: "run": executable file not found' in result.output
    missing = world.image("test", f"{world.registry}/nothing:1", code=2)
    assert "there is no image" in missing.output


@pytest.mark.nightly
def test_an_image_that_grew_is_refused_with_the_layers_that_did(world: World) -> None:
    first = world.made("build", "--push", "--tag", "latest")
    world.commit({"flex.txt": "x" * 60_000_000})
    result = world.image("build", "--push", code=1)
    assert re.search(r"1 of 5 checks failed size: [0-9.]+ MiB, \+2\d\.\d % compared with", result.output)
    assert "at most 10 % allowed" in result.output
    assert world.digest("latest") == first["digest"]
    world.image("build", "--push", SPYRE_CI__IMAGE__MAX_GROWTH_PERCENT="50", code=0)


@pytest.mark.nightly
@pytest.mark.parametrize("nox", [False, True])
def test_a_shell_has_the_checkout_and_keeps_the_code(world: World, *, nox: bool) -> None:
    image = world.made("build")["image"]
    verb = ["ci.cli", "image"]
    if nox:
        verb = ["nox", "--no-venv", "-f", str(ROOT / "noxfile.py"), "-s", "image", "--"]
    done = subprocess.run(
        [sys.executable, "-m", *verb, "shell", image, "--network", "none"],
        cwd=ROOT if nox else world.folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
        input="python -c 'import torch; print(torch.__version__)'; pwd; exit 4\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.split()) == (4, ["2.13.0", "/workspace"]), done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_shell_writes_is_the_callers(world: World, tmp_path: Path, *, terminal: bool) -> None:
    image = world.made("build")["image"]
    checkout = tmp_path / "a,b"
    checkout.mkdir(mode=0o777)
    checkout.chmod(0o777)
    caller = Caller(user=1234, group=1235, checkout=checkout, terminal=terminal)
    client = find_client(os.environ, shutil.which)
    words = shell_command(client, image, caller, network="none")
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdin=theirs if terminal else subprocess.PIPE, stdout=theirs) as process:
        script = b"[ -t 0 ] && echo yes > terminal; echo $USER > name; touch $HOME/a; exit 6\n"
        os.write(ours if terminal else process.stdin.fileno(), script)  # type: ignore[union-attr]  # a pipe
        if process.stdin:
            process.stdin.close()
        assert process.wait(timeout=60) == 6
    os.close(ours)
    os.close(theirs)
    assert (checkout / "name").read_text() == "spyre\n"
    assert ((checkout / "name").stat().st_uid, (checkout / "name").stat().st_gid) == (1234, 1235)
    assert (checkout / "terminal").exists() == terminal
