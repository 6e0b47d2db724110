"""Building: real repositories, setuptools in an environment of its own, real archives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from ci.package import building
from tests.integration.conftest import need
from tests.integration.package.conftest import PYPROJECT, Checkout


def test_a_commit_is_built_once_and_the_wheel_from_its_sdist(checkout: Checkout) -> None:
    commit = checkout.git("rev-parse", "HEAD").strip()
    (checkout.folder / "demo" / "secret.py").write_text("not committed")
    said = checkout.package("build", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    version = f"0.3.0.dev1+g{commit[:9]}"
    assert told["version"] == version
    assert told["where"] == "isolation"
    assert any(line.startswith("setuptools==") for line in told["environment"])
    assert [one["name"] for one in told["files"]] == [
        f"demo-{version}.tar.gz", f"demo-{version}-py3-none-any.whl",
    ]  # fmt: skip
    assert "left out (not tracked by Git): demo/secret.py" in said.err
    record = json.loads((checkout.folder / ".spyre-ci/records/build.json").read_text())
    assert (record["commit"], record["passed"], record["files"]) == (commit, True, told["files"])
    seconds = int(checkout.git("log", "-1", "--format=%ct"))
    with tarfile.open(checkout.folder / "dist" / f"demo-{version}.tar.gz") as packed:
        assert {one.mtime for one in packed} == {seconds}
        assert not any("secret" in one.name for one in packed)
    with zipfile.ZipFile(checkout.folder / "dist" / f"demo-{version}-py3-none-any.whl") as archive:
        assert "demo/secret.py" not in archive.namelist()
    # The checkout itself is not written to.
    assert checkout.git("status", "--porcelain").strip() == "?? demo/secret.py"


@pytest.mark.nightly
def test_a_tag_gives_its_version_and_takes_the_place_of_what_was_built(checkout: Checkout) -> None:
    assert checkout.package("build", "--index", "testpypi").code == 0
    assert [one.name for one in sorted((checkout.folder / "dist").iterdir())] == [
        "demo-0.3.0.dev1-py3-none-any.whl", "demo-0.3.0.dev1.tar.gz",
    ]  # fmt: skip
    checkout.git("tag", "v0.3.0")
    said = checkout.package("build")
    assert said.code == 0, said.err
    assert [one.name for one in sorted((checkout.folder / "dist").iterdir())] == [
        "demo-0.3.0-py3-none-any.whl", "demo-0.3.0.tar.gz",
    ]  # fmt: skip


@pytest.mark.nightly
def test_a_declared_version_is_the_back_ends(checkout: Checkout) -> None:
    dynamic = PYPROJECT.replace('version = "0.3.0"', 'dynamic = ["version"]')
    dynamic += '[tool.setuptools.dynamic]\nversion = {file = "VERSION"}\n'
    settings = "package: {version: declared}\n"
    checkout.commit(
        {
            "pyproject.toml": dynamic,
            "VERSION": "1.2.3\n",
            "spyre-ci.yaml": settings,
        }
    )
    said = checkout.package("build", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["version"] == "1.2.3"


def test_a_project_that_cannot_be_built_shows_its_last_lines(checkout: Checkout) -> None:
    checkout.commit({"setup.py": "raise SystemExit('no compiler for you')\n"})
    earlier = [checkout.folder / ".spyre-ci/records" / f"{step}.json" for step in ("build", "verify")]
    for path in earlier:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    said = checkout.package("build")
    assert not any(path.exists() for path in earlier)
    assert said.code == 1
    assert "demo could not be built" in said.err
    assert "  | no compiler for you" in said.err
    assert "build.log" in said.err
    assert not (checkout.folder / "dist").exists()


IN_TREE = (
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    + PYPROJECT.partition("\n\n")[2]
)
ASKS = "def get_requires_for_build_sdist(*_):\n    "
LIES = """\
import tarfile
def build_sdist(folder, *_):
    with tarfile.open(folder + "/demo-1.tar.gz", "w:gz") as packed:
        for name in ("pyproject.toml", "backend.py", "PKG-INFO"):
            packed.add("README.md" if name == "PKG-INFO" else name, "demo-1/" + name)
    return "demo-1.tar.gz"
