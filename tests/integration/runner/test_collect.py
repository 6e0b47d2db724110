from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import ci
from ci.device.environment import device_environment
from ci.errors import CommandError, MissingInputError
from ci.runner.collect import Collection, CollectOptions, collect, find_files
from ci.runner.collect_cache import CollectCache


def environment(device: str) -> dict[str, str]:
    root = str(Path(ci.__file__).parent.parent)
    return {**os.environ, **device_environment(device), "PYTHONPATH": root, "PYTHONHASHSEED": "0"}


def collect_files(
    tests: Path,
    files: Sequence[str],
    *,
    device: str = "cpu",
    method: str = "fork",
    cache: CollectCache | None = None,
    timeout_s: float = 60,
    environ: dict[str, str] | None = None,
) -> Collection:
    options = CollectOptions(
        device=device,
        environ=environ or environment(device),
        workers=2,
        threads=1,
        timeout_s=timeout_s,
        method=method,
    )
    seen: list[str] = []
    found = collect(
        tests,
        files,
        version="2.13.0",
        options=options,
        cache=cache,
        progress=lambda file, _tests: seen.append(file),
    )
    assert sorted(seen) == sorted(files)
    return found


EXPECTED = {
    "test_devices.py::TestFirst::test_plain",
    "test_devices.py::TestFirst::test_sizes[dtype=float32,size=1]",
    "test_devices.py::TestFirst::test_sizes[dtype=int64,size=2]",
    "test_devices.py::TestFirst::test_op[dtype=float32,op=add]",
    "test_devices.py::TestFirst::test_op[dtype=float32,op=nn.functional.relu]",
    "test_devices.py::TestSecond::test_plain",
    "test_devices.py::TestPlain::test_power[base=2]",
}


def test_ids_are_the_same_by_fork_by_spawn_and_whatever_was_collected_before(tree: Path) -> None:
    by_fork = collect_files(tree / "test", ["test_devices.py", "test_outcomes.py"])
    ids = [test.id for test in by_fork.catalog.tests]
    assert set(ids) >= EXPECTED
    assert len(set(ids)) == len(ids) == 19
    by_spawn = collect_files(tree / "test", ["test_outcomes.py", "test_devices.py"], method="spawn")
    assert sorted(ids) == sorted(test.id for test in by_spawn.catalog.tests)
    assert by_fork.clashes == {}


def test_op_and_dtype_are_noted_and_the_raw_node_id_too(tree: Path) -> None:
    tests = {test.id: test for test in collect_files(tree / "test", ["test_devices.py"]).catalog.tests}
    test = tests["test_devices.py::TestFirst::test_op[dtype=float32,op=nn.functional.relu]"]
    assert (test.cls, test.template, test.op, test.dtype) == (
        "TestFirst", "test_op", "nn.functional.relu", "float32",
    )  # fmt: skip
    assert test.node.startswith("test_devices.py::TestFirstCPU::test_op_nn_functional_relu_cpu")


def test_the_markers_of_a_test_its_class_and_its_file_are_noted_and_kept_in_the_cache(tree: Path) -> None:
    (tree / "test" / "test_marked.py").write_text(
        """\
import pytest
pytestmark = pytest.mark.everywhere
@pytest.mark.serial
class TestA:
    @pytest.mark.own
    @pytest.mark.skipif(False, reason="never")
    @pytest.mark.parametrize("n", [1])
    def test_x(self, n): pass
    @pytest.mark.usefixtures("tmp_path")
    @pytest.mark.filterwarnings("error")
    def test_y(self): pass
""",
        encoding="utf-8",
    )

    def run() -> Collection:
        cache = CollectCache(folder=tree / "cache", root=tree, tests=tree / "test", key="k")
        return collect_files(tree / "test", ["test_marked.py", "test_devices.py"], cache=cache)

    first, second = run(), run()
    assert (first.cached, second.cached) == (0, 2)
    assert first.catalog.tests == second.catalog.tests
    assert {test.template: test.markers for test in first.catalog.tests if test.markers} == {
        "test_x": ("everywhere", "own", "serial"),
        "test_y": ("everywhere", "serial"),
    }


