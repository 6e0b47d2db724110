"""Images of ours on the container engine, found and removed; never by force."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import ExitStack

import docker
from docker.errors import APIError, ImageNotFound

from ci.image.engine import engine, engine_error
from ci.report.released import Released
from ci.retention.images import find_images, is_our_tag
from ci.retention.removing import KeptError
from ci.retention.things import Found, Thing
from ci.steps.context import Context

# Nothing is built here: an engine that says nothing for so long is not there.
TIMEOUT_S = 120
_DIGEST = re.compile(r"[0-9a-f]{64}")


def find_on_engine(
    context: Context, stack: ExitStack, released: Released, words: Iterable[str]
) -> tuple[Found, docker.DockerClient]:
    """Images of ours, and the engine, which stays open as long as the stack.

    Args:
        context: the outside world.
        stack: closes the engine.
        released: what releases name.
        words: of the files of runs that stay, digests of their images among them.

    Raises:
        CommandError: there is no engine.
    """
    client = stack.enter_context(engine(context.environ, timeout_s=TIMEOUT_S))
    in_use = [
        str(one.attrs.get("Image") or one.attrs.get("ImageID") or "")
        for one in client.containers.list(all=True)
    ]
    wanted = {
        digest: "a run that stays ran in it"
        for word in words
        for digest in (word.rpartition("sha256:")[2],)
        if _DIGEST.fullmatch(digest)
    }
    found = find_images(
        [one.attrs for one in client.images.list()], in_use=in_use, released=released, wanted=wanted
    )
    return found, client


def remove_image(client: docker.DockerClient, thing: Thing) -> None:
    """Remove an image by our names of it; with the last of its names it goes.

    Raises:
        KeptError: it is gone, has another name by now, or something stands on it.
        CommandError: the engine refuses.
    """
    try:
        tags = client.images.get(thing.path).tags
        if not all(is_our_tag(tag) for tag in tags):
            raise KeptError("got another name meanwhile")
        for tag in tags:
            if client.images.get(tag).id != thing.path:
                raise KeptError("was built anew meanwhile")
            client.images.remove(tag, force=False)
    except ImageNotFound as error:
        raise KeptError("is gone already") from error
    except APIError as error:
        if error.status_code == 409:  # noqa: PLR2004  # HTTP's Conflict
            raise KeptError("a container, or an image that stands on it, uses it") from error
        raise engine_error(error, where=thing.name) from error
