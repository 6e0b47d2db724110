"""What tests run in, as the process that runs them finds it: the planner's environment is another one.

What is installed, torch and the back end that makes the device, is found out as exactly as can be without
importing or starting it: torch takes seconds to import.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ci.core.addresses import without_secrets
from ci.core.errors import BackEndError, DeviceError
from ci.core.provider import detect, in_log
from ci.core.withheld import without_job_secrets
from ci.record.identity import EMULATED
from ci.runner.inventory import EMULATE, EMULATED_DEVICE, Card, is_real


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTorch:
    """torch's version and the Git SHA it was built from (empty where it does not say)."""

    version: str
    git_sha: str


def installed_torch() -> InstalledTorch:
    """The torch of this environment.

    Raises:
        DeviceError: there is none.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise DeviceError(
            "torch is not installed here",
            remedy='install it into this environment: pip install "spyre-ci[torch]", or use `nox -s pytorch`',
        )
    text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    sha = re.search(r"^git_version\b[^=]*= *'([0-9a-f]{7,40})'", text, re.MULTILINE)
    return InstalledTorch(version=importlib.metadata.version("torch"), git_sha=sha[1] if sha else "")


# Of PyTorch, the back end and its cards, libraries that compute, Python and the C library.
_NAMES = re.compile(
    r"(PYTORCH|TORCH|ATEN|SPYRE|AIU|DT|FLEX|SENLIB|DEEPTOOLS|OMP|GOMP|KMP|MKL|OPENBLAS|THP|CUBLAS|NVIDIA"
    r"|CUDA|HIP|PCIDEVICE|MALLOC|PYTHON)_?[A-Z0-9_]*|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_PRELOAD"
)
_SECRET = re.compile(
    r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE|SIGN|PRIVATE|WEBHOOK|ENDPOINT", re.IGNORECASE
)
# Of the toolkit's own, all but what says how tests are run is for others to know.
_OURS = "SPYRE_CI_"
MOST = 200
LONGEST = 1000


def recorded(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by name that may matter, in order; nothing secret, and no address with a secret in it.

    Args:
        environ: of a worker.
    """
    names = [
        name
        for name in sorted(without_job_secrets(environ))
        if _NAMES.fullmatch(name) and not _SECRET.search(name) and not name.startswith(_OURS)
    ]
    return {name: without_secrets(environ[name])[:LONGEST] for name in names[:MOST]}


def ran_in_here(environ: Mapping[str, str], device: str) -> dict[str, Any]:
    """Back end, torch, image, Python and variables of this process, for its journal.

    Args:
        environ: the environment; only it can say the image.
        device: the device's name, which is all there is to say of any but `spyre`.
    """
    try:
        torch = installed_torch().version
    except DeviceError:  # the tests will say so
        torch = ""
    return {
        "back_end": back_end_of(device, environ),
        "torch": torch,
        "image": detect(environ, epoch_s=1).image,
        "python": platform.python_version(),
        "environ": recorded(environ),
    }


PACKAGE = "torch_spyre"


def back_end(
    environ: Mapping[str, str],
    find: Callable[[str], importlib.metadata.Distribution] = importlib.metadata.distribution,
    module: Callable[[str], object | None] = importlib.util.find_spec,
) -> str:
    """The back end of the device `spyre` with its version and, where it is known, its commit.

    What pip notes of an installed package (PEP 610) names the commit of one that came from a repository, and
    the folder of one that is used from where it is developed; there the commit is the folder's.

    Args:
        environ: may ask for the emulated device.
        find: gives an installed distribution by name.
        module: finds what can be imported, by which the device is made; notes of a package may outlive it.
    """
    if environ.get(EMULATE) == "1" or module(PACKAGE) is None:
        return EMULATED
    try:
        found = find(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return PACKAGE
    commit = commit_of(found.read_text("direct_url.json") or "")
    return f"{PACKAGE} {found.version}" + (f" at {commit:.12}" if commit else "")


def back_end_of(device: str, environ: Mapping[str, str]) -> str:
    """The back end of a device: its name is all there is to say of any but `spyre`.

    Args:
        device: its name.
        environ: may ask for the emulated device.
    """
    return back_end(environ) if device == EMULATED_DEVICE else device


def refuse_silent_emulation(
    cards: Sequence[Card], environ: Mapping[str, str], *, device: str, found: str, in_ci: str = ""
) -> None:
    """Refuse to test the emulated device where the results would be told of cards.

    Args:
        cards: of the run.
        environ: may ask for the emulated device, or rule it out.
        device: the device's name; every other than `spyre` has a package of its own, or is torch's.
        found: what `back_end` says.
        in_ci: the CI that runs us, where its settings do not allow the emulated device; empty elsewhere.

    Raises:
        BackEndError: the emulated device would be tested, and nobody asked for it.
    """
    wanted = environ.get(EMULATE, "")
    if device != EMULATED_DEVICE or found != EMULATED or wanted == "1":
        return
    if is_real(cards):
        why = f"the emulated device would be tested in place of {cards[0].name}"
    elif wanted == "0":
        why = f"{EMULATE}=0 rules the emulated device out"
    elif in_ci:
        raise BackEndError(
            f"the emulated device would be tested in {in_ci}: there is neither a card nor {PACKAGE}",
            where=sys.prefix,
            remedy="let the job run where cards are, or say in the settings that none are meant: "
            "device.emulated: allow",
        )
    else:
        return
    raise BackEndError(
        f"{PACKAGE} is not installed here: {why}",
        where=sys.prefix,
        remedy="run in the runtime image's own environment (in a pipeline: pipeline.environment: image), "
        f"install {PACKAGE}, or ask for the emulated device: {EMULATE}=1",
    )


def unallowed_ci(environ: Mapping[str, str], *, allowed: bool) -> str:
    """The CI in which an emulated device would pass for cards; empty where there is none, or it is allowed.

    Args:
        environ: the environment.
        allowed: whether the settings allow it in a CI.
    """
    if allowed or not in_log(environ):
        return ""
    name = detect(environ, epoch_s=0).name
    return f"a CI (CI={environ['CI']})" if name == "none" else name


def commit_of(direct_url: str) -> str:
    """The commit that pip noted of a package (PEP 610), or its folder is at; empty where neither is known."""
    try:
        row: Any = json.loads(direct_url)
        if "vcs_info" in row:
            return str(row["vcs_info"]["commit_id"])
        url = urlsplit(row["url"])
        return (
            head(Path(unquote(url.path))) if url.scheme == "file" and row["dir_info"].get("editable") else ""
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""


def head(checkout: Path) -> str:
    """The commit a Git checkout is at; empty where that cannot be told (gitrepository-layout(5))."""
    try:
        git = _git_folder(checkout)
        said = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not said.startswith("ref: "):
            return _checked(said)
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        return _checked(_ref(shared, said.removeprefix("ref: ")))
    except (OSError, UnicodeDecodeError):
        return ""


def _git_folder(checkout: Path) -> Path:
    """The `.git` of a checkout, which of a worktree is a file that names it."""
    git = checkout / ".git"
    if git.is_file():
        return checkout / git.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")
    return git


def _checked(said: str) -> str:
    return said if re.fullmatch(r"[0-9a-f]{40,64}", said) else ""


def _ref(git: Path, name: str) -> str:
    loose = git / name
    if loose.is_file():
        return loose.read_text(encoding="utf-8").strip()
    packed = git / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((line.split(" ", 1)[0] for line in lines if line.endswith(f" {name}")), "")
