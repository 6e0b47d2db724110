"""What needs a process of its own: another registration, a fork, another package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.device.environment import device_environment

ROOT = Path(__file__).parents[3]
HEAD = "import os, torch\nfrom ci.device import backend\nbackend.register_from(os.environ)\n"


# Has torch from the start; a copy of it runs each piece of code, to the interpreter's own end where asked.
ZYGOTE = """
import importlib, json, os, signal, sys, tempfile
import torch, ci.device.backend
for line in sys.stdin:
    task = json.loads(line)
    said = tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # what hangs is ended
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        os.environ.clear()
        os.environ.update(task["env"])
        sys.path[:0] = task["path"]
        sys.argv[1:] = task["argv"]
        importlib.invalidate_caches()
        break
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said.seek(0)
    print(json.dumps([code, said.read().decode()]), flush=True)
else:
    raise SystemExit
exec(compile(task["code"], "<code>", "exec"), {"__name__": "__main__"})
if not task["whole"]:
    sys.stdout.flush()
    os._exit(0)
"""
Python = Callable[..., str]


@pytest.fixture(scope="module")
def python() -> Iterator[Python]:
    """Runs code in a process of its own, on a device: what it said; CommandError where it failed."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    for name in device_environment("spyre"):
        env.pop(name, None)

    with subprocess.Popen(
        [sys.executable, "-c", ZYGOTE], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(
            code: str,
            *argv: Path,
            device: str = "spyre",
            extra: Sequence[Path] = (),
            whole: bool = False,
            **refused: list[str],
        ) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            task = {
                "code": code,
                "whole": whole,
                "argv": [str(one) for one in argv],
                "path": [str(one) for one in extra],
                "env": env | device_environment(device, **refused),
            }
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            ended, said = json.loads(process.stdout.readline())
            if ended != 0:
                raise CommandError(said)
            return str(said).strip()

        yield run
        assert process.stdin is not None
        process.stdin.close()


def raising(statement: str) -> str:
    return (
        "try:\n    " + statement + "\nexcept Exception as error:\n"
        "    print(type(error).__name__, error)\nelse:\n    print('nothing raised')\n"
    )


@pytest.mark.parametrize(
    ("op", "statement"),
    [
        ("add", "torch.ones(2, device='spyre') + 1"),
        ("add", "torch.ones(2, device='spyre').add_(1)"),
        ("add", "torch.add(t := torch.ones(2, device='spyre'), t, out=t)"),
        ("matmul", "torch.ones(2, 2, device='spyre') @ torch.ones(2, 2, device='spyre')"),
        ("aten::softmax", "torch.ones(2, device='spyre').softmax(0)"),
        ("as_strided", "torch.ones(2, device='spyre').as_strided((1,), (1,))"),
        ("ones", "torch.ones(2, device='spyre')"),
    ],
)
def test_a_refused_operator_says_its_name_and_the_device(python: Python, op: str, statement: str) -> None:
    told = python(HEAD + raising(statement), refuse_ops=[op])
    assert told.startswith("NotImplementedError The operator 'aten::")
    assert op.removeprefix("aten::") in told
    assert told.endswith("is not supported on the 'spyre' device.")


def test_what_is_not_refused_goes_on_and_so_does_the_cpu(python: Python) -> None:
    code = HEAD + "print((torch.ones(2, device='spyre') * 3).tolist(), (torch.ones(2) + 1).tolist())"
    assert python(code, refuse_ops=["add"]) == "[3.0, 3.0] [2.0, 2.0]"


@pytest.mark.parametrize(
    "statement",
    [
        "torch.ones(2, device='spyre', dtype=torch.float64)",
        "torch.ones(2, dtype=torch.float64).to('spyre')",
        "torch.ones(2, device='spyre').double()",
        "torch.ones(2, device='spyre').to(torch.float64)",
        "torch.ones(2, device='spyre').view(torch.float64)",
        "torch.ones(2, device='spyre').sum(dtype=torch.float64)",
        "torch.empty(0, dtype=torch.float64, device='spyre')",
    ],
)
def test_a_refused_dtype_is_never_on_the_device(python: Python, statement: str) -> None:
    told = python(HEAD + raising(statement), refuse_dtypes=["float64"])
    assert told == ("NotImplementedError The dtype torch.float64 is not supported on the 'spyre' device.")


def test_the_cpu_may_hold_what_the_device_refuses(python: Python) -> None:
    code = HEAD + (
        "wide = torch.zeros(2, dtype=torch.float64)\n"
        "print(wide.copy_(torch.ones(2, device='spyre')).tolist(), wide.to('spyre', torch.float32).tolist())"
    )
    assert python(code, refuse_dtypes=["float64"]) == "[1.0, 1.0] [1.0, 1.0]"


def test_the_device_may_be_the_default(python: Python) -> None:
    code = HEAD + (
        "torch.set_default_device('spyre')\n"
        "x = torch.tensor([1.0, 2.0], requires_grad=True)\n"
        "(x.sort()[0] * torch.rand(2).exp()).sum().backward()\n"
        "print(x.device, x.grad.device, torch.empty(0).resize_(3).device, torch.ones(2, device='cpu').device)"
    )
    assert python(code) == "spyre:0 spyre:0 spyre:0 cpu"


def test_a_process_that_used_backward_ends_well(python: Python) -> None:
    code = HEAD + (
        "x = torch.ones(50, 50, device='spyre', requires_grad=True)\n"
        "(x @ x).exp().sum().backward()\n"
        "print(x.grad.device)"
    )
    # Autograd's thread and the end of the interpreter raced: one in three processes aborted.
    assert [python(code, whole=True) for _ in range(4)] == ["spyre:0"] * 4


def test_a_misspelt_refusal_ends_with_the_nearest_name(python: Python) -> None:
    with pytest.raises(CommandError, match="did you mean"):
        python(HEAD, refuse_ops=["softmx"])


def test_a_forked_child_computes_on_a_device_registered_before_the_fork(python: Python) -> None:
    code = (
        "import os, torch\nfrom ci.device import backend\n"
        "def threads():\n"
        "    tasks = '/proc/self/task'\n"
        "    return len(os.listdir(tasks)) if os.path.isdir(tasks) else 0\n"
        "before = threads()\n"
        "backend.register_from(os.environ)\n"
        "assert threads() == before\n"
        "for seed in range(2):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        x = torch.ones(300, 300, device='spyre', requires_grad=True)\n"
        "        (x @ x).sum().backward()\n"
        "        os._exit(0 if x.grad.sum().item() == 300 * 300 * 600 else 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "print('computed')\n"
    )
    assert python(code) == "computed"


def test_a_real_package_is_used_instead_and_nothing_is_emulated(python: Python, tmp_path: Path) -> None:
    package = tmp_path / "torch_spyre"
    package.mkdir()
    (package / "__init__.py").write_text("loaded = True\n")
    info = tmp_path / "torch_spyre-9.8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_spyre\nVersion: 9.8\n")
    code = HEAD + "print(backend.describe(), torch._C._get_privateuse1_backend_name())"
    assert python(code, extra=[tmp_path]) == "torch_spyre 9.8 privateuseone"


