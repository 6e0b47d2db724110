"""A smoke check of an image: it starts as an unknown user, imports its torch, and its roles answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import docker
from docker.errors import APIError
from docker.models.containers import Container

from ci.core.container_engine import engine_error, fetch
from ci.core.containers import Conditions, Ended, container, follow
from ci.core.errors import CommandError
from ci.core.findings import Finding, judged
from ci.core.registry import by_digest, find_digest
from ci.core.repositories import COMMIT
from ci.core.text import last_line, listed
from ci.image import roles
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
TORCH = ("run", "python", "-c", _TELL)
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
        role_timeout_s: seconds until a role's port answers, or until `test` ends.
        most_percent: by which an image may be larger than the one before it.
        model: folder that `serve` finds at /model; None: one that holds no model.
        echo: takes a line a check.
        clock: seconds.
        sleep: waits seconds.
    """

    client: docker.DockerClient
    role_timeout_s: float
    most_percent: float
    model: Path | None
    echo: Callable[[str], None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def check(self, image: str, *, labels: Mapping[str, str], against: str | None = None) -> list[Finding]:
        """What was found, a check each.

        Args:
            image: name or id.
            labels: that it has to have, besides those of every image of ours.
            against: name of the image before it, in a registry; None: its size is not compared.

        Raises:
            SpyreCiError: the engine or the registry refuses.
        """
        findings = []
        for finding in self._findings(image, labels, against):
            self.echo(finding.line)
            findings.append(finding)
        return findings

    def _findings(self, image: str, labels: Mapping[str, str], against: str | None) -> Iterator[Finding]:
        attrs = self.client.images.get(image).attrs
        config = attrs.get("Config") or {}
        said: dict[str, str] = config.get("Labels") or {}
        yield check_labels(said, labels)
        yield check_user(str(config.get("User") or ""))
        yield check_torch(self.run(image, TORCH, STRICT), said)
        setuid = self.run(image, [_SETUID], _AS_ROOT)
        yield judged(
            "setuid",
            listed(setuid.last, _MOST_SHOWN) or "none besides the distribution's",
            holds=setuid.exit_code == 0 and not setuid.last,
            remedy="take the bits away where they are put there: chmod ug-s",
        )
        for name, words in roles.roles_in(said).items():
            yield self._role(image, name, words)
        if against is not None:
            yield self._size(image, against)

    def torch_commit(self, image: str) -> str:
        """The commit that the torch of an image was built from; see `commit_told`."""
        return commit_told(self.run(image, TORCH, STRICT), image)

    def run(
        self, image: str, words: Sequence[str], conditions: Conditions, timeout_s: float = SHORT_S
    ) -> Ended:
        """Run an image to its end; one that cannot be started ends with 127."""
        try:
            with container(self.client, image, words, conditions) as made:
                return follow(made, timeout_s=timeout_s, echo=lambda _: None)
        except APIError as error:
            return Ended(exit_code=CANNOT_START, last=(engine_error(error).what,))

    def _role(self, image: str, name: str, words: Sequence[str]) -> Finding:
        command = [name, *words]
        remedy = f"run it: docker run --read-only --tmpfs /tmp IMAGE {' '.join(command)}"
        if name not in roles.PORTS:
            ended = self.run(image, command, STRICT, self.role_timeout_s)
            return judged(f"role {name}", how(ended), holds=ended.exit_code == 0, remedy=remedy)
        with tempfile.TemporaryDirectory(prefix="spyre-ci-model-") as folder:
            model = self.model or _no_model(Path(folder))
            conditions = replace(STRICT, mounts={roles.MODEL: model} if name == "serve" else {})
            try:
                with container(self.client, image, command, conditions) as made:
                    seen, holds = self._answer(made, roles.PORTS[name])
            except APIError as error:
                seen, holds = engine_error(error).what, False
        return judged(f"role {name}", seen, holds=holds, remedy=remedy)

    def _answer(self, made: Container, port: int) -> tuple[str, bool]:
        """What a port answers once it does, and whether that will do."""
        until = self.clock() + self.role_timeout_s
        status = "nothing"
        while self.clock() < until:
            made.reload()
            state = made.attrs["State"]
            if not state["Running"]:
                return f"ended with code {state['ExitCode']} before port {port} answered{_last(made)}", False
            try:
                code, output = made.exec_run(["python", "-c", _ASK, str(port)])
            except APIError:  # it has just ended
                continue
            status = cast("bytes", output).decode("utf-8", "replace").strip() if code == 0 else status
            # What still loads says 503.
            if status.isdecimal() and int(status) < 500:  # noqa: PLR2004  # HTTP
                return f"port {port} answers {status}", True
            self.sleep(_POLL_S)
        return f"port {port} answers {status} after {self.role_timeout_s:g} s{_last(made)}", False

    def _size(self, image: str, against: str) -> Finding:
        digest = find_digest(against)
        size = int(self.client.images.get(image).attrs["Size"])
        if digest is None:
            seen = f"{size / _MIB:.1f} MiB; nothing to compare with: there is no {against} yet"
            return Finding(check="size", seen=seen)
        before = by_digest(against, digest)
        fetch(self.client, before)
        old = int(self.client.images.get(before).attrs["Size"])
        return judge_size(old, size, against=against, most_percent=self.most_percent)


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
        listed(wrong, _MOST_SHOWN, "; ") or f"{len(labels)}, none is missing or another",
        holds=not wrong,
        remedy="build it with `spyre-ci image build`, from the stack and the refs it is compared with",
    )


