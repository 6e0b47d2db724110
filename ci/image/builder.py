"""Building and pushing images by an engine's own command: docker with buildx, podman or buildah."""

from __future__ import annotations

import re
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci.core.addresses import without_secrets
from ci.core.commands import run_command, stream_command
from ci.core.container_engine import engine_error, is_no_space
from ci.core.errors import EXIT_TEST_FAILED, CommandError, MissingInputError
from ci.core.progress import showing_life
from ci.core.registry import find_digest
from ci.core.text import one_line, plain
from ci.core.workflow_commands import defused

# The words that build with each, before the options that all of them have.
BUILDERS: Mapping[str, tuple[str, ...]] = {
    "docker": ("docker", "buildx", "build", "--progress=plain", "--load"),
    "podman": ("podman", "build"),
    "buildah": ("buildah", "build"),
}
# BuildKit keeps the values of these arguments out of an image's history and out of the key of its cache.
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# PyTorch from source, on a small machine.
TIMEOUT_S = 6 * 3600.0
PUSH_TIMEOUT_S = 3600.0
LAST_LINES = 30
MOST_SHOWN = 300
REVISION_LABEL = "org.opencontainers.image.revision"
# As BuildKit says it, and buildah.
_EXIT = re.compile(r"exit (?:code:|status) (\d+)")


class BuildStepError(CommandError):
    """A step of an image's build failed."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is built.

    Attributes:
        context: folder that is sent to the builder, without what its `.dockerignore` names.
        containerfile: its path in the context.
        target: the stage; None: the last.
        tag: name of the image; empty: none.
        args: of the build; they reach the builder by its environment.
        labels: besides those of the Containerfile.
        secrets: files that steps mount by these ids.
        root: folder that no link on the way to the Containerfile may lead out of; None: the context.
        source: of what is built, for errors; None: the context.
    """

    context: Path
    containerfile: str = "Containerfile"
    target: str | None = None
    tag: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    source: str | Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuilder:
    """An engine's command.

    Attributes:
        name: one of `BUILDERS`.
        environ: of the command; the build gets the proxies in it.
        echo: takes each line that the command prints.
        network: of the steps; None: the engine's default.
        platform: such as linux/s390x; None: the engine's own.
        cache: name of an image whose layers are taken where the engine has none; the image that is built
            can be taken from in turn.
    """

    name: str
    environ: Mapping[str, str]
    echo: Callable[[str], None]
    network: str | None = None
    platform: str | None = None
    cache: str | None = None

    def words(self, order: Order, image_id: Path) -> list[str]:
        """The command that builds an order, and writes the image's id into a file; pure."""
        words = [
            *BUILDERS[self.name],
            f"--file={order.context / order.containerfile}",
            f"--iidfile={image_id}",
        ]
        given = {
            "--target": order.target,
            "--tag": order.tag,
            "--network": self.network,
            "--platform": self.platform,
            "--cache-from": self.cache,
        }
        words += [f"{flag}={value}" for flag, value in given.items() if value]
        words += ["--cache-to=type=inline"] if self.cache and self.name == "docker" else []
        words += [f"--label={name}={value}" for name, value in order.labels.items()]
        # Without its value, which the builder reads from its environment.
        words += [f"--build-arg={name}" for name in self._args(order)]
        words += [f"--secret=id={name},src={path}" for name, path in order.secrets.items()]
        return [*words, str(order.context)]

    def _args(self, order: Order) -> dict[str, str]:
        proxies = {name: self.environ[name] for name in PROXIES if self.environ.get(name)}
        return {**proxies, **order.args}

    def build(self, order: Order) -> str:
        """Build an image; returns its id.

        Raises:
            MissingInputError: the context has no such Containerfile, or a link on the way leads out of it.
            BuildStepError: a step failed; with its last lines.
            DiskFullError: the engine's disk is full.
            CommandError: the builder is not found, or cannot build.
        """
        path = order.context / order.containerfile
        root = order.root or order.context
        # Links are the word of who made the folder, and lead where it likes.
        if not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
            raise MissingInputError(
                f"there is no {order.containerfile}",
                where=order.source or order.context,
                remedy="fix `containerfile` or its folder; links may not lead out of what is built",
            )
        last: deque[str] = deque(maxlen=LAST_LINES)

        with (
            tempfile.TemporaryDirectory(prefix="spyre-ci-build-") as folder,
            showing_life(self.echo) as say,
        ):
            image_id = Path(folder) / "id"

            def take(line: str) -> None:
                last.append(harmless(line))
                say(one_line(last[-1], MOST_SHOWN))

            environ = {**self.environ, **self._args(order)}
            words = self.words(order, image_id)
            if stream_command(words, timeout_s=TIMEOUT_S, line=take, env=environ) != 0:
                raise build_error(list(last))
            return image_id.read_text(encoding="utf-8").strip()

    def name_image(self, image: str, name: str) -> None:
        """Give an image of the engine a name."""
        run_command([self.name, "tag", image, name], timeout_s=PUSH_TIMEOUT_S, env=self.environ)

    def push(self, name: str) -> str:
        """Push an image; returns its digest.

        Raises:
            CommandError: the registry cannot be reached, refuses, or does not have it then.
        """
        remedy = f"check that {name.partition('/')[0]} can be reached, and log in: {self.name} login"
        run_command([self.name, "push", name], timeout_s=PUSH_TIMEOUT_S, env=self.environ, remedy=remedy)
        digest = find_digest(name)
        if digest is None:
            raise CommandError(
                f"the registry accepted {name} but does not have it", where=name, remedy="push it again"
            )
        self.echo(f"pushed {name} {digest}")
        return digest


def harmless(line: str) -> str:
    """A line that a step said, for a terminal or a log: no colours, no commands to a CI, no secrets."""
    return defused(without_secrets(plain(line)))


def build_error(last: Sequence[str]) -> Exception:
    """The user's error of a build that failed, by the last lines of its builder; pure."""
    # BuildKit says at its end which step failed, and what that said.
    begin = max((number for number, line in enumerate(last) if line.lstrip().startswith("> [")), default=0)
    lines = "".join(f"\n  | {one_line(line, MOST_SHOWN)}" for line in last[begin:])
    if full := [line for line in last if is_no_space(line)]:
        return engine_error(full[-1])
    if codes := [found[1] for line in last if (found := _EXIT.search(line))]:
        return BuildStepError(
            f"a step ended with code {codes[-1]}{lines}",
            remedy="fix the step; `spyre-ci image build --print` shows all of them",
        )
    return CommandError(
        f"the image cannot be built{lines}",
        remedy="check image.builder: docker with its buildx plugin, podman or buildah",
    )
