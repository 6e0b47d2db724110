from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.device.environment import DEVICE_SETTINGS, OP_SUITE, TEST_BASE, device_environment


def test_spyre_names_the_test_base_and_hands_over_what_is_refused() -> None:
    variables = device_environment("spyre", ["add"], ["float64"])
    assert variables["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "privateuse1"
    assert variables["TORCH_TEST_DEVICES"] == str(TEST_BASE)
    assert json.loads(variables[DEVICE_SETTINGS]) == {"refuse_ops": ["add"], "refuse_dtypes": ["float64"]}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_device_torch_carries_needs_no_test_base(device: str) -> None:
    variables = device_environment(device, ["add"], [])
    assert variables == {"PYTORCH_TESTING_DEVICE_ONLY_FOR": device, "TORCH_DEVICE_ROOT": str(OP_SUITE)}


def test_another_private_device_is_left_to_its_own_package() -> None:
    variables = device_environment("openreg")
    assert variables["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "privateuse1"
    assert "TORCH_TEST_DEVICES" not in variables
    assert DEVICE_SETTINGS not in variables


def test_every_value_is_a_string() -> None:
    assert all(isinstance(value, str) for value in device_environment("spyre").values())


@pytest.mark.parametrize("path", [TEST_BASE, OP_SUITE / "test_op_suite.py", OP_SUITE / "suite.yaml"])
def test_what_it_names_is_there(path: Path) -> None:
    assert path.is_file()


def test_the_module_itself_imports_no_torch() -> None:
    source = Path(device_environment.__code__.co_filename).read_text(encoding="utf-8")
    assert "import torch" not in source
