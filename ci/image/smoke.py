"""A smoke check of an image: it starts as an unknown user, imports its torch, and its roles answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import docker
from docker.errors import APIError
from docker.models.containers import Container

from ci.config.load import Settings
from ci.core.container_engine import engine_error, fetch
from ci.core.containers import Conditions, Ended, container, follow
from ci.core.errors import CommandError
from ci.core.findings import Finding, judged, refuse_failed
from ci.core.registry import by_digest, find_digest
from ci.core.repositories import COMMIT
from ci.core.text import last_line, listed
from ci.image import roles
from ci.image.builder import harmless
from ci.image.containerfile import COMMIT_LABEL, PYTORCH_LABEL

# What an image of ours has, whatever it is made of.
NEEDED = (
    PYTORCH_LABEL,
    COMMIT_LABEL,
    "io.github.torch-spyre.variant",
    "org.opencontainers.image.base.digest",
    "org.opencontainers.image.base.name",
    "org.opencontainers.image.title",
)
# As OpenShift starts an image: a user it does not know, in group 0, and a root that cannot be written.
STRICT = Conditions(user="54321:0", read_only=True, scratch=("/tmp",))  # noqa: S108  # in memory
_AS_ROOT = Conditions(user="0:0", read_only=True, entrypoint=("/bin/sh", "-c"))
# An import of torch takes seconds, on a busy machine with a cold disk some more.
SHORT_S = 300.0
CANNOT_START = 127
_POLL_S = 0.5
_MIB = 1 << 20
_MOST_SHOWN = 5
_TELL = (
    "import json, torch; print(json.dumps({'version': torch.__version__, "
    "'commit': str(getattr(torch.version, 'git_version', ''))}))"
)
# Of the distribution's own files its packages know.
_SETUID = (
    "find / -xdev -type f -perm /6000 2>/dev/null | while read -r file; do "
    'dpkg -S "$file" >/dev/null 2>&1 || dpkg -S "${file#/usr}" >/dev/null 2>&1 || '
    'rpm -qf "$file" >/dev/null 2>&1 || echo "$file"; done'
)
# Runs in the container, which has no network but its own.
_ASK = """
import sys, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    print(opener.open('http://127.0.0.1:%s/' % sys.argv[1], timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeCheck:
    """Checks images.

    Attributes:
        client: the engine, which has them.
        settings: how long a role may take, by how much an image may grow, and which model `serve` finds.
        echo: takes a line a check.
    """

    client: docker.DockerClient
    settings: Settings
    echo: Callable[[str], None]

    def verify(self, image: str, labels: Mapping[str, str], *, name: str, against: str | None = None) -> None:
        """Check an image, and refuse it where a check fails.

        Args:
            image: name or id.
            name: that it is called by, or is to be.
            labels: that it has to have, besides those of every image of ours.
            against: name of the image before it, in a registry; None: its size is not compared.

        Raises:
            VerificationError: a check failed.
            SpyreCiError: the engine or the registry refuses.
        """
        findings = []
        for finding in self._findings(image, labels, against):
            self.echo(finding.line)
            findings.append(finding)
        refuse_failed(name, findings)

    def _findings(self, image: str, labels: Mapping[str, str], against: str | None) -> Iterator[Finding]:
        config = self.client.images.get(image).attrs.get("Config") or {}
        said: dict[str, str] = config.get("Labels") or {}
        yield check_labels(said, labels)
        yield check_user(str(config.get("User") or ""))
        yield check_torch(self.ask_torch(image), said)
        setuid = self._run(image, [_SETUID], _AS_ROOT)
        yield judged(
            "setuid",
            listed(setuid.last, _MOST_SHOWN) or "none besides the distribution's",
            holds=setuid.exit_code == 0 and not setuid.last,
            remedy="remove the bits where they are set: chmod ug-s",
        )
        for name, words in roles.roles_in(said).items():
            seen, holds = self._role(image, name, words)
            remedy = f"run it: docker run --read-only --tmpfs /tmp IMAGE {' '.join([name, *words])}"
            yield judged(f"role {name}", seen, holds=holds, remedy=remedy)
        if against is not None:
            yield self._size(image, against)

    def ask_torch(self, image: str) -> Ended:
        """How a container ends that asks torch of its version and commit; see `commit_told`."""
        return self._run(image, ["run", "python", "-c", _TELL], STRICT)

    def _run(
        self, image: str, words: Sequence[str], conditions: Conditions, timeout_s: float = SHORT_S
    ) -> Ended:
        """Run an image to its end; one that cannot be started ends with 127."""
        try:
            with container(self.client, image, words, conditions) as made:
                return follow(made, timeout_s=timeout_s, echo=lambda _: None)
        except APIError as error:
            return Ended(exit_code=CANNOT_START, last=(engine_error(error).what,))

    def _role(self, image: str, name: str, words: Sequence[str]) -> tuple[str, bool]:
        """What a role does, and whether that will do."""
        settings = self.settings.model.image
        if name not in roles.PORTS:
            ended = self._run(image, [name, *words], STRICT, settings.role_timeout_s)
            return how(ended), ended.exit_code == 0
        # Where there is no model, a folder that holds none: `serve` starts with whatever it is given.
        conditions = replace(STRICT, environment={"MODEL": "/opt/spyre"})
        if settings.model is not None:
            conditions = replace(STRICT, mounts={roles.MODEL: self.settings.resolve(settings.model)})
        try:
            with container(self.client, image, [name, *words], conditions) as made:
                return _answer(made, roles.PORTS[name], settings.role_timeout_s)
        except APIError as error:
            return engine_error(error).what, False

    def _size(self, image: str, against: str) -> Finding:
        size = int(self.client.images.get(image).attrs["Size"])
        most = self.settings.model.image.max_growth_percent
        digest = find_digest(against)
        if digest is None:
            seen = f"{size / _MIB:.1f} MiB; nothing to compare with: there is no {against} yet"
            return Finding(check="size", seen=seen)
        before = by_digest(against, digest)
        fetch(self.client, before)
        percent = 100 * (size / int(self.client.images.get(before).attrs["Size"]) - 1)
        return judged(
            "size",
            f"{size / _MIB:.1f} MiB, {percent:+.1f} % compared with {against}; at most {most:g} % allowed",
            holds=percent <= most,
            remedy="see with `docker history` which layers grew, or raise image.max_growth_percent",
        )


def _answer(made: Container, port: int, timeout_s: float) -> tuple[str, bool]:
    """What a port answers once it does, and whether that will do."""
    until = time.monotonic() + timeout_s
    status = "nothing"
    while time.monotonic() < until:
        made.reload()
        state = made.attrs["State"]
        if not state["Running"]:
            return f"ended with code {state['ExitCode']} before port {port} answered{_logged(made)}", False
        try:
            code, output = made.exec_run(["python", "-c", _ASK, str(port)])
        except APIError:  # it has just ended
            continue
        status = cast("bytes", output).decode("utf-8", "replace").strip() if code == 0 else status
        # What still loads says 503.
        if status.isdecimal() and int(status) < 500:  # noqa: PLR2004  # HTTP
            return f"port {port} answers {status}", True
        time.sleep(_POLL_S)
    return f"port {port} answers {status} after {timeout_s:g} s{_logged(made)}", False


def check_labels(labels: Mapping[str, str], expected: Mapping[str, str]) -> Finding:
    """Every label is there with its value, however many more there are."""
    wrong = [f"{name} is missing" for name in sorted({*NEEDED, *expected} - set(labels))]
    wrong += [
        f"{name} is {labels[name] or 'empty'}, not {value}"
        for name, value in sorted(expected.items())
        if labels.get(name, value) != value
    ]
    return judged(
        "labels",
        listed(wrong, _MOST_SHOWN, "; ") or f"{len(labels)}, all as expected",
        holds=not wrong,
        remedy="build it with `spyre-ci image build`, from the stack and the refs it is compared with",
    )


def check_user(named: str) -> Finding:
    """An image names its user by a number that is not 0."""
    number = named.partition(":")[0]
    return judged(
        "user",
        f"USER is {named or 'not set'}",
        holds=number.isdecimal() and int(number) != 0,
        remedy="set USER to a number, not 0: Kubernetes cannot tell whether a name is root",
    )


def check_torch(ended: Ended, labels: Mapping[str, str]) -> Finding:
    """Its torch can be imported by an unknown user, and is the one that its labels say."""
    version, commit = torch_of(ended)
    if not version:
        return Finding(check="torch", seen=f"import torch {how(ended)}", remedy="see what the import needs")
    wanted = {labels.get(COMMIT_LABEL, commit)} - {commit}
    name, _, release = labels.get(PYTORCH_LABEL, "").partition("==")
    # What stands after `+` counts where the expected version has it.
    if name == "torch" and release not in {version, version.partition("+")[0]}:
        wanted.add(release)
    other = f", not {' and '.join(sorted(wanted))}" if wanted else ""
    return judged(
        "torch",
        f"{version} at {commit or 'no commit'}{other}",
        holds=not wanted,
        remedy="see which step of the build installs another torch; pin its requirements",
    )


def how(ended: Ended) -> str:
    """How a container ended, in one line."""
    code = "took too long and was stopped" if ended.timed_out else f"ended with code {ended.exit_code}"
    return code + _last("\n".join(ended.last))


def torch_of(ended: Ended) -> tuple[str, str]:
    """Version and commit that an image's torch told; empty where it did not."""
    # What torch loads may say something when it ends, too.
    for line in reversed(ended.last if ended.exit_code == 0 else ()):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            return str(found["version"]), str(found["commit"])
    return "", ""


def commit_told(ended: Ended, image: str) -> str:
    """The commit that the torch of an image says it was built from.

    Args:
        ended: how what asks it ended.
        image: its name.

    Raises:
        CommandError: torch cannot be imported there, or tells no commit.
    """
    _, commit = torch_of(ended)
    if COMMIT.fullmatch(commit):
        return commit
    raise CommandError(
        f"torch.version.git_version is {commit[:80]!r}: import torch {how(ended)}",
        where=image,
        remedy="use a wheel whose torch has its commit: the tests come from that commit",
    )


def _last(said: str) -> str:
    last = harmless(last_line(said))
    return f", last output: {last[:200]}" if last else ""


def _logged(made: Container) -> str:
    return _last(made.logs(tail=5).decode("utf-8", "replace"))
