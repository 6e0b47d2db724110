"""The file TORCH_TEST_DEVICES names: torch runs it inside its own module that makes device tests.

Run by `runpy` with that module's globals, so `PrivateUse1TestBase` and `device_type_test_bases` are names
here. It registers the device and defines TEST_CLASS, the base of every generated `…PRIVATEUSE1` class.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ci.device.backend import register_from
from ci.device.environment import DEVICE_TYPE

if TYPE_CHECKING:
    PrivateUse1TestBase: Any = object
    device_type_test_bases: list[Any] = []

register_from(os.environ)

# A backend that was registered before has put the stock base into the list: every class would be made twice.
if PrivateUse1TestBase in device_type_test_bases:
    device_type_test_bases.remove(PrivateUse1TestBase)


# torch lists the device beside cpu and cuda if it is renamed before its test code is imported, as a real
# backend's autoload does. Here that code came first, so the list is put right; both modules hold the name.
for _name in ("torch.testing._internal.common_utils", "torch.testing._internal.common_device_type"):
    _module: Any = sys.modules[_name]
    if DEVICE_TYPE not in _module.NATIVE_DEVICES:
        _module.NATIVE_DEVICES = (*_module.NATIVE_DEVICES, DEVICE_TYPE)


class SpyreTestBase(PrivateUse1TestBase):  # type: ignore[misc]  # known to torch alone
    """The stock base of PrivateUse1 devices, with the device registered."""


TEST_CLASS = SpyreTestBase