def build_wheel(*_):
    return "demo-1-py3-none-any.whl"
"""


@pytest.mark.parametrize(
    ("backend", "code", "words"),
    [
        (
            ASKS + "import sendnn",
            1,
            ["demo could not be built\n", "add what provides sendnn to [build-system]"],
        ),
        (ASKS + "import time; time.sleep(60)", 1, ["took longer than", "raise package.build_timeout_s"]),
        (
            LIES,
            1,
            ["the build back end reported success but made no *.whl", "the log file has the full output"],
        ),
        ("print('x' * 100_000, flush=True)\n1 / 0", 1, ["xxx", "ZeroDivisionError"]),
    ],
)
def test_a_back_end_that_fails_is_told_in_its_words_once(
    checkout: Checkout, backend: str, code: int, words: list[str]
) -> None:
    checkout.commit(
        {"pyproject.toml": IN_TREE, "backend.py": backend, "spyre-ci.yaml": "package: {build_timeout_s: 5}\n"}
    )
    said = checkout.package("build")
    assert said.code == code, said.err
    assert all(one in said.err for one in words), said.err
    assert "Error(" not in said.err
    assert len(said.err) < 20_000


def test_what_a_back_end_says_shows_no_password_of_an_index_and_no_token(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_INDEX_URL", "https://me:hunter2@index.example/simple")
    monkeypatch.setenv("CI_JOB_TOKEN", "hunter3")
    backend = "import os\n\ndef build_sdist(*_):\n    raise SystemExit(print(dict(os.environ)) or 1)\n"
    checkout.commit({"pyproject.toml": IN_TREE, "backend.py": backend})
    said = checkout.package("build")
    assert said.code == 1
    assert "UV_INDEX_URL" in said.err
    logs = [path.read_text() for path in checkout.folder.rglob("build.log")]
    assert any("UV_INDEX_URL" in text for text in logs)
    for text in (said.out, said.err, *logs):
        assert "hunter" not in text


def test_a_requirement_that_is_not_to_be_had_is_said(checkout: Checkout) -> None:
    wanted = PYPROJECT.replace("setuptools>=77", "setuptools>=77,<60")
    checkout.commit({"pyproject.toml": wanted})
    said = checkout.package("build")
    assert said.code == 2
    assert "No matching distribution found" in said.err


@pytest.mark.nightly
def test_a_version_the_back_end_takes_from_elsewhere_is_refused(checkout: Checkout) -> None:
    elsewhere = PYPROJECT.replace('version = "0.3.0"\n', 'dynamic = ["version"]\n')
    checkout.commit(
        {
            "pyproject.toml": elsewhere,
            "setup.py": "from setuptools import setup\nsetup(version='9.9')\n",
            "demo/version.py": "__version__ = '0.3.0'\n",
            "spyre-ci.yaml": "package: {version_file: demo/version.py}\n",
        }
    )
    said = checkout.package("build")
    assert said.code == 1
    assert "demo-9.9.tar.gz was built, but version 0.0.1.dev2+g" in said.err


@pytest.mark.nightly
def test_the_projects_own_settings_hold_wherever_it_is_called(checkout: Checkout) -> None:
    checkout.commit({"spyre-ci.yaml": "package: {version: declared, dist: out}\n", ".gitignore": "out/\n"})
    said = checkout.package("build")
    assert said.code == 0, said.err
    assert (checkout.folder / "out" / "demo-0.3.0.tar.gz").is_file()


def test_a_folder_without_a_project_is_said(checkout: Checkout) -> None:
    said = checkout.spyre_ci("package", "build", str(checkout.folder / "demo"))
    assert said.code == 2
    assert "there is no pyproject.toml here" in said.err


def test_an_index_nobody_knows_is_said(checkout: Checkout) -> None:
    said = checkout.package("build", "--index", "nowhere")
    assert said.code == 2
    assert "there is no index 'nowhere'" in said.err
    assert "known: testpypi, pypi" in said.err


def test_a_link_into_the_checkout_is_not_written_through(checkout: Checkout) -> None:
    kept = checkout.folder / "conf" / "pyproject.toml"
    checkout.commit({"conf/pyproject.toml": PYPROJECT})
    (checkout.folder / "pyproject.toml").unlink()
    (checkout.folder / "pyproject.toml").symlink_to(kept)
    checkout.commit()
    said = checkout.package("build")
    assert said.code == 2
    assert "or by a relative link within the project" in said.err
    assert kept.read_text() == PYPROJECT


EXTENSION = {
    "pyproject.toml": PYPROJECT.replace("setuptools>=77", "setuptools>=61").replace(
        'license = "Apache-2.0"\nlicense-files = ["LICENSE"]\n', ""
    ),
    "setup.py": """\
