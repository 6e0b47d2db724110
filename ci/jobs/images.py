"""What a job's pods run in, named by its digest: an image that is there, or one built here and pushed.

What is built is tagged by what it is built of, and what the registry has by that tag is not built again.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import EXIT_INCOMPLETE, MissingInputError, SpyreCiError, UsageError
from ci.core.registry import by_digest, find_digest
from ci.core.repositories import commit_of, put_files
from ci.image.builder import REVISION_LABEL, ImageBuilder, Order
from ci.image.checkout import put_folder
from ci.jobs.spec import GitImage, Image, UploadImage

SOURCE_LABEL = "org.opencontainers.image.source"


class UnpinnedImageError(UsageError):
    """An image whose digest cannot be had."""


class UnpinnedAwayError(UnpinnedImageError):
    """The same, since its registry does not answer now."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Finds and builds images.

    Attributes:
        folder: of the spec; an upload's folder is relative to it.
        environ: what git reads of it.
        builder: the command that builds and pushes.
        echo: takes lines for people.
    """

    folder: Path
    environ: Mapping[str, str]
    builder: ImageBuilder
    echo: Callable[[str], None]

    def resolve(self, image: Image) -> str:
        """The image's name with its digest; the tag as it is only if the spec allows that.

        Args:
            image: of a spec; it is built and pushed where the registry does not have it yet.

        Raises:
            UnpinnedImageError: its digest cannot be had: two pods may run different images in one report.
            MissingInputError: there is no such folder or Containerfile.
            BuildStepError: a step of the build failed.
            SpyreCiError: git, the engine or the registry cannot be reached, or refuses.
        """
        if image.name is not None:
            return self._of_name(image.name, may_move=image.allow_moving_tag)
        with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as scratch:
            files = Path(scratch) / "files"
            return self._of_git(image.git, files) if image.git else self._of_folder(image.upload, files)

    def _of_name(self, name: str, *, may_move: bool) -> str:
        if "@" in name:
            return name
        away = False
        try:
            digest, why = find_digest(name), "its registry has no such image"
        except SpyreCiError as error:
            digest, why, away = None, error.what, error.exit_code == EXIT_INCOMPLETE
        if digest is not None:
            return by_digest(name, digest)
        if not may_move:
            raise (UnpinnedAwayError if away else UnpinnedImageError)(
                f"cannot find the digest of {name} ({why}); by its tag, pods may get different images",
                where="image.name",
                remedy="give the digest (name@sha256:…), log in, or set image.allow_moving_tag",
            )
        self.echo(f"{name} is not pinned: cannot find its digest ({why})")
        return name

    def _of_git(self, wanted: GitImage, files: Path) -> str:
        commit = commit_of(wanted.url, wanted.ref, environ=self.environ)
        return self._built(
            wanted,
            Order(
                context=files,
                containerfile=wanted.containerfile,
                tag=f"{wanted.to}:{tag_of('git', commit, wanted.containerfile)}",
                labels={REVISION_LABEL: commit, SOURCE_LABEL: wanted.url},
                source=f"{wanted.url} at {commit}",
            ),
            lambda: put_files(wanted.url, commit, files, environ=self.environ),
        )

    def _of_folder(self, wanted: UploadImage | None, files: Path) -> str:
        assert wanted is not None  # noqa: S101  # the spec has exactly one
        folder = self.folder / wanted.folder
        if not folder.is_dir():
            raise MissingInputError(
                "there is no such folder", where=folder, remedy="fix image.upload.folder of the spec"
            )
        tree = put_folder(folder, files, containerfile=wanted.containerfile)
        tag = f"{wanted.to}:{tag_of('folder', tree, wanted.containerfile)}"
        order = Order(context=files, containerfile=wanted.containerfile, tag=tag, source=str(folder))
        return self._built(wanted, order, lambda: None)

    def _built(self, wanted: GitImage | UploadImage, order: Order, put: Callable[[], object]) -> str:
        """Build an image and push it unless the registry has it; its name with its digest."""
        if (there := find_digest(order.tag)) is not None:
            self.echo(f"{order.tag} is already in the registry: not built again")
            return f"{wanted.to}@{there}"
        self.echo(f"building {order.tag} from {order.source}")
        put()
        self.builder.build(order)
        return f"{wanted.to}@{self.builder.push(order.tag)}"


def tag_of(kind: str, content: str, containerfile: str) -> str:
    """The tag of an image that is built: of what it is built of, and by which file of it.

    Args:
        kind: git or folder.
        content: a commit, or the name of a folder's files.
        containerfile: its path.
    """
    digest = hashlib.sha256(f"{content}\n{containerfile}".encode())
    return f"{kind}-{digest.hexdigest()[:20]}"
