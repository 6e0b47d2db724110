"""Whether a checkout's torch requirement allows the pin, and whether a package makes the device."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from ci.runner import compatibility
from ci.runner.compatibility import (
    back_end_missing,
    torch_excluded,
    torch_pin,
    torch_requirements,
)

PROJECT = "[project]\ndependencies = "
POETRY = "[tool.poetry.dependencies]\n"


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "torch~=2.7.1"]\n', "pyproject.toml:2"),
        ("pyproject.toml", '[build-system]\nrequires = ["torch>=2.7,<2.8", "wheel"]\n', "pyproject.toml:2"),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch==2.7.1\n", "setup.cfg:3"),
        ("setup.py", "setup(install_requires=['torch<2.8'])\n", "setup.py:1"),
        ("requirements.txt", "torch==2.7.1+cpu  # the CPU build\n", "requirements.txt:1"),
        ("setup.cfg", "[options]\ninstall_requires = torch~=2.7.1\n", "setup.cfg:2"),
        ("setup.cfg", "[options.entry_points]\ntorch.backends = a:b\n; torch~=2.7.1\n# torch~=2.7.1\n", ""),
        (
            "setup.py",
            "# 'torch~=2.7.1'\nsetup(x='\\d', y='torch < 3 is fun', z='''\ntorch<2.8\n''')\n",
            "setup.py:3",
        ),
        ("setup.py", "setup(", ""),
        ("requirements.txt", "torch\n\ntorch==2.7.1 --hash=sha256:0\n", "requirements.txt:3"),
        ("requirements.txt", "torch~=2.7.1 \\\n  --hash=sha256:0\n", "requirements.txt:1"),
        ("requirements.txt", "torch~=2.7.1 \\\n  ; python_version < '3.9'\n", ""),
        ("requirements.txt", "-r other.txt\r\n# torch~=2.7.1\r\ntorch @ https://a/torch.whl\r\n", ""),
        ("requirements-dev.txt", "numpy\ntorch~=2.7.1 \\", "requirements-dev.txt:2"),
        ("pyproject.toml", PROJECT + "['torch[opt-einsum]~=2.7.1']", "pyproject.toml:2"),
        ("pyproject.toml", PROJECT + "['torch (~=2.7.1)']", "pyproject.toml:2"),
        ("pyproject.toml", PROJECT + "['Torch~=2.7.1']", "pyproject.toml:2"),
        ("pyproject.toml", PROJECT + '[\n # "torch<2",\n "torch<2",\n]', "pyproject.toml:4"),
        ("pyproject.toml", PROJECT + "['torch<2.8; python_version < \"3.9\"']", ""),
        ("pyproject.toml", PROJECT + "['torch<2.8; python_version > \"3.9\"']", "pyproject.toml:2"),
        ("pyproject.toml", '[project.optional-dependencies]\na = ["torch<2"]\n', "pyproject.toml:2"),
        (
            "pyproject.toml",
            '[dependency-groups]\na = [{include-group = "b"}, "torch<2"]\n',
            "pyproject.toml:2",
        ),
        ("pyproject.toml", POETRY + 'torch = "~2.7.1"\n', "pyproject.toml:2"),
        (
            "pyproject.toml",
            '[tool.poetry]\nname = "torch-acme"\n' + POETRY + 'torch = "2.7.1"\n',
            "pyproject.toml:4",
        ),
        ("pyproject.toml", POETRY + 'torch = "^0.7"\n', "pyproject.toml:2"),
        ("pyproject.toml", POETRY + 'torch = "~2.7 || >=2.8,<2.9"\n', "pyproject.toml:2"),
        ("pyproject.toml", POETRY + 'torch = {version = "^1.7", extras = []}\n', "pyproject.toml:2"),
        ("pyproject.toml", '[tool.poetry.group.test.dependencies]\ntorch = "<2"\n', "pyproject.toml:2"),
        ("pyproject.toml", POETRY + 'torch = {version = "~2.7", markers = "python_version < \'3.9\'"}\n', ""),
        ("pyproject.toml", POETRY + 'torch = "^2.7.1"\ntorchvision = "~0.1"\n', ""),
        ("pyproject.toml", POETRY + 'torch = "~2.7 || ~2.13"\n', ""),
        ("pyproject.toml", POETRY + 'torch = {git = "https://a/b"}\n', ""),
        ("pyproject.toml", POETRY + 'torch = "*"\n', ""),
        ("pyproject.toml", POETRY + 'torch = "who knows"\n', ""),
        ("pyproject.toml", '# dependencies = ["torch~=2.7.1"]\n', ""),
        ("pyproject.toml", PROJECT + "['torch', 'torch>=2.7', 'torchvision==0.1', 'my-torch==1']", ""),
        ("pyproject.toml", "project = 3\ntool = []\n", ""),
        ("pyproject.toml", PROJECT + "['torch~=2.7.1'", ""),
        ("elsewhere.toml", '"torch~=2.7.1"', ""),
    ],
)
def test_a_requirement_that_excludes_the_pin_is_found_where_it_stands(
    tmp_path: Path, name: str, text: str, where: str
) -> None:
    (tmp_path / name).write_text(text)
    found = torch_excluded(tmp_path, "2.13.0")
    assert [one.message.partition(" ")[0] for one in found] == ([where] if where else [])
    assert all("excludes torch 2.13.0" in one.message and one.remedy for one in found)
    assert torch_excluded(tmp_path, "") == []


def test_each_place_of_a_requirement_is_named(tmp_path: Path) -> None:
    text = PROJECT + "['torch<2']\n[build-system]\nrequires = ['torch<2', 'torch\\u003c2']\n".replace(
        "'", '"'
    )
    (tmp_path / "pyproject.toml").write_text(text)
    found = [one.message.partition(" ")[0] for one in torch_excluded(tmp_path, "2.13.0")]
    assert found == ["pyproject.toml", "pyproject.toml:2", "pyproject.toml:4"]


@pytest.mark.parametrize("recorded", [True, False])
def test_the_pin_is_the_extras(monkeypatch: pytest.MonkeyPatch, recorded: bool) -> None:
    def requires(name: str) -> list[str]:
        if recorded:
            return ["rich>=1", "torch==9.9; extra == 'torch'", "numpy; extra == 'torch'"]
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert torch_pin() == "9.9" if recorded else torch_pin().count(".") == 2
    assert "numpy" in {one.name for one in torch_requirements()}


@pytest.mark.parametrize(
    ("device", "environ", "made_by", "start"),
    [
        ("cpu", {}, [], None),
        ("spyre", {"SPYRE_CI_EMULATE": "1"}, [], None),
        ("spyre", {}, [], "torch_spyre is not installed in this environment, so tests run on the emulated"),
        ("acme", {"SPYRE_CI_EMULATE": "1"}, [], "no package in this environment registers the device acme"),
        ("acme", {}, ["torch_acme"], None),
    ],
)
def test_a_back_end_that_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    environ: dict[str, str],
    made_by: list[str],
    start: str | None,
) -> None:
    monkeypatch.setattr(compatibility, "registered_back_ends", lambda: made_by)
    found = back_end_missing(device, environ)
    assert (found is None) == (start is None)
    assert found is None or found.message.startswith(str(start))