def check_user(named: str) -> Finding:
    """An image names its user by a number that is not 0."""
    number = named.partition(":")[0]
    return judged(
        "user",
        f"the image says {named or 'nothing'}",
        holds=number.isdecimal() and int(number) != 0,
        remedy="set USER to a number, not 0: a name may be root's to Kubernetes",
    )


def check_torch(ended: Ended, labels: Mapping[str, str]) -> Finding:
    """Its torch can be imported by an unknown user, and is the one that its labels say."""
    version, commit = (str(told(ended).get(name, "")) for name in ("version", "commit"))
    if not version:
        return Finding(check="torch", seen=f"import torch {how(ended)}", remedy="see what the import wants")
    label = labels.get(PYTORCH_LABEL, "")
    wanted = {labels.get(COMMIT_LABEL, commit), label if COMMIT.fullmatch(label) else commit} - {commit}
    # What stands after `+` counts where the expected version has it.
    if label.startswith("torch==") and label[7:] not in {version, version.partition("+")[0]}:
        wanted.add(label[7:])
    other = f", not {' and '.join(sorted(wanted))}" if wanted else ""
    return judged(
        "torch",
        f"{version} at {commit or 'no commit'}{other}",
        holds=not wanted,
        remedy="see which step of the build installs another torch; pin its requirements",
    )


def judge_size(before: int, after: int, *, against: str, most_percent: float) -> Finding:
    """Whether an image grew by more than it may.

    Args:
        before: bytes of the image before it.
        after: its own.
        against: name of the image before it.
        most_percent: by which it may grow.
    """
    percent = 100 * (after - before) / before if before else 0.0
    return judged(
        "size",
        f"{after / _MIB:.1f} MiB, {percent:+.1f} % against {against}; {most_percent:g} % are allowed",
        holds=percent <= most_percent,
        remedy="see by `docker history` which layers grew, or raise image.max_growth_percent",
    )


def how(ended: Ended) -> str:
    """How a container ended, in one line."""
    last = last_line("\n".join(ended.last))
    code = "took too long and was ended" if ended.timed_out else f"ended with code {ended.exit_code}"
    return f"{code}, last said: {last[:200]}" if last else code


def told(ended: Ended) -> Mapping[str, Any]:
    """The object of the last line, where that is one in JSON; else empty."""
    try:
        found = json.loads(ended.last[-1]) if ended.last and ended.exit_code == 0 else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def commit_told(ended: Ended, image: str) -> str:
    """The commit that the torch of an image says it was built from.

    Args:
        ended: how what asks it ended.
        image: its name.

    Raises:
        CommandError: torch cannot be imported there, or tells no commit.
    """
    commit = str(told(ended).get("commit", ""))
    if COMMIT.fullmatch(commit):
        return commit
    raise CommandError(
        f"torch.version.git_version is {commit[:80]!r}: import torch {how(ended)}",
        where=image,
        remedy="take a wheel that tells its commit: the tests have to be of that very one",
    )


def _no_model(folder: Path) -> Path:
    # Read by a user of another number.
    folder.chmod(0o755)
    (folder / "README").write_text("No model: this image is being checked.\n", encoding="utf-8")
    return folder


def _last(made: Container) -> str:
    last = last_line(made.logs(tail=5).decode("utf-8", "replace"))
    return f", last said: {last[:200]}" if last else ""
