"""What a lane's run is called with: the nox session that people and every CI call (law 8).

The stack of the runtime image says which PyTorch the tests of a variant come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.config.lanes_model import Lane
from ci.config.load import DEFAULT_FILE, Settings
from ci.core.errors import SettingsError
from ci.lanes.order import Order

SOURCE = "--pytorch-src"


def source_of(lane: Lane, settings: Settings) -> str | None:
    """The `git+URL@ref` of the variant a lane's main job is of; None where it names none, or its own source.

    Raises:
        SettingsError: the stack has no such variant, or is none.
        MissingInputError: there is no stack.
    """
    job = lane.run.pytorch
    if job is None or job.variant is None or SOURCE in job.arguments:
        return None
    from ci.image.stack import read_stack  # noqa: PLC0415  # takes a part of a second
    from ci.image.tree import PYTORCH_URL  # noqa: PLC0415  # as above

    path = settings.resolve(settings.model.image.stack)
    variants = read_stack(path).variants
    found = variants.get(job.variant)
    if found is None:
        raise SettingsError(
            f"has no variant {job.variant!r}, which a lane is of",
            where=path,
            remedy=f"known variants: {', '.join(variants)}",
        )
    if found.git is not None:
        return f"git+{found.git.url}@{found.git.ref}"
    url = settings.model.image.pytorch_url or PYTORCH_URL
    # A release has a tag; of which commit a nightly wheel is, nobody knows before it is looked up.
    return f"git+{url}@{f'v{found.version}' if found.version else 'main'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Words for a process, and what is added to its environment."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


def command(
    lane: Lane,
    order: Order,
    *,
    toolkit: Path,
    base: Path,
    config: Path | None = None,
    source: str | None = None,
) -> Command:
    """The call of a lane's work; what it runs in is the folder of the settings.

    Args:
        lane: its settings.
        order: the attempt. A run of tests leaves its folder below the order's.
        toolkit: the noxfile of the toolkit.
        base: the folder that relative paths of the settings start from.
        config: the settings file, where it is not the one that a session finds in that folder.
        source: where the tests of the main job come from; None: as the settings say.

    Raises:
        SettingsError: the session of the image finds no other settings file.
    """
    noxfile, session, arguments, variant = toolkit, "pytorch", list[str](), None
    if lane.run.pytorch is not None:
        job = lane.run.pytorch
        flags = {"--stage": job.stage, SOURCE: source, "--config": config, "--bucket": lane.bucket}
        given = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
        arguments, variant = [*given, *job.arguments], job.variant
    elif lane.run.image is not None:
        if config is not None:
            raise SettingsError(
                f"lane {order.lane} builds the image, and that session reads {DEFAULT_FILE} only",
                where=config,
                remedy=f"call it {DEFAULT_FILE}, in the folder that is built from",
            )
        session, variant = "image", lane.run.image.variant
        arguments = ["--push"] if lane.run.image.push else []
    elif lane.run.session is not None:
        own = lane.run.session
        session, arguments = own.name, list(own.arguments)
        noxfile = toolkit if own.noxfile is None else base / own.noxfile.expanduser()
    behind = ["--", *arguments] if arguments else []
    return Command(
        words=("nox", "-f", str(noxfile), "-s", session, *behind), environ=_environ(lane, order, variant)
    )


def _environ(lane: Lane, order: Order, variant: str | None) -> dict[str, str]:
    """Settings by their variables, and what a session of its own may want to know of the lane."""
    environ = {
        "SPYRE_CI__RUNS": str(order.folder / "runs"),
        "SPYRE_CI_LANE": order.lane,
        "SPYRE_CI_LANE_ATTEMPT": str(order.attempt),
        "SPYRE_CI_LANE_BUCKET": lane.bucket,
        "SPYRE_CI_LANE_SEED": str(order.seed),
    }
    if variant is not None:
        environ["SPYRE_CI__IMAGE__VARIANT"] = variant
    return environ
