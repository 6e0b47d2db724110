from __future__ import annotations

import pytest
import torch

from ci.core.errors import SettingsError
from ci.device.backend import read_settings
from ci.device.environment import DEVICE_SETTINGS, device_environment
from ci.device.refusal import make_refusal


def test_an_operator_stands_for_its_in_place_form_too() -> None:
    assert make_refusal(["add"], []).ops == {"aten::add", "aten::add_"}


def test_an_operator_may_carry_its_namespace() -> None:
    assert make_refusal(["aten::matmul"], []).ops == {"aten::matmul"}


def test_an_unknown_operator_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match=r"(?s)device.refuse_ops: .*'aten::softmx'.*did you mean"):
        make_refusal(["softmx"], [])


@pytest.mark.parametrize("name", ["float46", "Tensor"])
def test_an_unknown_dtype_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"device.refuse_dtypes: .*{name}"):
        make_refusal([], [name])


def test_a_dtype_that_is_not_refused_passes() -> None:
    refusal = make_refusal([], ["float64"])
    refusal.check_dtype(torch.float32)
    with pytest.raises(NotImplementedError, match=r"dtype torch.float64 is not supported on the 'spyre'"):
        refusal.check_dtype(torch.float64)


@pytest.mark.parametrize("text", ["{", "[]", '"add"', '{"refuse_ops": "add"}'])
def test_settings_that_are_no_json_object_are_named(text: str) -> None:
    with pytest.raises(SettingsError, match="SPYRE_CI_DEVICE"):
        read_settings(text)


def test_settings_are_read_as_they_were_written() -> None:
    text = device_environment("spyre", ["add"], ["float64"])[DEVICE_SETTINGS]
    assert read_settings(text) == (["add"], ["float64"])
