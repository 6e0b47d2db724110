"""Checkouts of back ends as they are met: torch-spyre's shape, and another PrivateUse1 back end that runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.repositories import git

# The shape of torch-spyre/torch-spyre in autumn 2026: what it builds with, how it registers, where its suites
# are. The texts are ours. Whoever runs a file that begins with this leaves one beside it.
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
TORCH_SPYRE = {
    "pyproject.toml": """\
[build-system]
requires = ["cmake>=3.27,<4.0.0", "ninja", "setuptools>=70.1.0,<80.0", "torch~=2.10.0", "wheel"]
build-backend = "setuptools.build_meta"

[project]
name = "torch_spyre"
description = "Out-of-tree registration of a device"
dependencies = ["torch~=2.10.0"]
requires-python = ">=3.11"
dynamic = ["version"]

[project.entry-points."torch.backends"]
torch_spyre = "torch_spyre:_autoload"

[tool.setuptools.dynamic]
version = {attr = "torch_spyre.version.__version__"}
""",
    "setup.py": TRAP
    + """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

PACKAGE_NAME = "torch_spyre"
setup(
    ext_modules=[CppExtension(name=f"{PACKAGE_NAME}._C", sources=["torch_spyre/csrc/module.cpp"])],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
    entry_points={"torch.backends": ["torch_spyre = torch_spyre:_autoload"]},
)
""",
    "torch_spyre/__init__.py": TRAP
    + """\
from .constants import DEVICE_NAME


def _autoload():
    import torch

    torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    import torch_spyre._C  # noqa: F401  # compiled
""",
    "torch_spyre/constants.py": 'DEVICE_NAME = "spyre"\n',
    "torch_spyre/version.py": '__version__ = "0.1.0"\n',
    "torch_spyre/csrc/module.cpp": "int answer() { return 42; }\n",
    "tests/unit/test_version.py": "def test_nothing() -> None:\n    pass\n",
    "tests/configs/test_view_ops.yaml": """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_view_ops.py
      unlisted_test_mode: xfail
      tests: []
""",
    "README.md": "# torch-spyre\n",
}
# A back end of its own name. Its kernels are those of the emulated device, under that name.
TORCH_ACME = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "torch-acme"
version = "1.0"

[project.entry-points."torch.backends"]
acme = "torch_acme:load"

[tool.setuptools]
packages = ["torch_acme"]
""",
    "torch_acme/__init__.py": '''\
"""A back end named acme."""

from ci.device import environment

NAME = "acme"


def load():
    environment.DEVICE_TYPE = NAME
    from ci.device.backend import register

    register(emulate=True)
''',
    # As in C++ of a back end: nothing here calls Python's function.
    "csrc/register.cpp": 'void load() { c10::register_privateuse1_backend("acme"); }\n',
}


class Checkout:
    """A checkout that somebody works in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def files(self) -> dict[str, bytes]:
        """Every file but Git's, by its path."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(self.folder).parts
        }


def make(folder: Path, files: Mapping[str, str], *, origin: str = "") -> Checkout:
    """A Git repository with a commit."""
    made = Checkout(folder)
    for name, text in files.items():
        made.write(name, text)
    made.git("init", "--quiet", "--initial-branch=main")
    if origin:
        made.git("remote", "add", "origin", origin)
    made.commit()
    return made