def test_a_file_that_cannot_be_collected_costs_only_itself(tree: Path) -> None:
    files = find_files(tree / "test", ["test_import_*.py", "sub/*"])
    found = collect_files(tree / "test", files, timeout_s=5)
    errors = found.catalog.collect_errors
    assert errors["test_import_error.py"].startswith(
        "ImportError: cannot import name 'no_such_name_in_torch'"
    )
    assert errors["test_import_crash.py"] == "collecting died by SIGSEGV"
    assert errors["test_import_hang.py"] == "collecting took longer than 5 s and was ended"
    assert "Fatal Python error" in found.details["test_import_crash.py"]
    assert set(errors) == {f"test_import_{what}.py" for what in ("error", "crash", "hang")}
    assert [test.id for test in found.catalog.tests] == ["sub/test_nested.py::test_nested"]
    assert all(record.collect_s > 0 for record in found.catalog.files.values())


def test_a_file_whose_tests_were_not_had_is_never_silently_empty(tree: Path) -> None:
    texts = {
        "test_ctrl_c.py": "raise KeyboardInterrupt\n",
        "test_signal.py": "import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 6)\n",
        "test_a[b].py": "def test_x(): pass\n",
        "test_a::b.py": "def test_x(): pass\n",
        "test_ä b.py": "def test_x(): pass\n",
    }
    for name, text in texts.items():
        (tree / "test" / name).write_text(text, encoding="utf-8")
    environ = {**environment("cpu"), "PYTEST_ADDOPTS": "--no-such-option-of-the-users-own-pytest"}
    found = collect_files(tree / "test", [*texts, "test_gone.py"], environ=environ)
    assert [test.id for test in found.catalog.tests] == ["test_ä b.py::test_x"]
    errors = found.catalog.collect_errors
    assert errors.keys() == {*texts, "test_gone.py"} - {"test_ä b.py"}
    assert errors["test_ctrl_c.py"] == "ended the session: KeyboardInterrupt"
    assert errors["test_signal.py"].startswith("collecting died by signal ")
    assert errors["test_a[b].py"].startswith("pytest cannot take its name")
    assert errors["test_gone.py"] == "the file is gone"


def test_what_a_file_starts_when_it_is_imported_ends_with_the_collection(tree: Path) -> None:
    pid = tree / "pid"
    text = f"""
import pathlib, subprocess
process = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path({str(pid)!r}).write_text(str(process.pid))
def test_x(): pass
"""
    (tree / "test" / "test_daemon.py").write_text(text, encoding="utf-8")
    assert len(collect_files(tree / "test", ["test_daemon.py"]).catalog.tests) == 1
    status = Path(f"/proc/{pid.read_text(encoding='ascii')}/status")
    assert not status.exists() or "\nState:\tZ" in status.read_text(encoding="ascii")


def test_a_file_that_ends_itself_is_noted_and_no_error(tree: Path) -> None:
    record = collect_files(tree / "test", ["test_import_exit.py"]).catalog.files["test_import_exit.py"]
    assert record.error is None
    assert record.note == "ends itself with code 0 when it is imported"


def test_a_file_that_runs_its_own_tests_when_it_is_imported_has_lost_them(tree: Path) -> None:
    body = "import sys, unittest\nsys.argv = ['x']\nclass T(unittest.TestCase):\n    def test_x(self): pass\n"
    (tree / "test" / "test_unguarded.py").write_text(f"{body}unittest.main()\n", encoding="utf-8")
    record = collect_files(tree / "test", ["test_unguarded.py"]).catalog.files["test_unguarded.py"]
    assert record.error is not None
    assert "unittest.main() stands without a guard" in record.error


