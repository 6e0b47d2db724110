from __future__ import annotations

import pytest

from ci.device import backend


@pytest.fixture(scope="session", autouse=True)
def spyre() -> None:
    """The emulated device, registered in this process once and only where these tests run."""
    backend.register()
