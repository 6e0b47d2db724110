"""A plugin of pytest: the device is there before any test file is imported (`-p ci.device.pytest_plugin`)."""

from __future__ import annotations

import os

from ci.device.backend import register_from

register_from(os.environ)