def test_a_cached_file_is_collected_anew_only_when_a_helper_changes(tree: Path) -> None:
    def run() -> Collection:
        cache = CollectCache(folder=tree / "cache", root=tree, tests=tree / "test", key="k")
        return collect_files(tree / "test", ["test_devices.py", "test_import_error.py"], cache=cache)

    first, second = run(), run()
    assert (first.cached, second.cached) == (0, 2)
    assert first.catalog.tests == second.catalog.tests
    assert first.catalog.collect_errors == second.catalog.collect_errors
    (tree / "test" / "shared_helper.py").write_text("SIZES = [7]\n", encoding="utf-8")
    third = run()
    assert third.cached == 1
    assert any("size=7" in test.id for test in third.catalog.tests)


def test_a_cached_file_is_collected_anew_when_its_data_or_a_forgotten_module_changes(tree: Path) -> None:
    (tree / "test" / "test_data.py").write_text(
        """
import pathlib, sys
import pytest
import shared_helper
del sys.modules["shared_helper"]
NAMES = (pathlib.Path(__file__).parent / "names.txt").read_text().split()
@pytest.mark.parametrize("name", NAMES)
def test_x(name): pass
""",
        encoding="utf-8",
    )
    names = tree / "test" / "names.txt"

    def run() -> Collection:
        cache = CollectCache(folder=tree / "cache", root=tree, tests=tree / "test", key="k")
        return collect_files(tree / "test", ["test_data.py"], cache=cache)

    names.write_text("a", encoding="utf-8")
    assert (run().cached, run().cached) == (0, 1)
    names.write_text("a b", encoding="utf-8")
    changed = run()
    assert changed.cached == 0
    assert [test.id for test in changed.catalog.tests][1:] == ["test_data.py::test_x[name=b]"]


def test_an_environment_without_torch_is_told_with_the_remedy(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "broken" / "torch").mkdir(parents=True)
    init = tmp_path / "broken" / "torch" / "__init__.py"
    init.write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n", encoding="utf-8")
    environ = environment("cpu")
    environ["PYTHONPATH"] = f"{init.parent.parent}:{environ['PYTHONPATH']}"
    with pytest.raises(CommandError, match="pip install") as caught:
        collect_files(tree / "test", ["test_outcomes.py"], environ=environ)
    assert "No module named 'torch'" in str(caught.value)


def test_a_glob_that_matches_nothing_is_told(tree: Path) -> None:
    with pytest.raises(MissingInputError, match=r"no test file matches 'test_nowhere\.py'"):
        find_files(tree / "test", ["test_devices.py", "test_nowhere.py"])
    assert find_files(tree / "test", ["sub/*"]) == ["sub/test_nested.py"]
    assert len(find_files(tree / "test", [])) == 8


def test_a_file_that_comes_by_the_machinery_in_a_roundabout_way_has_the_same_ids(tree: Path) -> None:
    tests = tree / "test"
    text = (tests / "test_devices.py").read_text(encoding="utf-8")
    # What is looked for, in a module beside the test file, so that the file itself does not name it.
    assert "torch.testing" in text
    body = text.replace("from torch.testing._internal.", "from roundabout.")
    (tests / "roundabout").mkdir()
    for name in ("common_utils", "common_device_type", "common_methods_invocations"):
        reexport = f"from torch.testing._internal.{name} import *\n"
        (tests / "roundabout" / f"{name}.py").write_text(reexport, encoding="utf-8")
    (tests / "roundabout" / "__init__.py").write_text("", encoding="utf-8")
    (tests / "test_roundabout.py").write_text(body, encoding="utf-8")
    direct = collect_files(tests, ["test_devices.py"])
    found = collect_files(tests, ["test_roundabout.py"])
    ids = {test.id.replace("test_devices.py", "test_roundabout.py") for test in direct.catalog.tests}
    assert {test.id for test in found.catalog.tests} == ids
