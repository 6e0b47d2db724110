"""What tests run in, as the process that runs them finds it: the planner's environment is another one."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from ci.core.errors import DeviceError
from ci.core.provider import detect
from ci.runner.back_end import back_end_of
from ci.runner.installed import installed_torch
from ci.runner.recorded import recorded


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