def test_the_emulated_device_can_be_had_beside_a_real_package(python: Python, tmp_path: Path) -> None:
    package = tmp_path / "torch_spyre"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('there is no card')\n")
    code = (
        "import os, torch\nfrom ci.device import backend\n"
        "backend.register_from({**os.environ, 'SPYRE_CI_EMULATE': '1'})\n"
        "print(torch.ones(2, device='spyre').sum().item(), backend.describe().split()[0])"
    )
    assert python(code, extra=[tmp_path]) == "2.0 emulated"


def test_where_emulation_is_ruled_out_a_process_without_the_package_ends(python: Python) -> None:
    code = "import os\nfrom ci.device import backend\n" + raising(
        "backend.register_from({**os.environ, 'SPYRE_CI_EMULATE': '0'})"
    )
    said = python(code)
    assert said.startswith("BackEndError ")
    assert "torch_spyre is not installed here, and SPYRE_CI_EMULATE=0 rules the emulated device out" in said


def test_another_backend_in_the_process_is_not_overwritten(python: Python) -> None:
    code = (
        "import os, torch\ntorch.utils.rename_privateuse1_backend('openreg')\nfrom ci.device import backend\n"
        + raising("backend.register()")
    )
    assert python(code).startswith("DeviceError PyTorch's PrivateUse1 is 'openreg' in this process already")


def test_an_unregistered_process_says_so(python: Python) -> None:
    assert python("from ci.device import backend; print(backend.describe())") == "none registered"


@pytest.mark.nightly
def test_generated_classes_are_made_once_and_for_the_device_alone(python: Python, tmp_path: Path) -> None:
    module = tmp_path / "test_generated.py"
    module.write_text(
        "from torch.testing._internal.common_device_type import instantiate_device_type_tests\n"
        "from torch.testing._internal.common_device_type import onlyNativeDeviceTypes\n"
        "from torch.testing._internal.common_utils import TestCase\n"
        "import torch\n"
        "class TestIt(TestCase):\n"
        "    @onlyNativeDeviceTypes\n"
        "    def test_it(self, device):\n"
        "        assert torch.ones(1, device=device).device.type == torch.device(device).type\n"
        "class TestMore(TestCase):\n"
        "    def test_it(self, device):\n"
        "        assert device.startswith(self.device_type)\n"
        "instantiate_device_type_tests(TestIt, globals())\n"
        "instantiate_device_type_tests(TestMore, globals())\n"
    )
    seen = {}
    for device in ("spyre", "cpu"):
        report = tmp_path / f"{device}.json"
        code = (
            "import json, pytest, sys\n"
            "class Seen:\n"
            "    ids = {}\n"
            "    def pytest_runtest_logreport(self, report):\n"
            "        if report.when == 'call': self.ids[report.nodeid.split('::', 1)[1]] = report.outcome\n"
            "pytest.main(['-q', '-c', '/dev/null', '--rootdir', sys.argv[1], sys.argv[2]], "
            "plugins=[Seen()])\n"
            "json.dump(Seen.ids, open(sys.argv[3], 'w'))\n"
        )
        python(code, tmp_path, module, report, device=device)
        seen[device] = json.loads(report.read_text())
    assert seen == {
        "spyre": {
            "TestItPRIVATEUSE1::test_it_spyre": "passed",
            "TestMoreSPYRE::test_it_spyre": "passed",
        },
        "cpu": {"TestItCPU::test_it_cpu": "passed", "TestMoreCPU::test_it_cpu": "passed"},
    }
