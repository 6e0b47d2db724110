"""The exact commit of the PyTorch in an image: read from the image itself, and written into a label of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import docker

from ci.core.errors import CommandError
from ci.image.build import Order, build
from ci.image.container import Conditions, container, follow

COMMIT_LABEL = "io.github.torch-spyre.pytorch.commit"
COMMIT = re.compile(r"[0-9a-f]{40}")
# An import of torch takes seconds, on a busy machine with a cold disk some more.
TIMEOUT_S = 300
# What torch itself says while it is imported is on other lines.
_MARK = "git_version="
_ASK = f"import torch; print('{_MARK}' + str(getattr(torch.version, 'git_version', None)))"


def commit_in(client: docker.DockerClient, image: str) -> str:
    """The commit that the torch in an image was built from, asked of that torch.

    Args:
        client: the engine.
        image: name or id, on the engine.

    Raises:
        CommandError: torch cannot be imported there, or tells no commit.
    """
    conditions = Conditions(entrypoint=["python"], environment={"PYTHONDONTWRITEBYTECODE": "1"})
    said: list[str] = []
    with container(client, image, ["-c", _ASK], conditions) as made:
        ended = follow(made, timeout_s=TIMEOUT_S, echo=said.append)
    if ended.timed_out or ended.exit_code != 0:
        why = f"took longer than {TIMEOUT_S} s" if ended.timed_out else f"ended with code {ended.exit_code}"
        lines = "".join(f"\n  | {line}" for line in ended.last)
        raise CommandError(
            f"torch cannot be imported in the image: python {why}{lines}",
            where=image,
            remedy=f"try it by hand: docker run --rm -it --network none {image} python -c 'import torch'",
        )
    return told_commit(said, image)


def told_commit(lines: list[str], image: str) -> str:
    """The commit among the lines that were said.

    Raises:
        CommandError: none is told, or what is told is none.
    """
    told = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    said = told[-1] if told else ""
    if not COMMIT.fullmatch(said):
        raise CommandError(
            f"the torch of the image does not tell its commit: torch.version.git_version is {said[:80]!r}",
            where=image,
            remedy="take a wheel that tells it: the tests have to be of the very same commit",
        )
    return said


def label_commit(
    client: docker.DockerClient,
    image: str,
    *,
    known: str,
    echo: Callable[[str], None],
    clock: Callable[[], float],
) -> str:
    """An image with the label that tells its PyTorch's commit; returns its id.

    Args:
        client: the engine.
        image: id of what was built.
        known: the commit it has to be; empty: whatever it is.
        echo: takes lines for people.
        clock: seconds.

    Raises:
        CommandError: the image tells no commit, or another one.
        SpyreCiError: the engine refuses.
    """
    commit = commit_in(client, image)
    if known and commit != known:
        raise CommandError(
            f"the image has PyTorch {commit}, and {known} was built",
            where=image,
            remedy="let variants.*.git.steps build the source they find, and nothing install another torch",
        )
    echo(f"PyTorch {commit}")
    # A name of 64 digits is an image's id to every engine.
    containerfile = f"FROM {image.removeprefix('sha256:')} AS named\n"
    order = Order(containerfile=containerfile, sources={}, target="named", labels={COMMIT_LABEL: commit})
    return build(client, order, echo=lambda _: None, clock=clock).image
