"""What verbs of tests find: plans, quarantines, suites, what pipelines hand on."""

from __future__ import annotations

import json
import shutil

from ci.report.op_maps import keep_op_map
from ci.store.store import Store
from test_selection.catalog import read_catalog
from test_selection.op_map import FILE as OP_MAP
from test_selection.op_map import make_op_map, read_op_map, write_op_map

from .world import World

# One fault can be put into it.
KERNELS = """\
@impl("aten::add.Tensor")
def add(a, b):
    return b
"""

SUITE = """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_view_ops.py
      unlisted_test_mode: mandatory_success
"""


def plan_here(world: World) -> None:
    """A plan of eight shards, and what it was made of, beside the settings."""
    # Of equal tests, so that it is always the same ones that the last shard has.
    run = world.folder / "runs" / "nightly"
    ids = json.loads((run / "selection.json").read_text(encoding="utf-8"))["ids"]
    world.write(
        "durations.json",
        {
            "schema": "spyre-ci/durations/1",
            "tests": dict.fromkeys(ids, 1.0),
            "files": {"test_view_ops.py": 0.1},
        },
    )
    words = ("--run-dir", "runs/nightly", "--durations", "durations.json", "--shards", "8")
    assert world.call("plan", *words).code == 0
    for name in ("plan.json", "catalog.jsonl.gz", "selection.json", "run.json"):
        shutil.copy(world.folder / "runs" / "nightly" / name, world.folder)


def class_times(world: World) -> None:
    """PyTorch's public times."""
    times = {"linux-jammy-py3.10-gcc11/default": {"test_view_ops": {"TestViewOps": 1.5}}}
    world.write("test-class-times.json", times)


def quarantine(world: World) -> None:
    """A quarantine of a test that is there."""
    world.write(
        "quarantine.yaml",
        "quarantine:\n- test: test_view_ops.py::TestViewOps::test_fails\n  owner: me\n"
        "  issue: https://example.org/1\n  reason: known\n  expires: 2026-12-20\n",
    )


def suites(world: World) -> None:
    """A suite file of the tree."""
    world.write("tests/configs/view.yaml", SUITE)
    world.settings("pytorch: {suite: tests/configs/view.yaml}\n")


def repository(world: World) -> None:
    """The project under Git, with a change."""
    world.write(".gitignore", "runs/\n.spyre-ci/\n")
    world.git("init", "--quiet", "--initial-branch=main")
    world.git("add", "--all")
    world.git("commit", "--quiet", "--message", "begin")
    world.git("checkout", "--quiet", "-b", "change")
    world.write("ci/new.py", "x = 1\n")
    world.git("add", "--all")
    world.git("commit", "--quiet", "--message", "change")


def changed(world: World) -> None:
    """The project under Git, with a back end whose kernel a branch changes, and what each test calls."""
    world.write("torch_spyre/kernels.py", KERNELS)
    world.write("torch_spyre/__init__.py", "")
    repository(world)
    world.git("update-ref", "refs/remotes/origin/main", "main")
    run = world.folder / "runs" / "nightly"
    catalog = read_catalog(run / "catalog.jsonl.gz")
    traces = {test.id: ["aten::add.Tensor float32"] for test in catalog.tests}
    op_map = make_op_map(traces, pytorch=catalog.pytorch, device=catalog.device)
    for folder in (run, world.folder):
        write_op_map(folder / OP_MAP, op_map)
    world.write("torch_spyre/kernels.py", KERNELS.replace("b", "c"))
    world.git("commit", "--quiet", "--all", "--message", "change a kernel")


def traced(world: World) -> None:
    """What tests called in a run, in the store."""
    changed(world)
    op_map = read_op_map(world.folder / OP_MAP)
    with Store(world.folder / ".spyre-ci" / "store.sqlite").transaction() as connection:
        keep_op_map(connection, op_map, at=1.0)


def needs(world: World) -> None:
    """What GitHub says of the jobs before."""
    world.write(
        "needs.json", {name: {"result": "success", "outputs": {}} for name in ("changes", "lint", "unit")}
    )


def ci_run(world: World) -> None:
    """The run as a pipeline has it."""
    (world.folder / "runs" / "nightly").rename(world.folder / "runs" / "ci")


def ci_plan(world: World) -> None:
    """A plan that was made elsewhere."""
    repository(world)
    said = world.call(
        "pipeline", "plan", "--pytorch-src", str(world.base / "home" / "pytorch"), "--percent", "100"
    )
    assert said.code == 0, said.err


def run_again(world: World) -> None:
    """Another run, of the day after."""
    runs = world.folder / "runs"
    shutil.copytree(runs / "nightly", runs / "tuesday")


def history_of_pytorch(world: World) -> None:
    """PyTorch's repository with a release and some commits after it, as the settings name it."""
    tree = world.base / "home" / "pytorch"
    world.settings(f"pytorch: {{source: {tree}}}\n")
    world.git("init", "--quiet", "--initial-branch", "main", str(tree))
    world.git("-C", str(tree), "add", ".")
    for number in range(8):
        world.git("-C", str(tree), "commit", "--quiet", "--allow-empty", "-m", f"Change {number}")
        if number == 0:
            world.git("-C", str(tree), "tag", "v2.12.0")
