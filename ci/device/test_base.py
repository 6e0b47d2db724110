"""The file TORCH_TEST_DEVICES names: torch runs it inside its own module that makes device tests.

Run by `runpy` with that module's globals, so `PrivateUse1TestBase` and `device_type_test_bases` are names
here. It registers the device and defines TEST_CLASS, the base of every generated `…PRIVATEUSE1` class.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ci.device.backend import register_from

if TYPE_CHECKING:
    PrivateUse1TestBase: Any = object
    device_type_test_bases: list[Any] = []

register_from(os.environ)

# A backend that was registered before has put the stock base into the list: every class would be made twice.
if PrivateUse1TestBase in device_type_test_bases:
    device_type_test_bases.remove(PrivateUse1TestBase)


class SpyreTestBase(PrivateUse1TestBase):
    """The stock base of PrivateUse1 devices, with the device registered."""


TEST_CLASS = SpyreTestBase
