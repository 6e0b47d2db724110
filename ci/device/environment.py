"""The environment variables that give a worker its device. Imports no torch: the parent has none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

DEVICE_SETTINGS = "SPYRE_CI_DEVICE"
DEVICE_TYPE = "spyre"
# Which emulated card a process has, and what is wrong with some of them; see `ci.device.faults`.
EMULATED_CARD = "SPYRE_CI_CARD"
CARD_FAULTS = "SPYRE_CI_CARD_FAULTS"
CARD_STATE = "SPYRE_CI_CARD_STATE"
# `1`: the emulated device, also where torch_spyre is installed; torch must not load that by itself then
# (TORCH_DEVICE_BACKEND_AUTOLOAD=0). `0`: never the emulated one. Else: where torch_spyre is not installed and
# there is no card.
EMULATE = "SPYRE_CI_EMULATE"
TEST_BASE = Path(__file__).with_name("test_base.py")
OP_SUITE = Path(__file__).with_name("op_suite")


def device_environment(
    device: str, refuse_ops: Iterable[str] = (), refuse_dtypes: Iterable[str] = ()
) -> dict[str, str]:
    """The variables a worker needs so that PyTorch's tests are made for `device` and no other.

    Args:
        device: `spyre`; a device torch carries itself, such as `cpu`, the control; or another
            PrivateUse1 name, whose own package registers it when torch is imported.
        refuse_ops: aten operators the emulated device refuses.
        refuse_dtypes: dtypes it refuses, without `torch.`.

    Returns:
        Names and values, to be added to the worker's environment. TORCH_DEVICE_ROOT is the folder of the
        device's own suites.
    """
    common = {"TORCH_DEVICE_ROOT": str(OP_SUITE)}
    if device in {"cpu", "cuda", "xpu", "mps"}:
        return common | {"PYTORCH_TESTING_DEVICE_ONLY_FOR": device}
    variables = common | {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1"}
    if device != DEVICE_TYPE:
        return variables
    settings = {"refuse_ops": list(refuse_ops), "refuse_dtypes": list(refuse_dtypes)}
    return variables | {"TORCH_TEST_DEVICES": str(TEST_BASE), DEVICE_SETTINGS: json.dumps(settings)}