import time
import runtime_stack
from setuptools import Extension, setup

time.sleep(1)
value = [("VALUE", str(runtime_stack.VALUE))]
setup(ext_modules=[Extension("demo._C", ["demo/c.cpp"], define_macros=value)])
""",
    "demo/c.cpp": """\
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() {
  PyObject* made = PyModule_Create(&module);
  PyModule_AddIntConstant(made, "VALUE", VALUE);
  return made;
}
""",
}


@pytest.mark.nightly
def test_an_extension_that_needs_the_runtime_stack_is_built_where_that_is(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(shutil.which("g++") is not None, "a C++ compiler")
    # Older ones want the package wheel beside them.
    need(int(version("setuptools").partition(".")[0]) > 70, "setuptools 71")
    monkeypatch.setattr(building, "SILENCE_S", 0.5)
    checkout.commit(EXTENSION)
    said = checkout.package("build")
    assert said.code == 1
    assert "  | ModuleNotFoundError: No module named 'runtime_stack'" in said.err
    assert "build there with --in-image IMAGE, or with --no-isolation in an environment" in said.err
    # What is silent shows that it lives.
    assert "still building after " in said.err
    stack = checkout.folder.parent / "stack" / "runtime_stack.py"
    stack.parent.mkdir()
    stack.write_text("VALUE = 42\n")
    monkeypatch.setenv("PYTHONPATH", f"{stack.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    said = checkout.package("build", "--no-isolation", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert told["where"] == "this environment"
    assert any(line.startswith("setuptools==") for line in told["environment"])
    (wheel,) = (checkout.folder / "dist").glob("*.whl")
    assert sysconfig.get_config_var("py_version_nodot") in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(checkout.folder.parent / "installed")  # noqa: S202  # built here
    code = "import demo._C; print(demo._C.VALUE)"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout.folder.parent / "installed")}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environ, capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"42\n"


@pytest.fixture
def runtime_image() -> Iterator[str]:
    """An image with a Python, a compiler and a module that no index has."""
    base = os.environ.get("TEST_BASE_IMAGE", "")
    need(bool(base) and shutil.which("docker") is not None, "a container engine (TEST_BASE_IMAGE)")
    packages = "python3-dev python3-setuptools python3-wheel python3-pip g++"
    install = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages}"
    stack = "echo VALUE = 42 > /usr/lib/python3/dist-packages/runtime_stack.py"
    name = f"spyre-ci-test-runtime:{os.getpid()}"
    words = ["docker", "build", "--network", "host", "--quiet", "--tag", name, "-"]
    text = f"FROM {base}\nRUN {install}\nRUN {stack}\n"
    subprocess.run(words, input=text, text=True, check=True, capture_output=True, timeout=900)
    yield name
    subprocess.run(["docker", "rmi", "--force", name], check=False, capture_output=True, timeout=60)


@pytest.mark.nightly
def test_a_build_in_an_image_is_for_the_python_there_and_makes_the_same_bytes(
    checkout: Checkout, runtime_image: str
) -> None:
    checkout.commit(EXTENSION)
    first, again = (checkout.package("build", "--in-image", runtime_image, "--json") for _ in range(2))
    assert first.code == again.code == 0, first.err + again.err
    told = json.loads(first.out)
    assert (told["where"], told["files"]) == (runtime_image, json.loads(again.out)["files"])
    assert any(one["name"].partition("-cp")[2].startswith("311-") for one in told["files"]), "Debian 12's"
    checkout.commit({"spyre-ci.yaml": "package: {build_image: '127.0.0.1:9/not-there:1'}\n"})
    said = checkout.package("build")
    assert said.code == 1
    assert "remedy: check that the engine has the image" in said.err
