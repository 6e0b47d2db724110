from __future__ import annotations

import pytest

from ci.runner.forking import starts_processes


@pytest.mark.parametrize(
    "source",
    [
        "import multiprocessing",
        "import torch.multiprocessing as mp",
        "from torch import multiprocessing",
        "from torch.testing._internal.common_distributed import MultiProcessTestCase",
        "from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase",
        "def test():\n    import os\n    pid = os.fork()",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
    ],
)
def test_what_starts_processes_is_found(source: str) -> None:
    assert starts_processes(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch",
        "# multiprocessing is not for this file",
        "import torch.distributed as dist",
        "text = 'os.fork()'",
        "def broken(:\n    import multiprocessing",
        "\0multiprocessing",
        "",
    ],
)
def test_what_does_not_is_left_alone(source: str) -> None:
    assert not starts_processes(source)
