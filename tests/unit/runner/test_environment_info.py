"""What a worker's journal says of where its tests run."""

from __future__ import annotations

from ci.runner.environment_info import ran_in_here
from ci.runner.inventory import EMULATE

IMAGE = f"registry.example/spyre@sha256:{'1' * 64}"


def test_back_end_torch_and_image_are_those_of_this_process() -> None:
    told = ran_in_here({EMULATE: "1", "SPYRE_CI_IMAGE": IMAGE}, "spyre")
    assert (told["back_end"], told["image"]) == ("the emulated device", IMAGE)
    assert told["torch"]


def test_of_another_device_its_name_is_all_there_is_to_say() -> None:
    assert ran_in_here({}, "cpu")["back_end"] == "cpu"
    assert ran_in_here({"SPYRE_CI_IMAGE": "x:latest"}, "cpu")["image"] == ""
