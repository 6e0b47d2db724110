"""The shell steps that build PyTorch's wheel and install it; pure."""

from __future__ import annotations

import shlex

from ci.image.resolved import ResolvedPytorch
from ci.image.steps import SETTINGS, install_python

SOURCE = "/src/pytorch"
_INSTALL = "pip install --no-cache-dir --no-compile"
CHECK_WHEEL = (
    'shopt -s nullglob; found=("$WHEELS"/torch-*.whl); if [ "${#found[@]}" -ne 1 ]; then ls -la "$WHEELS"; '
    'echo "the steps put ${#found[@]} wheels of torch into \\$WHEELS, and not one"; exit 1; fi'
)


def install_pytorch(pytorch: ResolvedPytorch) -> str:
    """Install PyTorch: the wheel that was built, that of an index, or that of the build's own index.

    What it needs comes from the build's own index, and where that lacks it, from the wheel's.
    """
    if pytorch.git is not None:
        return f"{SETTINGS}; {_INSTALL} /wheels/*.whl"
    if not pytorch.index:
        return install_python([pytorch.requirement])
    hashed = (
        f"{pytorch.requirement} --hash=sha256:{pytorch.sha256}" if pytorch.sha256 else pytorch.requirement
    )
    index, name = shlex.quote(pytorch.index), shlex.quote(pytorch.requirement)
    # A hash can be given in a file of requirements alone.
    wheel = f"{_INSTALL} --no-deps --index-url {index} -r /dev/stdin <<< {shlex.quote(hashed)}"
    return f"{SETTINGS}; {wheel}; {_INSTALL} --extra-index-url {index} {name}"


def prepare_source(commit: str) -> str:
    """Folders for what is built, and of Git's what tells PyTorch's build its commit.

    Args:
        commit: 40 hex digits; goes into torch.version.git_version, and with it the version.
    """
    git = f"{SOURCE}/.git"
    return f'mkdir -p "$WHEELS" "$CCACHE_DIR" {git}/objects {git}/refs; echo {commit} > {git}/HEAD'
