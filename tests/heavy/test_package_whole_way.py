"""A whole way of packaging, once: an extension with a device back end's shape, and this project itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.conftest import need
from tests.repositories import commit

ROOT = Path(__file__).parent.parent.parent
EXTENSION = {
    "pyproject.toml": """\
[build-system]
requires = ["ninja", "numpy", "setuptools>=77", "torch"]
build-backend = "setuptools.build_meta"

[project]
name = "demo_spyre"
dynamic = ["version"]
description = "a device back end's shape, made for tests"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.11"
dependencies = ["torch"]

[project.entry-points."torch.backends"]
demo_spyre = "demo_spyre:_autoload"

[tool.setuptools.packages.find]
include = ["demo_spyre*"]

[tool.setuptools.dynamic]
version = {attr = "demo_spyre.version.__version__"}
""",
    "setup.py": """\
import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    ext_modules=[CppExtension("demo_spyre._C", ["demo_spyre/csrc/ops.cpp"])],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
""",
    "demo_spyre/__init__.py": '''\
"""A device back end that torch loads by itself."""


def _autoload() -> None:
    """Load the extension, as torch asks each back end to."""
    import torch
    from demo_spyre import _C

    torch.demo_spyre_twice = _C.twice
    torch.demo_spyre_name = _C.name
''',
    "demo_spyre/version.py": '__version__ = "0.0.1"\n',
    "demo_spyre/csrc/ops.cpp": """\
#include <Python.h>
#include <c10/core/Device.h>

#include <cstdio>

// Linked against torch's own library; all of torch/extension.h takes half a minute to compile.
static PyObject* name(PyObject*, PyObject*) {
  char text[32];  // and against libc, as every back end is: auditwheel asks which one that is
  std::snprintf(text, sizeof text, "%s", c10::Device(c10::DeviceType::PrivateUse1).str().c_str());
  return PyUnicode_FromString(text);
}

static PyObject* twice(PyObject*, PyObject* one) { return PyNumber_Add(one, one); }

static PyMethodDef methods[] = {
    {"name", name, METH_NOARGS, nullptr}, {"twice", twice, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};

PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
""",
    "tests/smoke/test_back_end.py": """\
import torch


def test_torch_loads_it_by_itself():
    assert torch.demo_spyre_twice(torch.ones(2)).tolist() == [2.0, 2.0]
    assert torch.demo_spyre_name() == "privateuseone"
""",
    "README.md": "# A device back end's shape\n",
    "LICENSE": "Apache-2.0\n",
    ".gitignore": "dist/\n.spyre-ci/\n",
    "spyre-ci.yaml": "package: {smoke: [tests/smoke], pythons: [python3]}\n",
}


def run(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command, to its end, away from this checkout."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, timeout=1800, check=False
    )


def package(verb: str, project: Path, *words: str, **more: str) -> Any:
    """What `spyre-ci package VERB --json` prints."""
    command = [sys.executable, "-P", "-m", "ci.cli", "package", verb, str(project), "--json", *words]
    done = run(command, project.parent, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_extension_goes_all_the_way(tmp_path: Path) -> None:
    need(shutil.which("g++") is not None, "a C++ compiler")
    need(shutil.which("ccache") is not None, "ccache")
    project = tmp_path / "demo_spyre"
    project.mkdir()
    commit(project, EXTENSION)
    cache = {"CCACHE_DIR": str(tmp_path / "ccache")}
    first = package("build", project, "--index", "testpypi", **cache)
    assert first["version"] == "0.0.1.dev1"
    assert "torch==2.13.0" in [line.partition("+")[0] for line in first["environment"]]
    (wheel,) = (one["name"] for one in first["files"] if one["name"].endswith(".whl"))
    assert "manylinux" in wheel
    checks = package("verify", project, "--index", "testpypi", **cache)["checks"]
    assert [one for one in checks if not one["passed"]] == []
    seen = {one["check"]: one["seen"] for one in checks}
    version = ".".join(map(str, sys.version_info[:2]))
    assert "smoke tests: 1 passed" in seen[f"wheel on Python {version}"]
    again = package("build", project, "--index", "testpypi", **cache)
    assert again["files"][0] == first["files"][0]  # the sdist
    stats = run(["ccache", "--print-stats"], project, **cache).stdout
    assert re.search(r"^(direct|preprocessed)_cache_hit\t1$", stats, re.MULTILINE), stats


def test_this_project_packages_itself(tmp_path: Path) -> None:
    project = tmp_path / "spyre-ci"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True, timeout=120)
    made = package("build", project)
    assert [one["name"].partition("-")[0] for one in made["files"]] == ["spyre_ci", "spyre_ci"]
    checks = package("verify", project)["checks"]
    assert [one for one in checks if not one["passed"]] == []
    assert any("smoke tests: 3 passed" in one["seen"] for one in checks)
