"""The test tree of an image: PyTorch's repository at the very commit that the image's PyTorch is of."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ci.core.errors import BadFileError, FileSystemError
from ci.core.repositories import COMMIT, put_files
from ci.image.containerfile import COMMIT_LABEL, URL_LABEL
from ci.image.model import GitUrl
from ci.runner.checkout import COMMIT_FILE, SPARSE_FOLDERS

PYTORCH_URL = "https://github.com/pytorch/pytorch.git"
_URL: TypeAdapter[str] = TypeAdapter(GitUrl)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an image's PyTorch is from: the repository, and the commit, 40 hex digits."""

    url: str
    commit: str


def origin_of(labels: Mapping[str, str], image: str, *, url: str | None = None) -> Origin:
    """Where an image's labels say that its PyTorch is from.

    Args:
        labels: of the image.
        image: its name.
        url: of the repository; None: the one that the image was built from, or PyTorch's.

    Raises:
        BadFileError: they do not say it.
    """
    commit = labels.get(COMMIT_LABEL, "")
    if not COMMIT.fullmatch(commit):
        raise BadFileError(
            f"does not say which PyTorch it has: its label {COMMIT_LABEL} is {commit[:80]!r}",
            where=image,
            remedy="use an image of `spyre-ci image build`",
        )
    try:
        return Origin(url=url or _URL.validate_python(labels.get(URL_LABEL, PYTORCH_URL)), commit=commit)
    except ValidationError:
        what = f"its label {URL_LABEL} is not a repository: {labels[URL_LABEL][:80]!r}"
        raise BadFileError(what, where=image, remedy="set image.pytorch_url") from None


def put_tree(
    origin: Origin, folder: Path, *, environ: Mapping[str, str], echo: Callable[[str], None]
) -> None:
    """Put what the main job reads of PyTorch's repository into a folder: whole, or nothing of it.

    Args:
        origin: repository and commit.
        folder: is made; one that holds this tree already is left as it is.
        environ: git's.
        echo: takes lines for people.

    Raises:
        FileSystemError: the folder holds something else.
        CommandError: the commit cannot be fetched.
    """
    folder = folder.expanduser().resolve()
    mark = folder / COMMIT_FILE
    held = mark.read_text(encoding="utf-8", errors="replace").strip() if mark.is_file() else ""
    if held == origin.commit:
        echo(f"{folder} is PyTorch {origin.commit} already")
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = held if COMMIT.fullmatch(held) else "something else"
        remedy = "remove it, or name another folder"
        raise FileSystemError(f"contains {what}, and is not overwritten", where=folder, remedy=remedy)
    folder.parent.mkdir(parents=True, exist_ok=True)
    echo(f"PyTorch {origin.commit} from {origin.url}")
    # Beside it: a folder is renamed on one file system alone.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as staging:
        tree = Path(staging) / "tree"
        put_files(origin.url, origin.commit, tree, environ=environ, below=SPARSE_FOLDERS)
        (tree / COMMIT_FILE).write_text(f"{origin.commit}\n", encoding="utf-8")
        # An empty folder is replaced, one that was filled meanwhile is not.
        tree.replace(folder)
