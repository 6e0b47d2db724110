"""Where the tests of a variant come from: the stack of the runtime image says which PyTorch it is."""

from __future__ import annotations

from ci.config.lanes_model import Lane
from ci.config.load import Settings
from ci.core.errors import SettingsError

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
