from __future__ import annotations

from pathlib import Path

import pytest

from ci.runner.prepared_parent import not_tested, starts_processes, wants_machinery


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("from torch.testing._internal.common_utils import TestCase\n", True),
        ("import torch.testing._internal.common_device_type as common\n", True),
        ("import torch\n\n\ndef test_add() -> None: ...\n", False),
        ("", False),
    ],
)
def test_a_file_wants_the_machinery_when_it_names_it(tmp_path: Path, text: str, wanted: bool) -> None:
    (tmp_path / "test_plain.py").write_text("import torch\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    assert wants_machinery(tmp_path, ["test_plain.py", "test_it.py"]) is wanted


def test_a_file_that_cannot_be_read_is_taken_to_want_it(tmp_path: Path) -> None:
    assert wants_machinery(tmp_path, ["test_gone.py"])


def test_no_file_wants_nothing(tmp_path: Path) -> None:
    assert not wants_machinery(tmp_path, [])


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


@pytest.mark.parametrize(
    ("built", "words"),
    [(False, "device 'cuda': torch 2.13.0+cpu is built without CUDA; spyre-ci tests cpu and PrivateUse1"),
     (True, "device 'cuda': spyre-ci tests cpu and PrivateUse1 devices such as spyre")],
)  # fmt: skip
def test_torchs_own_devices_are_refused_with_what_the_build_lacks(built: bool, words: str) -> None:
    assert not_tested("cuda", "2.13.0+cpu", built=built).startswith(words)
