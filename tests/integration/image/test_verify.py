"""An image verified by a real engine: each thing that can be wrong with it is named in one clear line."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from ci.core.findings import Finding
from ci.image.registry import find_digest
from ci.image.shell import Caller, find_client, shell_command
from ci.image.verify import inventory, roles
from ci.image.verify.expected import Expected, of_labels, of_stack
from ci.image.verify.gate import Gate
from ci.image.verify.inventory import Inventory
from ci.image.verify.roles import Patience, check_role
from ci.image.verify.subject import Subject
from tests.engine import build_image

from .calling import ROOT, made, spyre_ci
from .conftest import TORCH, World, wheel
from .test_build import built, resolved

WEB = 'python -m http.server --bind "${BIND:-0.0.0.0}" --directory "$HOME" "$PORT"'
ROLES = f"""roles:
  test: {{command: 'bash -c "exit $1" role', check: ["0"]}}
  notebook: {{command: '{WEB}'}}
  serve: {{command: 'python -m http.server --bind 0.0.0.0 --directory "$MODEL" "$PORT"'}}
"""
CHECKS = [
    "labels", "size", "user", "read-only root", "arbitrary user", "torch", "exit code", "signals",
    "role shell", "role test", "role notebook", "role serve", "contents", "setuid", "writable by all",
]  # fmt: skip


def with_roles(world: World) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text() + ROLES)


def derived(world: World, image: str, lines: str) -> str:
    """An image on another."""
    name = f"{world.registry}/derived-{world.run}:1"
    build_image(world.client, name, f"FROM {image}\n{lines}\n")
    return name


def gate(world: World, timeout_s: float = 20, sbom: Path | None = None) -> Gate:
    return Gate(
        client=world.client,
        patience=Patience(timeout_s=timeout_s, clock=time.monotonic, sleep=time.sleep),
        most_percent=10,
        model=None,
        sbom=sbom,
        environ={},
        echo=lambda _: None,
    )


@pytest.mark.gate
def test_an_image_passes_every_check_before_it_is_pushed(world: World, tmp_path: Path) -> None:
    with_roles(world)
    sbom = tmp_path / "sbom.json"
    result = spyre_ci(world, "image", "build", "--push", "--tag", "pr-1", "--sbom", str(sbom), "--json")
    first = made(result)
    lines = [line for line in result.err.splitlines() if line.startswith(("ok ", "FAIL "))]
    assert [line[5:].partition(":")[0] for line in lines] == CHECKS
    assert "role notebook: port 8888 answers 200 on all addresses, and SIGTERM ends it" in result.err
    assert "role serve: port 8080 answers 200" in result.err
    assert "torch: 2.13.0 at ffff" in result.err
    assert re.search(r"nothing to compare with: there is no \S+:pr-1 yet", result.err)
    assert result.err.index("verifying") < result.err.index("pushed")

    text = sbom.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    told = json.loads(text)
    parts = {one["name"]: one for one in told["components"]}
    commit = world.git("rev-parse", "HEAD")
    assert parts["flex"]["pedigree"]["commits"] == [{"uid": commit, "url": f"file://{world.repository}"}]
    assert parts["torch"]["purl"] == "pkg:pypi/torch@2.13.0"
    assert parts["dpkg"]["purl"].startswith("pkg:deb/debian/dpkg@")
    assert parts["drivers"]["hashes"][0]["alg"] == "SHA-256"
    assert world.index not in text

    # The same again, of the image by its tag, is the same.
    again = tmp_path / "again.json"
    words = ("pr-1", "--stack", str(world.folder / "stack.yaml"), "--against", "pr-1")
    checked = spyre_ci(world, "image", "verify", *words, "--sbom", str(again), "--json")
    checks = made(checked)["checks"]
    assert [one["check"] for one in checks] == CHECKS
    assert all(one["passed"] for one in checks)
    assert "+0.0 % against" in checks[1]["seen"]
    assert json.loads(again.read_text())["components"] == told["components"]
    assert first["digest"] == find_digest(world.client, first["image"].rpartition(":")[0] + ":pr-1")


@pytest.mark.nightly
def test_all_that_failed_is_named_and_nothing_is_pushed(world: World) -> None:
    # A package that is installed after PyTorch is another one.
    wheel(world.folder / "packages", "torch", "2.12.0", TORCH.replace("2.13.0", "2.12.0"))
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text() + "roles: {test: {command: python -c 'raise SystemExit(9)'}}\n")
    shown = made(spyre_ci(world, "image", "render", "--json"))
    result = spyre_ci(world, "image", "build", "--push", "--tag", "latest")
    assert result.code == 1
    assert "2 of 15 checks failed" in result.output
    assert f"torch: 2.12.0 at {'f' * 40}, not 2.13.0" in result.output
    assert "role test: ended with code 9" in result.output
    for tag in (shown["tag"], "latest"):
        assert find_digest(world.client, f"{world.registry}/spyre/runtime-{world.run}:{tag}") is None


SITE = "/opt/spyre/venv/lib/python3*/site-packages/torch/__init__.py"


def contents(check: Callable[[Inventory], Finding]) -> Callable[[Subject, Expected], Finding]:
    def checked(subject: Subject, _: Expected) -> Finding:
        found = inventory.take(subject)
        return found if isinstance(found, Finding) else check(found)

    return checked


ALONE: dict[str, Callable[[Subject, Expected], Finding]] = {
    "user": roles.check_user,
    "read-only root": lambda subject, _: roles.check_read_only(subject),
    "torch": roles.check_torch,
    "signals": lambda subject, _: roles.check_signals(subject),
    "exit code": lambda subject, _: roles.check_exit_code(subject),
    "role shell": lambda subject, _: roles.check_shell(subject),
    "arbitrary user": lambda subject, _: roles.check_arbitrary_user(subject),
    "setuid": contents(inventory.check_powerful),
    "writable by all": contents(inventory.check_writable),
}
WRONG = {
    "root": ("USER 0:0", "user", "the image says 0:0, and runs as 0"),
    "name": ("USER spyre", "user", "the image says spyre, and runs as 10001"),
    "writes": (
        'ENTRYPOINT ["/bin/bash", "-ec", "touch /opt/spyre/home/a; exec /opt/spyre/entry \\"$@\\"", "x"]',
        "read-only root",
        "ended with code 1, last said: touch: .*Read-only file system",
    ),
    "torch": (
        f"USER 0:0\nRUN sed -i s/2.13.0/2.12.9/ {SITE}\nUSER 10001:0",
        "torch",
        "2.12.9 at f{40}, not 2.13.0",
    ),
    "commit": (
        f"LABEL io.github.torch-spyre.pytorch.commit={'a' * 40}",
        "torch",
        "2.13.0 at f{40}, not a{40}",
    ),
    "import": (
        f"USER 0:0\nRUN sed -i '$ a import nothing' {SITE}\nUSER 10001:0",
        "torch",
        "import torch ended with code 1, last said: ModuleNotFoundError: No module named 'nothing'",
    ),
    "signals": (
        'ENTRYPOINT ["/bin/bash", "-c", "trap : TERM; /opt/spyre/entry \\"$@\\" & wait; wait", "x"]',
        "signals",
        "at SIGTERM the command took too long and was ended, last said: ready",
    ),
    "code": (
        'ENTRYPOINT ["/bin/bash", "-c", "/opt/spyre/entry \\"$@\\" || exit 1", "x"]',
        "exit code",
        "42 becomes 1 and 1",
    ),
    "name of its user": (
        'ENTRYPOINT ["/bin/bash", "-ec", "whoami; exec /opt/spyre/entry \\"$@\\"", "x"]',
        "arbitrary user",
        "ended with code 1, last said: whoami: cannot find name for user ID 54321",
    ),
    "no shell": (
        'ENTRYPOINT ["env"]',
        "role shell",
        "ended with code 127, last said: env: .shell.: No such file or directory",
    ),
    "setuid": ("USER 0:0\nRUN install -m 4755 /bin/true /opt/power\nUSER 10001:0", "setuid", "/opt/power"),
    "writable": ("USER 0:0\nRUN install -m 0666 /dev/null /opt/a\nUSER 10001:0", "writable by all", "/opt/a"),
}


@pytest.mark.nightly
def test_what_is_wrong_is_named_in_a_line(world: World, tmp_path: Path) -> None:
    good, _ = built(world, resolved(world), tmp_path, [])
    labels = of_labels(world.client.images.get(good).labels)
    for lines, check, seen in WRONG.values():
        image = world.client.images.get(derived(world, good, lines))
        subject = Subject(client=world.client, image=str(image.id), attrs=image.attrs)
        found = ALONE[check](subject, labels)
        assert (found.check, found.passed, bool(found.remedy)) == (check, False, True)
        assert re.fullmatch(seen, found.seen)


ROLE_FILE = "USER 0:0\nRUN echo '{}' > /opt/spyre/roles/{}\nUSER 10001:0"
WRONG_ROLES = {
    "silent": ("notebook", "exec sleep 600", "port 8888 does not answer after 4 s"),
    "dies": (
        "serve",
        "echo no card; exit 5",
        "ended with code 5 before port 8080 answered, last said: no card",
    ),
    "alone": (
        "notebook",
        f"BIND=127.0.0.1; exec {WEB}",
        "port 8888 is listened on for this container alone",
    ),
    "deaf": (
        "serve",
        f'trap "" TERM; exec {WEB}',
        "port 8080 answers 200 on all addresses, and SIGTERM does not end it in 10 s",
    ),
    "late": ("test", "exec sleep 600", "took too long and was ended"),
    "fails": ("test", "echo 1 failed; exit 1", "ended with code 1, last said: 1 failed"),
}


@pytest.mark.nightly
def test_a_role_that_breaks_its_contract_is_named(world: World, tmp_path: Path) -> None:
    with_roles(world)
    good, _ = built(world, resolved(world), tmp_path, [])
    labels = of_labels(world.client.images.get(good).labels)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("none\n")
    patience = gate(world, timeout_s=4).patience
    for name, script, seen in WRONG_ROLES.values():
        image = world.client.images.get(derived(world, good, ROLE_FILE.format(script, name)))
        subject = Subject(client=world.client, image=str(image.id), attrs=image.attrs)
        found = check_role(subject, name, labels, patience, tmp_path / "model")
        assert (found.check, found.seen, bool(found.remedy)) == (f"role {name}", seen, True)


def said(world: World, image: str, *words: str, **environ: str) -> tuple[int, str]:
    made_ = world.client.containers.run(
        image, list(words), environment=environ, detach=True, network_mode="none", read_only=True
    )
    try:
        return int(made_.wait(timeout=60)["StatusCode"]), made_.logs().decode().strip()
    finally:
        made_.remove(force=True)


@pytest.mark.nightly
def test_what_a_role_cannot_do_is_said(world: World, tmp_path: Path) -> None:
    with_roles(world)
    image, _ = built(world, resolved(world), tmp_path, [])
    no_model = "spyre: there is no model at {}: mount one there, or set MODEL to where it is"
    assert said(world, image, "serve") == (2, no_model.format("/model"))
    assert said(world, image, "serve", MODEL="/nowhere") == (2, no_model.format("/nowhere"))
    no_port = "spyre: PORT=tcp://10.0.0.1 is no port: give a number, or nothing for 8888"
    assert said(world, image, "notebook", PORT="tcp://10.0.0.1") == (2, no_port)
    assert said(world, image, "run") == (2, "spyre: run wants a command")
    assert said(world, image, "test", "7") == (7, "")
    assert said(world, image, "nothing")[0] == 127
    # Alone, it says which PyTorch it has.
    assert said(world, image) == (0, "2.13.0 " + "f" * 40)


@pytest.mark.nightly
def test_an_image_of_others_is_told_all_it_lacks(world: World) -> None:
    image = os.environ["TEST_BASE_IMAGE"]
    result = spyre_ci(world, "image", "verify", image)
    assert result.code == 1
    assert "org.opencontainers.image.title is missing" in result.output
    assert "user: the image says nothing, ended with code 127" in result.output
    assert 'exec: "run": executable file not found' in result.output
    missing = spyre_ci(world, "image", "verify", f"{world.registry}/nothing:1")
    assert missing.code == 2
    assert "there is no image" in missing.output


@pytest.mark.nightly
def test_another_stack_than_it_was_built_from_is_seen_in_its_labels(world: World, tmp_path: Path) -> None:
    before = resolved(world)
    good, _ = built(world, before, tmp_path, [])
    commit = world.commit({"flex.txt": "two\n"})
    found = gate(world).look(good, of_stack(resolved(world)), stack=None, against=None)
    labels = next(one for one in found.findings if one.check == "labels")
    name = "io.github.torch-spyre.component.flex"
    assert labels.seen == f"{name} is {before.components[1].commit}, not {commit}"


@pytest.mark.nightly
def test_an_image_that_grew_is_refused_with_the_layers_that_did(world: World, tmp_path: Path) -> None:
    first = made(spyre_ci(world, "image", "build", "--push", "--tag", "latest", "--json"))
    world.commit({"flex.txt": "x" * 60_000_000})
    result = spyre_ci(world, "image", "build", "--push")
    assert result.code == 1
    assert re.search(
        r"1 of 15 checks failed size: [0-9.]+ MiB in \d+ layers, \+2\d\.\d % against", result.output
    )
    assert "more than 10 %: +57.2 MiB COPY dir in /" in result.output
    repository = first["image"].rpartition(":")[0]
    assert find_digest(world.client, f"{repository}:latest") == first["digest"]
    allowed = spyre_ci(world, "image", "build", "--push", SPYRE_CI__IMAGE__MAX_GROWTH_PERCENT="50")
    assert allowed.code == 0, allowed.output
    assert tmp_path.exists()


@pytest.mark.nightly
def test_a_shell_has_the_checkout_and_keeps_the_code(world: World, tmp_path: Path) -> None:
    image, _ = built(world, resolved(world), tmp_path, [])
    (world.folder / "spyre-ci.yaml").write_text("{}\n")
    done = subprocess.run(
        [sys.executable, "-m", "ci.cli", "image", "shell", image, "--network", "none"],
        cwd=world.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input="python -c 'import torch; print(torch.__version__)'; ls stack.yaml; echo > made.txt; exit 4\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.split()) == (4, ["2.13.0", "stack.yaml"]), done.stderr
    assert (world.folder / "made.txt").stat().st_uid == os.getuid()


@pytest.mark.nightly
def test_nox_opens_a_shell_and_keeps_its_code(world: World, tmp_path: Path) -> None:
    image, _ = built(world, resolved(world), tmp_path, [])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "nox", "--no-venv", "-s", "image", "--", "shell", image, "--network", "none"],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        input="cat pyproject.toml | head -n 1; exit 4\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (4, "[build-system]"), done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_shell_writes_is_the_callers(world: World, tmp_path: Path, *, terminal: bool) -> None:
    image, _ = built(world, resolved(world), tmp_path, [])
    checkout = tmp_path / "a,b"
    checkout.mkdir(mode=0o777)
    checkout.chmod(0o777)
    caller = Caller(user=1234, group=1235, checkout=checkout, terminal=terminal)
    client = find_client(os.environ, lambda name: f"/usr/bin/{name}" if name == "docker" else None)
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
